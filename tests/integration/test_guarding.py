"""Writes that are asked about first: through the doors of all five clients, and without a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.paths import socket_path
from tellwire.relay.guard import UNREADABLE
from tellwire.relay.writes import PATHS_MAX
from tests.integration.hook_client import SESSION, Client, open_client, restart
from tests.integration.leave import PROGRAMS, Alone, Ask, asking, patch, reason_in, served, written
from tests.integration.scoped import open_kid
from tests.integration.world import WITHIN_S, Home, Join, until

OVER_HTTP = ("claude-code", "opencode", "pi")
every_client = pytest.mark.parametrize("kind", PROGRAMS)
UNJUDGED = f"{UNREADABLE} Nothing was written."


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up()
    return home


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a folder that is to be claimed."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    return folder.resolve()


@pytest.fixture
async def worker(running: Home, tmp_path: Path, shop: Path, kind: str) -> AsyncIterator[tuple[Client, Ask]]:
    """A stand-in for a client, in a session that nobody started, and how it asks."""
    endpoint = await served(running) if kind in OVER_HTTP else None
    async with open_client(running, tmp_path / "rollout.jsonl", program=PROGRAMS[kind]) as client:
        if kind == "claude-code":
            await client.hook("SessionStart", kind=kind, source="startup", cwd=str(shop))
        yield client, asking(running, client, kind, shop, endpoint)


@pytest.fixture
async def commanded(
    running: Home, tmp_path: Path, shop: Path, kind: str
) -> AsyncIterator[tuple[Client, Ask]]:
    """The same, and it asks by a command."""
    async with open_client(running, tmp_path / "rollout.jsonl", program=PROGRAMS[kind]) as client:
        yield client, asking(running, client, kind, shop, None)


# -- with a broker ------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-5", stage="lineage")
@every_client
async def test_a_write_to_anothers_claim_is_refused_and_names_the_owner(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path
) -> None:
    client, ask = worker
    alice = await join("alice")
    hers = shop / "src" / "deep" / "a.py"
    assert await ask(hers) == "", "nobody has claimed it"
    await alice.scopes.claim([str(shop / "src")])
    await asked_for(running, client)
    (shop / "link").symlink_to(shop / "src")
    for path in (hers, "src/deep/a.py", "./link/deep/a.py", "docs/../src/deep/a.py"):
        reason = await ask(path)
        assert reason.startswith(f"{hers} belongs to alice (write {shop / 'src'})."), path
        assert reason.endswith("Nothing was written.")
    assert await ask(hers, agent_id="a1", agent_type="Explore") != "", "a sub-agent is no way around it"
    for path in ("free.txt", "srcs/a.py", shop.parent / "x"):
        assert await ask(path) == "", path
    await refused_on_record(running, "worker", "scope_conflict")
    await alice.scopes.release()
    await until(lambda: ask_none(ask, hers), what="free again")


async def asked_for(home: Home, client: Client) -> None:
    """A client whose hooks are commands has its gate opened."""
    listed = json.loads(home.tellwire("list", "--all", "--json").stdout)["agents"]
    if any(agent["name"] == "worker" and agent["kind"] in ("codex", "gemini-cli") for agent in listed):
        await until((home.path / "guards" / str(client.pid)).exists, what="an open gate")


async def ask_none(ask: Ask, path: Path) -> bool:
    return await ask(path) == ""


async def refused_on_record(home: Home, who: str, code: str) -> None:
    """The audit tells of a write that was refused."""

    def told() -> bool:
        rows = json.loads(home.tellwire("audit", "--json").stdout)["rows"]
        found = [(row["who"], row["detail"]) for row in rows if row["type"] == "call_refused"]
        return any(
            name == who and {"write", code} <= set(map(str, detail.values())) for name, detail in found
        )

    await until(told, what="the refusal on record")


@every_client
async def test_the_next_broker_refuses_as_the_one_before(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path, kind: str
) -> None:
    client, ask = worker
    alice = await join("alice")
    await alice.scopes.claim([str(shop / "src")])
    await asked_for(running, client)
    assert "belongs to alice" in await ask("src/a")
    await restart(running, alice)
    if kind in OVER_HTTP:
        await served(running)
    await asked_for(running, client)
    assert "belongs to alice" in await ask("src/a")
    assert await ask("free") == ""


@pytest.mark.parametrize("kind", ["codex"])
async def test_one_file_of_a_patch_refuses_it_all_and_each_is_named(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path
) -> None:
    client, ask = worker
    alice, bob = await join("alice"), await join("bob")
    await alice.scopes.claim([str(shop / "src")])
    await bob.scopes.claim([str(shop / "docs")])
    await asked_for(running, client)
    reason = await ask("free", tool_input=patch("free", "src/a", "docs/b", "src/c"))
    for path, owner in (("src/a", "alice"), ("docs/b", "bob"), ("src/c", "alice")):
        assert reason.count(f"{shop / path} belongs to {owner}") == 1
    assert "free" not in reason
    many = await ask("free", tool_input=patch(*(f"src/{number}" for number in range(500))))
    assert "492 more files" in many
    assert len(many) < 9_900
    more = patch(*(f"free/{number}" for number in range(PATHS_MAX + 1)))
    assert await ask("free", tool_input=more) == UNJUDGED


@pytest.mark.parametrize("kind", ["codex", "gemini-cli"])
async def test_a_gate_is_open_only_while_somebody_else_has_a_claim(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path
) -> None:
    client, _ask = worker
    alice = await join("alice")
    gate = running.path / "guards" / str(client.pid)
    assert not gate.exists()
    assert (await client.do("tellwire", words=["claim", str(shop / "mine")]))["code"] == 0
    await alice.scopes.claim([str(shop / "src")])
    await until(gate.exists, what="open")
    assert not gate.with_suffix(".json").exists(), "it has no scope to be judged by"
    await alice.scopes.release()
    await until(lambda: not gate.exists(), what="shut")
    await alice.scopes.claim([str(shop / "src")])
    await until(gate.exists, what="open again")
    await client.end()
    await until(lambda: not gate.exists(), what="gone with its client")


@pytest.mark.requirement("CHILD-5", stage="lineage")
@every_client
async def test_what_cannot_be_judged_is_refused_while_somebody_else_has_a_claim(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path, kind: str
) -> None:
    client, ask = worker
    alice = await join("alice")
    (field,) = set(written(kind, "x")["tool_input"]) - {"content"}
    nonsense: list[Any] = [None, [], 7, {}, {field: 7}, {field: ""}]
    for given in nonsense:
        assert await ask("x", tool_input=given) == "", "nobody has a claim: nothing is judged"
    await alice.scopes.claim([str(shop / "src")])
    await asked_for(running, client)
    for given in nonsense:
        assert await ask("x", tool_input=given) == UNJUDGED, given
    for path in ("a\0b", "src/" + "a/" * 3_000, "/proc/self/cwd/src/a"):
        assert await ask(path) == UNJUDGED, path
    for cwd in ("", ".", 7):
        assert await ask("src/a", cwd=cwd) == UNJUDGED, cwd
    assert await ask("x", tool_name=["Write"]) == UNJUDGED
    if kind != "claude-code":  # here it asks as an earlier version did, which does not tell its process
        assert "belongs to alice" in await ask("src/a", session_id="not a session")
    assert await ask("free") == ""
    assert "failed" not in running.log
    assert "Traceback" not in running.log


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize("kind", ["claude-code", "codex", "gemini-cli"])
async def test_no_payload_that_a_hook_brings_gets_around_a_claim(
    commanded: tuple[Client, Ask], running: Home, join: Join, shop: Path, kind: str
) -> None:
    client, ask = commanded
    alice = await join("alice")
    await alice.scopes.claim([str(shop / "src")])
    await until((running.path / "guards" / str(client.pid)).exists, what="an open gate")
    (shop / "src" / "a").touch()
    (shop / "hard").hardlink_to(shop / "src" / "a")
    assert "is a hard link to" in await ask("hard")
    for path, refused in (("src/a", True), ("free", False)):
        (name, where), *_ = written(kind, path)["tool_input"].items()
        for text in ("\ud83d", "x" * 3_000_000, [{name: "free"}, "x" * 2_000_000]):
            reason = await ask(path, tool_input={"content": text, name: where})
            assert ("belongs to alice" in reason) == refused, (path, str(text)[:20])
    deep = json.dumps({"session_id": SESSION, "cwd": str(shop), **written(kind, "src/a")})[:-1]
    for raw in (f'{deep},"x":{"[" * 50_000}', deep):
        done = await client.do("hook", client=kind, payload=raw, marks=str(running.path / "guards"))
        assert reason_in(kind, json.loads(done["out"])) == UNJUDGED


@pytest.mark.requirement("SEC-3", stage="broker")
@pytest.mark.parametrize("kind", ["codex"])
async def test_a_prompt_that_is_not_quite_unicode_brings_the_mail_all_the_same(
    worker: tuple[Client, Ask], join: Join
) -> None:
    client, _ = worker
    alice = await join("alice")
    await alice.send("worker", "good news")
    told = await client.hook("UserPromptSubmit", prompt="what \ud83d is that")
    assert "good news" in told["hookSpecificOutput"]["additionalContext"]


# -- a scope, and no broker ---------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-5", stage="lineage")
async def test_a_scoped_child_is_held_to_its_scope_with_a_broker_and_without(
    running: Home, join: Join, shop: Path, tmp_path: Path
) -> None:
    boss = await join("boss")
    async with open_kid(boss, tmp_path, shop / "src") as kid:
        scope = running.path / "guards" / f"{kid.pid}.json"
        await until(scope.exists, what="the scope on file")
        ask = asking(running, kid, "codex", shop, None)
        alone = Alone(running, kid, tmp_path / "alone", shop)
        for judge in (ask, alone.ask):
            assert await judge("src/a.py") == ""
            reason = await judge("README.md")
            assert reason.startswith(f"{shop / 'README.md'} is outside your scope.")
            assert f"You may write in {shop / 'src'} only; ask boss for more" in reason
            assert reason.endswith("Nothing was written.")
            both = await judge("x", tool_input=patch("src/b", "../y"))
            assert both.startswith(f"{shop.parent / 'y'} is outside")
            assert "src/b" not in both
        assert await alone.ask("src/a", kind="gemini-cli") == ""
        assert "outside" in await alone.ask("a", kind="gemini-cli")
        await refused_on_record(running, "kid", "scope_outside")
        await restart(running, boss, "kid")
        assert scope.exists(), "what the broker before left is what the next one writes"
        assert "is outside your scope" in await ask("README.md")
        running.signal(Home.STOP)
        try:
            assert await ask("src/a.py") == ""
            assert "is outside your scope" in await ask("README.md"), "a broker that does not answer"
        finally:
            running.signal(Home.GO_ON)
    await until(lambda: not scope.exists(), what="removed at the end")


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"process": 7}', b'{"rules": [], "otherwise": ""}']
)
async def test_who_has_a_scope_that_cannot_be_read_writes_nothing(
    running: Home, join: Join, shop: Path, tmp_path: Path, data: bytes
) -> None:
    boss = await join("boss")
    async with open_kid(boss, tmp_path, shop / "src") as kid:
        await until((running.path / "guards" / f"{kid.pid}.json").exists, what="the scope on file")
        alone = Alone(running, kid, tmp_path / "alone", shop)
        alone.scope.write_bytes(data)
        assert "cannot tell whether this write is within it" in await alone.ask("src/a.py")
        assert await alone.ask("src/a.py", tool_name="Bash") == "", "only writes are asked about"
        assert await alone.ask("src/a.py", hook_event_name="PostToolUse") == ""
        alone.scope.write_bytes(
            json.dumps({"process": f"{kid.pid}.1", "rules": [], "otherwise": "no"}).encode()
        )
        assert await alone.ask("src/a.py") == "", "of another process that had the same number"


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize("kind", ["codex", "gemini-cli"])
async def test_who_has_no_scope_is_never_stopped_by_a_missing_broker(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path, tmp_path: Path, kind: str
) -> None:
    client, ask = worker
    alice = await join("alice")
    await alice.scopes.claim([str(shop / "src")])
    await asked_for(running, client)
    alone = Alone(running, client, tmp_path / "alone", shop)
    assert await alone.ask("src/a.py", kind=kind) == ""
    gate = alone.scope.with_suffix("")
    gate.write_bytes(b"\xff{")
    assert await alone.ask("src/a.py", kind=kind) == "", "whatever became of its mark"
    assert "belongs to alice" in await ask("src/a.py")


async def test_a_long_patch_is_judged_and_one_of_too_many_files_refused(
    running: Home, join: Join, shop: Path, tmp_path: Path
) -> None:
    boss = await join("boss")
    async with open_kid(boss, tmp_path, shop / "src") as kid:
        await until((running.path / "guards" / f"{kid.pid}.json").exists, what="the scope on file")
        ask = asking(running, kid, "codex", shop, None)
        alone = Alone(running, kid, tmp_path / "alone", shop)
        long = {"command": patch("src/a")["command"] + "+x\n" * 1_000_000}
        for judge in (ask, alone.ask):
            assert await judge("src/a", tool_input=long) == "", "only its headers count"
            many = patch(*(f"src/{number}" for number in range(PATHS_MAX)))
            assert await judge("src/a", tool_input=many) == ""
            many = patch(*(f"src/{number}" for number in range(PATHS_MAX + 1)))
            assert await judge("src/a", tool_input=many) == UNJUDGED
        told = {
            "session_id": SESSION,
            "cwd": "/",
            "hook_event_name": "PostToolUse",
            "tool_name": "apply_patch",
        }
        after = {**told, "tool_response": "PreToolUse" + "x" * 3_000_000}
        done = await kid.do(
            "hook", client="codex", payload=json.dumps(after), home=str(alone.scope.parents[1])
        )
        assert done == {"code": 0, "out": "", "err": ""}


async def test_a_broker_that_dies_before_it_answers_leaves_the_file_to_judge(
    running: Home, join: Join, shop: Path, tmp_path: Path
) -> None:
    boss = await join("boss")
    async with open_kid(boss, tmp_path, shop / "src") as kid:
        await until((running.path / "guards" / f"{kid.pid}.json").exists, what="the scope on file")
        alone = Alone(running, kid, tmp_path / "alone", shop)
        path = socket_path(str(tmp_path / "alone"), {}, named=True)
        Path(path).parent.mkdir(mode=0o700, exist_ok=True)
        refusal = b'{"n":0,"error":{"code":"internal","message":"no"}}\n'
        for said in (b"", refusal):

            async def hang_up(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = said
            ) -> None:
                await reader.readline()
                writer.write(said)
                writer.close()

            async with await asyncio.start_unix_server(hang_up, path):
                assert "is outside your scope" in await alone.ask("README.md")
                assert await alone.ask("src/a.py") == ""


async def test_what_a_child_gave_on_is_not_its_own_meanwhile(
    running: Home, join: Join, shop: Path, tmp_path: Path
) -> None:
    boss = await join("boss")
    async with open_kid(boss, tmp_path, shop / "src") as kid:
        scope = running.path / "guards" / f"{kid.pid}.json"
        await until(scope.exists, what="the scope on file")
        words = ["grandkid", "command", "--task", "x", "--scope", str(shop / "src" / "sub"), "--headless"]
        told = await kid.do("tellwire", words=["spawn", *words, "--", "sleep", "300"])
        assert told["code"] == 0, told
        alone = Alone(running, kid, tmp_path / "alone", shop)
        for judge in (asking(running, kid, "codex", shop, None), alone.ask):
            assert "You gave" in await judge("src/sub/a")
            assert await judge("src/a") == ""
        assert (await kid.do("tellwire", words=["stop", "grandkid"]))["code"] == 0
        await until(lambda: "grandkid" not in scope.read_text("utf-8"), what="its own again")


# -- who may say what ---------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize("kind", ["codex", "pi"])
async def test_listings_say_what_holds_an_agent_and_why(
    worker: tuple[Client, Ask], running: Home, join: Join, shop: Path, kind: str
) -> None:
    client, ask = worker
    alice = await join("alice")
    await alice.scopes.claim([str(shop / "src")])
    assert (await client.do("tellwire", words=["claim", str(shop / "mine")]))["code"] == 0

    def listed() -> dict[str, tuple[str, str]]:
        rows = json.loads(running.tellwire("scopes", "--json").stdout)["scopes"]
        return {row["name"]: (row["enforced"], row["why"]) for row in rows}

    unheard = ("advisory", "no hook of its client has run yet")
    assert listed() == {"alice": unheard, "worker": unheard}
    await ask("src/a.py", hook_event_name="busy" if kind == "pi" else "PreToolUse")
    by = "plugin" if kind == "pi" else "hook"
    heard = ("advisory", f"asked by its {by}; shell commands are not checked")
    await until(lambda: listed()["worker"] == heard, what="heard", within_s=WITHIN_S)
    assert heard[1] in running.tellwire("scopes").stdout
