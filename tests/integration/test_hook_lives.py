"""What hooks have told outlives the broker, and is told: sessions, turns, leases, and the ways for mail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hook_client import (
    PATIENT,
    SESSION,
    Claude,
    Client,
    Turns,
    open_claude,
    open_client,
    read,
    restart,
    said,
    state_of,
)
from tests.integration.world import WITHIN_S, Home, Join, OpenRaw, until


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up(PATIENT)
    return home


@pytest.fixture
async def codex(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A stand-in for Codex, registered as `worker`."""
    async with open_client(running, tmp_path / "rollout.jsonl", patient=True) as client:
        yield client


@pytest.fixture
async def claude(running: Home, tmp_path: Path) -> AsyncIterator[Claude]:
    """A stand-in for Claude Code, registered as `worker`."""
    async with open_claude(running, tmp_path / "config", patient=True) as client:
        yield client


@pytest.fixture
def turns(raw: OpenRaw) -> Turns:
    """Turns as the audit has them."""
    return Turns(raw)


# -- a broker that dies -------------------------------------------------------------------------------


async def test_an_idle_agent_is_woken_by_the_next_broker(claude: Claude, running: Home, join: Join) -> None:
    alice = await join("alice")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    await claude.hook("Stop", last_assistant_message="Done.")
    await claude.client.do("wait", client="claude-code")
    await restart(running, alice)
    sent = await alice.send("worker", "Wake up.")
    woken = await claude.client.do("woken", within_s=WITHIN_S)
    assert (woken["code"], f"id={sent.id} " in woken["err"]) == (2, True)


async def test_a_turn_goes_on_though_the_broker_dies(
    codex: Client, running: Home, join: Join, turns: Turns
) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    await restart(running, alice)
    await codex.hook("Stop", last_assistant_message="Done.")
    assert await turns.ended(1) == [("ended", True, said("Done."))]


async def test_what_a_hook_lost_with_the_broker_is_offered_again(
    codex: Client, running: Home, join: Join
) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    codex.ask("user", "Work.")
    sent = await alice.send("worker", "Is it done?")
    assert await codex.hook("PostToolUse", tool_name="x", tool_input={})  # and the client never sees it
    await restart(running, alice)
    assert await state_of(alice, sent.id) == ("delivered", "")
    codex.answer("I go on without it.")
    codex.ask("user", "And?")
    codex.answer("Still without it.")

    async def pending() -> bool:
        return (await state_of(alice, sent.id))[0] == "pending"

    await until(pending, what="offered again")
    given = (await codex.hook("PostToolUse", tool_name="x", tool_input={}))["hookSpecificOutput"]
    codex.ask("developer", given["additionalContext"])
    codex.answer("It is.")
    await until(lambda: read(alice, sent.id), what="read")


# -- the ways -----------------------------------------------------------------------------------------


async def test_the_listing_tells_which_ways_work_and_when_they_last_did(claude: Claude, join: Join) -> None:
    alice = await join("alice")

    async def ways() -> dict[str, Any]:
        (record,) = [peer for peer in await alice.peers(all=True) if peer.name == "worker"]
        return {path.name: path for path in record.paths}

    before = await ways()
    assert not before["mid-turn"].works
    assert not before["waiter"].works
    await claude.hook("UserPromptSubmit", prompt="Work.")
    await claude.client.do("wait", client="claude-code")

    async def waits() -> bool:
        return (await ways())["waiter"].works

    await until(waits, what="the waiter")
    now = await ways()
    assert [now[name].works for name in ("mid-turn", "end of turn", "get_messages")] == [True] * 3
    assert now["mid-turn"].last_at is None


async def test_evidence_dates_a_way(codex: Client, join: Join) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "Is it done?")
    given = (await codex.hook("PostToolUse", tool_name="x", tool_input={}))["hookSpecificOutput"]
    codex.ask("developer", given["additionalContext"])
    codex.answer("It is.")
    await until(lambda: read(alice, sent.id), what="read")
    (record,) = [peer for peer in await alice.peers(all=True) if peer.name == "worker"]
    worked = {path.name: path.last_at for path in record.paths}
    assert worked["mid-turn"] is not None
    assert worked["end of turn"] is None


# -- left alone ---------------------------------------------------------------------------------------


async def test_a_muted_agent_is_not_woken_and_its_turn_ends(claude: Claude, join: Join) -> None:
    alice = await join("alice")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    assert (await claude.client.do("tellwire", words=["mute"]))["code"] == 0
    sent = await alice.send("worker", "Is it done?")
    assert await claude.hook("Stop", last_assistant_message="Done.") == {}
    await claude.client.do("wait", client="claude-code")
    assert (await claude.client.do("woken", within_s=1.0))["code"] is None
    assert await state_of(alice, sent.id) == ("pending", "")
    assert (await claude.client.do("tellwire", words=["mute", "--off"]))["code"] == 0
    assert (await claude.client.do("woken", within_s=WITHIN_S))["code"] == 2


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"instance": 1}', b"\xff" * 100])
async def test_a_damaged_note_of_an_earlier_broker_is_passed_by(
    codex: Client, running: Home, join: Join, turns: Turns, junk: bytes
) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    (note,) = (running.path / "bindings").glob("*.json")
    note.write_bytes(junk)
    await restart(running, alice)
    await codex.hook("Stop", last_assistant_message="Done.")
    assert [outcome for outcome, _, _ in await turns.ended(1)] == ["ended"]


async def test_a_session_that_is_over_leaves_no_note(running: Home, tmp_path: Path, turns: Turns) -> None:
    async with open_client(running, tmp_path / "rollout.jsonl", patient=True) as client:
        await client.hook("UserPromptSubmit", prompt="Work.")
        assert list((running.path / "bindings").glob("*"))
    assert await turns.ended(1) == [("interrupted", True, "")]
    await until(lambda: not list((running.path / "bindings").glob("*")), what="no note")


# -- one process, several sessions --------------------------------------------------------------------


async def test_a_session_of_another_agent_of_the_same_process_gets_nothing(
    codex: Client, running: Home, join: Join
) -> None:
    alice = await join("alice")
    yard = running.path / "yard"
    yard.mkdir()
    assert await codex.do("join", name="other", cwd=str(yard))
    other = {"session_id": f"{SESSION}2", "cwd": str(yard)}
    await codex.hook("UserPromptSubmit", prompt="Work.", **other)
    sent = await alice.send("worker", "For you alone.")
    assert await codex.hook("PostToolUse", tool_name="x", tool_input={}, **other) == {}
    cwd = str(Path.cwd())
    given = await codex.hook("PostToolUse", tool_name="x", tool_input={}, cwd=cwd)
    assert f"id={sent.id} " in given["hookSpecificOutput"]["additionalContext"]
