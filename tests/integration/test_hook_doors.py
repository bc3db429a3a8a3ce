"""The doors for hooks and waiters, with real processes beneath a client's: mail, evidence, and bad input."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h11
import pytest

from tellwire.install.endpoint import HookEndpoint, load_endpoint
from tests.integration.hook_client import CODEX, PATIENT, SESSION, Client, open_client, read, state_of
from tests.integration.world import WITHIN_S, Home, Join, until


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up(PATIENT)
    return home


@pytest.fixture
async def client(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A stand-in for Codex, registered as `worker`."""
    async with open_client(running, tmp_path / "rollout.jsonl", program=CODEX) as stand_in:
        yield stand_in


async def test_a_hook_hands_mail_over_and_the_transcript_makes_it_read(client: Client, join: Join) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "Is it done?")
    given = (await client.hook("PostToolUse", tool_name="x", tool_input={}))["hookSpecificOutput"]
    assert f"<peer-message id={sent.id} from=alice" in given["additionalContext"]
    assert await state_of(alice, sent.id) == ("delivered", "")
    assert await client.hook("PostToolUse", tool_name="x", tool_input={}) == {}, "once"
    client.ask("developer", given["additionalContext"])
    client.answer("It is.")
    await until(lambda: read(alice, sent.id), what="read")


async def test_what_the_transcript_does_not_have_is_offered_again(client: Client, join: Join) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    client.ask("user", "Work.")
    sent = await alice.send("worker", "Is it done?")
    assert await client.hook("PostToolUse", tool_name="x", tool_input={})
    client.answer("I go on without it.")
    client.ask("user", "And?")
    client.answer("Still without it.")

    async def pending() -> bool:
        return (await state_of(alice, sent.id))[0] == "pending"

    await until(pending, what="offered again")
    again = (await client.hook("PostToolUse", tool_name="x", tool_input={}))["hookSpecificOutput"]
    assert f"id={sent.id} " in again["additionalContext"]


@pytest.mark.requirement("REC-2", stage="clients")
@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
async def test_a_hook_that_gave_up_on_a_stalled_broker_is_given_nothing(
    client: Client, running: Home, join: Join, event: str
) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    first = await alice.send("worker", "Is it done?")
    running.signal(signal.SIGSTOP)
    try:
        assert await client.hook(event, prompt="Go on.", last_assistant_message="Done.") == {}
    finally:
        running.signal(signal.SIGCONT)
    second = await alice.send("worker", "And this?")
    said = ""

    async def given() -> bool:
        nonlocal said
        said += json.dumps(await client.hook("UserPromptSubmit", turn_id="t2", prompt="More."))
        return all(f"id={sent.id} " in said for sent in (first, second))

    await until(given, what="what would be stranded with the hook that had gone")
    assert said.count(f"id={first.id} ") == said.count(f"id={second.id} ") == 1


@pytest.mark.requirement("REC-2", stage="clients")
async def test_what_a_turn_ended_without_comes_again_while_the_client_is_idle(
    client: Client, join: Join
) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    client.ask("user", "Work.")
    sent = await alice.send("worker", "Is it done?")
    assert await client.hook("PostToolUse", tool_name="x", tool_input={})
    client.answer("Done, and the hook's text was lost.")
    assert await client.hook("Stop", last_assistant_message="Done.") == {}

    async def pending() -> bool:
        return (await state_of(alice, sent.id))[0] == "pending"

    await until(pending, what="given back")


async def test_mail_at_the_end_of_a_turn_keeps_it_going(client: Client, join: Join) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "One more thing.")
    ended = await client.hook("Stop", last_assistant_message="Done.", stop_hook_active=False)
    assert ended["decision"] == "block"
    assert f"id={sent.id} " in ended["reason"]


async def test_a_sub_agent_gets_nothing(client: Client, join: Join) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "For you alone.")
    assert await client.hook("PostToolUse", tool_name="x", tool_input={}, agent_id="a1") == {}
    assert await state_of(alice, sent.id) == ("pending", "")


async def test_the_gate_is_shut_until_mail_waits_and_again_behind_it(
    client: Client, running: Home, join: Join
) -> None:
    alice = await join("alice")
    marks = running.path / "marks"
    await client.hook("UserPromptSubmit", prompt="Work.")
    assert await client.hook("PostToolUse", str(marks), tool_name="x", tool_input={}) == {}
    await alice.send("worker", "Is it done?")
    await until((marks / str(client.pid)).exists, what="the mark")
    given = await client.hook("PostToolUse", str(marks), tool_name="x", tool_input={})
    client.ask("developer", given["hookSpecificOutput"]["additionalContext"])
    client.answer("It is.")

    async def shut() -> bool:
        await client.hook("PostToolUse", str(marks), tool_name="x", tool_input={})
        return not (marks / str(client.pid)).exists()

    await until(shut, what="no mark")


async def test_a_waiter_ends_with_the_mail_and_a_second_one_goes_home(client: Client, join: Join) -> None:
    # The waiter is Claude Code's; what it needs of the client is only its process.
    alice = await join("alice")
    await client.do("wait", client="claude-code")
    first = await client.do("woken", within_s=0.5)
    assert first["code"] is None, "it waits"
    payload = {"session_id": SESSION, "hook_event_name": "Stop", "cwd": "/", "transcript_path": ""}
    await client.do("hook", client="claude-code", payload=json.dumps(payload))
    sent = await alice.send("worker", "Wake up.")
    woken = await client.do("woken", within_s=WITHIN_S)
    assert woken["code"] == 2
    assert f"id={sent.id} from=alice" in woken["err"]


@pytest.mark.parametrize(
    "payload",
    ["", "{", "[]", "nonsense", '{"session_id": "../../etc"}', '{"hook_event_name": 7}', "{}" * 3],
)
async def test_a_hook_with_a_bad_payload_says_nothing_and_exits_0(client: Client, payload: str) -> None:
    for name in ("codex", "claude-code", "gemini-cli", "nobody-knows-it"):
        done = await client.do("hook", client=name, payload=payload)
        assert done == {"code": 0, "out": "", "err": ""}


@pytest.mark.requirement("SEC-3")
async def test_no_payload_writes_a_traceback(client: Client, running: Home, endpoint: HookEndpoint) -> None:
    told = {"session_id": SESSION, "hook_event_name": "PostToolUse", "cwd": "/", "transcript_path": ""}
    deep = json.dumps({**told, "tool_input": "DEEP"}).replace('"DEEP"', '{"a":' * 50_000 + "1" + "}" * 50_000)
    values: list[Any] = [7, None, [], {}, 10**400]
    odd = [json.dumps({**told, name: value}) for name in told for value in values]
    pids = [
        {"pid": pid, "until_ms": until} for pid in (client.pid, 10**400, "x") for until in (10**400, "x", 5)
    ]
    for payload in (deep, *odd):
        for kind in ("claude-code", "codex", "gemini-cli"):
            assert (await client.do("hook", client=kind, payload=payload))["code"] == 0
        assert (await post(endpoint, payload.encode(), target="/hooks/claude-code"))[0] == 200
        for more in pids:
            told_more = json.dumps(more)[:-1] + ", " + payload[1:]
            assert (await post(endpoint, told_more.encode(), target="/hooks/opencode"))[0] == 200
    assert "Traceback" not in running.log


async def test_fifty_megabytes_of_tool_output_are_taken_and_mail_still_comes(
    client: Client, running: Home, join: Join, tmp_path: Path
) -> None:
    alice = await join("alice")
    await client.do("be_patient")
    await client.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "Is it done?")
    head = {"session_id": SESSION, "hook_event_name": "PostToolUse", "transcript_path": str(client.rollout)}
    big = json.dumps({**head, "cwd": "/", "tool_response": "x" * 50_000_000})
    path = tmp_path / "payload.json"
    path.write_text(big, encoding="utf-8")
    done = await client.do("hook", client="codex", payload=big)
    assert done["code"] == 0
    assert f"id={sent.id} " in done["out"]
    assert "failed" not in running.log


# -- over HTTP ----------------------------------------------------------------------------------------


async def post(
    endpoint: HookEndpoint, body: bytes, target: str = "/hooks/codex", **headers: str
) -> tuple[int, bytes]:
    """One request; headers with a value of "-" are left out."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    wire = h11.Connection(h11.CLIENT)
    usual = {
        "Host": f"127.0.0.1:{endpoint.port}",
        "Authorization": f"Bearer {endpoint.token}",
        "Content-Length": str(len(body)),
        **headers,
    }
    sent = [(name, value) for name, value in usual.items() if value != "-"]
    writer.write(wire.send(h11.Request(method="POST", target=target, headers=sent)) or b"")
    writer.write(wire.send(h11.Data(data=body)) or b"")
    status, answer = 0, b""
    async with asyncio.timeout(WITHIN_S):
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                wire.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                answer += bytes(event.data)
            else:
                break
    writer.close()
    return status, answer


@pytest.fixture
async def endpoint(running: Home) -> HookEndpoint:
    """The HTTP door, open."""
    found = load_endpoint(str(running.path))

    async def served() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", found.port)
        except OSError:
            return False
        writer.close()
        return True

    await until(served, what="the HTTP door")
    return found


@pytest.mark.requirement("SEC-4", stage="clients")
async def test_the_http_door_opens_for_its_token_and_nobody_else(endpoint: HookEndpoint) -> None:
    assert (await post(endpoint, b"{}"))[0] == 200
    assert (await post(endpoint, b"{}", Authorization="-"))[0] == 401
    assert (await post(endpoint, b"{}", Authorization="Bearer wrong"))[0] == 401
    assert (await post(endpoint, b"{}", Host="evil.example"))[0] == 403
    assert (await post(endpoint, b"{}", Origin="http://evil.example"))[0] == 403
    assert (await post(endpoint, b"{}", target="/"))[0] == 404


async def test_the_http_door_takes_garbage_and_goes_on(endpoint: HookEndpoint, running: Home) -> None:
    for body in (b"", b"{", b"\xff\xfe", b"[]" * 1_000, b"x" * 3_000_000):
        assert await post(endpoint, body) == (200, b"")
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(b"not http at all\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        await reader.read()
    writer.close()
    assert (await post(endpoint, b"{}"))[0] == 200
    assert running.status()["storage"] == "ok"


async def test_what_a_hook_gave_before_the_broker_died_is_judged_by_the_transcript(
    client: Client, running: Home, join: Join
) -> None:
    alice = await join("alice")
    await client.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "Is it done?")
    given = (await client.hook("PostToolUse", tool_name="x", tool_input={}))["hookSpecificOutput"]
    running.signal(Home.KILL)
    client.ask("developer", given["additionalContext"])

    async def back() -> bool:
        return any(peer.name == "worker" and peer.status == "online" for peer in await alice.peers(all=True))

    await until(back, what="worker back")
    assert await client.hook("PostToolUse", tool_name="x", tool_input={}) == {}, "not a second time"
    told = await client.do("tool", name="list_peers")
    assert "structuredContent" not in told, "it is known again for what it is"
    assert await state_of(alice, sent.id) == ("delivered", ""), "the next call proves nothing here"
    client.answer("It is.")
    await until(lambda: read(alice, sent.id), what="read")
