"""First contact: sessions that start without a broker, and brokers that go and stall beside sessions."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tellwire import Agent
from tellwire.clients.client import Programs
from tellwire.mcp.session import client_of
from tellwire.system.processes import Process
from tests.integration.hook_client import CODEX, SESSION, Client, activity, open_client, restart
from tests.integration.stand_in import RELAY
from tests.integration.world import WITHIN_S, Home, Join, until

CLAUDE = "claude-code"
HOOK_S = 2.0
"""What a hook may cost, with a margin of our own below it."""


def told(client: Client, session: str, event: str = "SessionStart", **fields: str) -> str:
    """What Claude Code tells its hooks and waiters."""
    about = {"session_id": session, "hook_event_name": event, "cwd": str(Path.cwd())}
    return json.dumps({**about, "transcript_path": str(client.rollout), **fields})


async def begin(client: Client, session: str) -> None:
    """Start as Claude Code does: hook and waiter, and then its MCP server."""
    payload = told(client, session, source="startup")
    assert (await client.do("hook", client=CLAUDE, payload=payload))["code"] == 0
    await client.do("wait", client=CLAUDE, payload=payload)


@pytest.fixture
async def two(home: Home, tmp_path: Path) -> AsyncIterator[list[Client]]:
    """Two stand-ins for Claude Code in one folder; nobody has joined, and no broker runs."""
    async with (
        open_client(home, tmp_path / "one.jsonl", program=CLAUDE, name="") as one,
        open_client(home, tmp_path / "two.jsonl", program=CLAUDE, name="") as other,
    ):
        yield [one, other]


@pytest.mark.requirement("FIRST-1", stage="contact")
async def test_two_sessions_of_one_folder_that_start_before_the_broker_get_their_own_mail(
    two: list[Client], join: Join
) -> None:
    names = ["shop-claude", "shop-claude-2"]
    await asyncio.gather(*(begin(client, f"session-{number}") for number, client in enumerate(two)))
    await asyncio.gather(*(client.do("join", name=name) for client, name in zip(two, names, strict=True)))
    alice = await join("alice")
    for name in names:
        await alice.send(name, f"For {name} alone.")
    for client, name in zip(two, names, strict=True):
        woken = await client.do("woken", within_s=WITHIN_S)
        assert woken["code"] == 2
        assert woken["err"].count(f"For {name} alone.") == 1
        assert woken["err"].count("alone.") == 1


@pytest.mark.requirement("FIRST-1", stage="contact")
@pytest.mark.parametrize(("kind", "program"), [("codex", CODEX), ("gemini-cli", "gemini-cli-mcp-client")])
async def test_a_start_that_no_broker_hears_is_known_to_the_next_and_to_the_one_after_it(
    home: Home, join: Join, tmp_path: Path, kind: str, program: str
) -> None:
    async with open_client(home, tmp_path / "t.jsonl", program=program, name="") as client:
        before = time.monotonic()
        await client.hook("SessionStart", kind=kind, source="startup")
        assert time.monotonic() - before < HOOK_S + 1.0, "and the start of two programs"
        await client.do("join", name="worker")
        alice = await join("alice")
        await until(lambda: activity(alice), what="its session")
        assert await activity(alice) == "idle"
        await until(lambda: not list(home.path.glob("starts/*")), what="no note left")
        await restart(home, alice)
        assert await activity(alice) == "idle"


@pytest.mark.requirement("FIRST-1", "FIRST-4", stage="contact")
async def test_a_start_that_comes_before_its_shim_is_known_also_under_a_name_that_was_borne_before(
    home: Home, join: Join, tmp_path: Path
) -> None:
    home.up()
    alice = await join("alice")
    folder = tmp_path / "shop"
    folder.mkdir()
    kind, program, name = "gemini-cli", "gemini-cli-mcp-client", "shop-gemini"
    for session in ("the-former", "the-next"):
        async with open_client(home, tmp_path / f"{session}.jsonl", program=program, name="") as client:
            begun = {"kind": kind, "source": "startup", "session_id": session, "cwd": str(folder)}
            if session == "the-next":
                await client.hook("SessionStart", **begun)
            await client.do("join", name="", cwd=str(folder))
            if session == "the-former":
                await client.hook("SessionStart", **begun)
            await until(lambda: is_idle(alice, name), what=f"{session} idle")
        await until(lambda: is_gone(alice, name), what=f"the end of {session}")


async def is_gone(asker: Agent, name: str) -> bool:
    """Whether an agent has left."""
    return any(peer.name == name and peer.status == "offline" for peer in await asker.peers(all=True))


@pytest.mark.requirement("FIRST-1", stage="contact")
async def test_a_start_beside_a_stopped_broker_is_known_once_that_goes_on(
    home: Home, join: Join, tmp_path: Path
) -> None:
    home.up()
    alice = await join("alice")
    async with open_client(home, tmp_path / "t.jsonl", name="") as client:
        home.signal(Home.STOP)
        try:
            before = time.monotonic()
            await client.hook("SessionStart", source="startup")
            assert time.monotonic() - before < HOOK_S + 0.5, "and the start of a program"
        finally:
            home.signal(Home.GO_ON)
        await client.do("join", name="worker")
        await until(lambda: activity(alice), what="its session")
        assert await activity(alice) == "idle"


@pytest.mark.requirement("FIRST-1", stage="contact")
async def test_a_waiter_tells_every_broker_whose_it_is(two: list[Client], home: Home, join: Join) -> None:
    home.up()
    alice = await join("alice")
    names = ["one", "other"]
    for client, name in zip(two, names, strict=True):
        await client.do("join", name=name)
        await client.do("wait", client=CLAUDE, payload=told(client, f"session-{name}"))
    home.tellwire("down")
    for path in home.path.glob("bindings/*"):
        path.unlink()  # as if none had ever been written
    home.up()
    for client, name in zip(two, names, strict=True):
        await alice.send(name, f"For {name} alone.")
        assert f"For {name} alone." in (await client.do("woken", within_s=WITHIN_S))["err"]


@pytest.mark.requirement("FIRST-1", stage="contact")
async def test_of_two_waiters_of_one_client_the_younger_stays_with_its_session(
    two: list[Client], home: Home, join: Join
) -> None:
    home.up()
    client, _ = two
    await client.do("join", name="worker")
    alice = await join("alice")
    await client.do("wait", client=CLAUDE, payload=told(client, "before-clear", "Stop"))
    assert (await client.do("woken", within_s=0.5))["code"] is None, "it waits"
    home.tellwire("down")
    await client.do("wait", client=CLAUDE, payload=told(client, "after-clear"))
    home.up()
    assert (await client.do("woken", index=0, within_s=WITHIN_S))["code"] == 0
    await alice.send("worker", "Wake up.")
    assert "Wake up." in (await client.do("woken", within_s=WITHIN_S))["err"]
    (note,) = home.path.glob("bindings/*.json")
    assert json.loads(note.read_text("utf-8"))["session"] == "after-clear"


async def test_a_waiter_of_an_earlier_version_goes_on_as_before(two: list[Client], home: Home) -> None:
    home.up()
    await two[0].do("wait", client=CLAUDE)
    assert (await two[0].do("woken", within_s=0.5))["code"] is None


@pytest.mark.parametrize("junk", [b"", b"\n", b"{", b'{"client":"codex"}\n[]', b"\xff" * 70_000])
async def test_notes_that_make_no_sense_are_removed(home: Home, tmp_path: Path, junk: bytes) -> None:
    folder = home.path / "starts"
    folder.mkdir()
    async with open_client(home, tmp_path / "t.jsonl", name="") as client:
        (folder / f"{client.pid}..1").write_bytes(junk)
        (folder / f"{client.pid}.1.2").write_bytes(b'{"client":"codex"}\n{}')  # of one that had its number
        (folder / "1234567890.1.3").write_bytes(junk)
        home.up()
        await until(lambda: not list(folder.iterdir()), what="no note left")
    assert "Traceback" not in home.log


async def test_no_more_notes_are_kept_than_a_broker_would_read(home: Home, tmp_path: Path) -> None:
    folder = home.path / "starts"
    folder.mkdir(mode=0o700)
    for number in range(200):
        (folder / f"1.1.{number}").touch()
    home.up()
    home.signal(Home.STOP)
    async with open_client(home, tmp_path / "t.jsonl", name="") as client:
        for number in range(200):
            (folder / f"1.1.{number}").touch()
        await client.hook("SessionStart", source="startup")
        assert len(list(folder.iterdir())) == 200


@pytest.mark.requirement("FIRST-3", stage="contact")
async def test_a_prompt_and_a_compaction_do_not_bring_a_stopped_broker_back(
    home: Home, tmp_path: Path
) -> None:
    home.up()
    async with open_client(home, tmp_path / "t.jsonl") as client:
        home.tellwire("down")
        await client.hook("UserPromptSubmit", prompt='say "hook_event_name":"SessionStart"')
        await client.hook("SessionStart", source="compact")
        assert not home.starters()
        await client.hook("SessionStart", source="clear")
        await until(home.brokers, what="a broker")


@pytest.mark.requirement("FIRST-1", stage="contact")
async def test_mail_that_is_there_before_a_late_start_wakes_the_session(
    two: list[Client], home: Home, join: Join
) -> None:
    home.up()
    client, _ = two
    await client.do("join", name="worker")
    alice = await join("alice")
    await alice.send("worker", "Wake up.")
    await client.do("wait", client=CLAUDE)  # as one of an earlier version, which does not tell whose it is
    payload = told(client, "session", source="startup").encode()
    facts = {"version": 1, "client": CLAUDE, "bytes": len(payload), "listens": False}
    hello = json.dumps({"tellwire": 1, "program": "hook", "hook": facts}).encode() + b"\n" + payload
    assert await client.do("say", path=str(home.settings.socket), data=hello.decode()) == ""
    assert "Wake up." in (await client.do("woken", within_s=WITHIN_S))["err"]


def test_a_shim_whose_client_is_gone_does_not_take_init_for_it() -> None:
    shim, init = Process(4711, "889", 1, 0), Process(1, "0", 0, 0)
    assert client_of([shim, init]) is None, "everybody would be beneath that agent"


# -- a broker that stalls ------------------------------------------------------------------------------


@pytest.mark.requirement("FIRST-3", stage="contact")
async def test_beside_a_stopped_broker_one_hook_waits_and_the_rest_of_the_turn_does_not(
    home: Home, join: Join, tmp_path: Path
) -> None:
    home.up()
    alice = await join("alice")
    async with open_client(home, tmp_path / "t.jsonl") as client:
        await client.hook("UserPromptSubmit", prompt="Work.")
        mark = home.path / "stalled" / str(client.pid)
        home.signal(Home.STOP)
        try:
            first = await timed(client, "PostToolUse")
            assert mark.exists()
            others = [await timed(client, event) for event in ("PreToolUse", "PostToolUse", "Stop")]
        finally:
            home.signal(Home.GO_ON)
        assert first < HOOK_S + 0.5, "and the start of a program"
        assert max(others) < 1.0, "the start of a program"
        await until(lambda: not mark.exists(), what="no mark, since the broker lives")
        await until(lambda: is_idle(alice), what="the end of the turn, which was told and not waited for")
        await client.hook("UserPromptSubmit", prompt="And?")
        sent = await alice.send("worker", "Is it done?")
        given = await client.hook("PostToolUse", tool_name="x", tool_input={})
        assert f"id={sent.id} " in given["hookSpecificOutput"]["additionalContext"], "hooks work again"


async def timed(client: Client, event: str) -> float:
    """How long a hook takes that says nothing."""
    before = time.monotonic()
    assert await client.hook(event, tool_name="x", tool_input={}, last_assistant_message="Done.") == {}
    return time.monotonic() - before


async def is_idle(asker: Agent, name: str = "worker") -> bool:
    """Whether an agent is there, and no turn of it is under way."""
    peers = await asker.peers(all=True)
    return any((peer.name, peer.status, peer.activity) == (name, "online", "idle") for peer in peers)


@pytest.mark.requirement("FIRST-3", stage="contact")
async def test_a_new_turn_asks_a_stopped_broker_again(home: Home, tmp_path: Path) -> None:
    home.up()
    async with open_client(home, tmp_path / "t.jsonl") as client:
        mark = home.path / "stalled" / str(client.pid)
        mark.parent.mkdir()
        mark.touch()
        await client.hook("UserPromptSubmit", prompt="Work.")
        assert not mark.exists()


@pytest.mark.requirement("FIRST-3", stage="contact")
async def test_the_gate_is_shut_while_the_broker_stalls(home: Home, join: Join, tmp_path: Path) -> None:
    home.up()
    alice = await join("alice")
    gate = Programs(server=(), python=sys.executable, relay=str(RELAY), marks=f"{home.path}/marks").gate(
        "codex"
    )
    async with open_client(home, tmp_path / "t.jsonl") as client:
        await client.hook("UserPromptSubmit", prompt="Work.")
        sent = await alice.send("worker", "Is it done?")
        await until((home.path / "marks" / str(client.pid)).exists, what="the mark")
        payload = told(client, SESSION, "PostToolUse", tool_name="x")
        mark = home.path / "stalled" / str(client.pid)
        mark.parent.mkdir()
        mark.touch()
        assert await client.do("shell", command=gate, payload=payload) == {"code": 0, "out": "", "err": ""}
        mark.unlink()
        done = await client.do("shell", command=gate, payload=payload)
        assert f"id={sent.id} " in done["out"]
