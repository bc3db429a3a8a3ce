"""What may begin a turn of a model, and what only comes along with the next one (AUD-5, AUD-7)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tellwire
from tests.integration.hook_client import Claude, Client, open_claude, open_client
from tests.integration.test_spawning import end_children, processes_of
from tests.integration.world import WITHIN_S, Home, Join, take, until

QUIET_S = 1.0
"""A wake comes at once: who is quiet for so long was not woken."""


@pytest.fixture
async def running(home: Home) -> AsyncIterator[Home]:
    """A home with a broker; children end with the test."""
    home.up()
    try:
        yield home
    finally:
        home.end()
        end_children(home)


@pytest.fixture
async def claude(running: Home, tmp_path: Path) -> AsyncIterator[Claude]:
    """An idle stand-in for Claude Code with a waiter beside it, registered as `worker`."""
    async with open_claude(running, tmp_path / "config") as client:
        await client.hook("SessionStart", source="startup")
        await client.client.do("wait", client="claude-code")
        yield client


@pytest.fixture
async def codex(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A stand-in for Codex, registered as `worker`."""
    async with open_client(running, tmp_path / "rollout.jsonl") as client:
        yield client


async def told_weakly(join: Join) -> tuple[tellwire.Agent, str]:
    """Have the worker told of something that it need not act on; who told, and on which link."""
    alice, bob = await join("alice"), await join("bob")
    link = await alice.links.open(["worker", bob.name])
    waiting = (await alice.peer("worker")).pending
    assert waiting == 1, "the notice is in its inbox"
    return alice, f"link:{link.id} is open"


async def wake_of(claude: Claude, within_s: float = WITHIN_S) -> str:
    """What an idle one is woken with; empty if it is not."""
    woken = await claude.client.do("woken", within_s=within_s)
    assert woken["code"] in (None, 2), woken
    return woken["err"]


async def bear(claude: Claude, home: Home) -> int:
    """A child of the worker's; its process."""
    words = {"name": "kid", "client": "command", "task": "t", "command": ["sleep", "300"], "headless": True}
    call = {"name": "spawn_agent", "arguments": words}
    born = await claude.client.do("rpc", method="tools/call", params=call)
    assert not born["result"].get("isError"), born
    (pid,) = await until(lambda: processes_of(home))
    return pid


async def nothing_open(alice: tellwire.Agent) -> bool:
    """Whether the worker has read all that it was given."""
    return (await alice.peer("worker")).pending == 0


# -- idle ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-7", "AUD-5", "AUD-6", stage="lineage")
async def test_a_weak_notice_alone_wakes_nobody_and_comes_with_the_next_turn(
    claude: Claude, join: Join
) -> None:
    _, notice = await told_weakly(join)
    assert await wake_of(claude, QUIET_S) == ""
    given = await claude.hook("UserPromptSubmit", prompt="What is new?", prompt_id="p2")
    assert notice in json.dumps(given)
    assert await claude.hook("Stop", last_assistant_message="A link.", prompt_id="p2") == {}


@pytest.mark.requirement("AUD-7", "AUD-5", stage="lineage")
async def test_what_wakes_brings_the_weak_notices_along(claude: Claude, join: Join) -> None:
    alice, notice = await told_weakly(join)
    sent = await alice.send("worker", "Wake up.")
    told = await wake_of(claude)
    assert notice in told
    assert told.index(notice) < told.index(f"id={sent.id} from=alice"), "in the order in which they came"


@pytest.mark.requirement("AUD-4", "AUD-7", stage="lineage")
async def test_the_end_of_a_child_is_strong_and_wakes_its_idle_parent(claude: Claude, running: Home) -> None:
    os.kill(await bear(claude, running), signal.SIGKILL)
    assert "Your child kid was killed." in await wake_of(claude)


@pytest.mark.requirement("AUD-7", stage="lineage")
async def test_a_weak_notice_wakes_nobody_after_a_restart_either(
    claude: Claude, join: Join, running: Home
) -> None:
    alice, notice = await told_weakly(join)
    running.signal(Home.KILL)
    assert await wake_of(claude, 2 * QUIET_S) == ""
    await alice.send("worker", "And now?")
    assert notice in await wake_of(claude)


# -- in a turn ----------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-5", "AUD-7", stage="lineage")
async def test_a_weak_notice_keeps_no_turn_from_ending_and_a_strong_one_does(
    codex: Client, join: Join, running: Home
) -> None:
    await codex.hook("UserPromptSubmit", prompt="Work.")
    alice, notice = await told_weakly(join)
    assert await codex.hook("Stop", last_assistant_message="Done.") == {}
    assert (await alice.peer("worker")).pending == 1, "it waits still"
    async with tellwire.connect("carol", home=running.path):
        await codex.do("tellwire", words=["listen", "carol"])
        given = await codex.hook("UserPromptSubmit", prompt="More.", turn_id="t2")
        text = given["hookSpecificOutput"]["additionalContext"]
        assert notice in text
        codex.ask("developer", text)
        codex.answer("I see.")
        await until(lambda: nothing_open(alice), what="the first notice is read")
    kept = await codex.hook("Stop", last_assistant_message="Done again.", turn_id="t2")
    assert kept["decision"] == "block"
    assert "carol is gone" in kept["reason"]


@pytest.mark.requirement("AUD-5", "AUD-7", stage="lineage")
async def test_a_turn_that_runs_takes_weak_notices_along(codex: Client, join: Join) -> None:
    await codex.hook("UserPromptSubmit", prompt="Work.")
    _, notice = await told_weakly(join)
    assert notice in json.dumps(await codex.hook("PostToolUse", tool_name="x", tool_input={}))


# -- what is told further -----------------------------------------------------------------------------


@pytest.mark.requirement("AUD-7", stage="lineage")
async def test_a_turn_that_a_childs_end_began_is_told_to_nobody_and_one_that_a_listener_began_is(
    claude: Claude, running: Home, join: Join
) -> None:
    alice = await join("alice")
    await alice.turns.listen("worker")
    os.kill(await bear(claude, running), signal.SIGKILL)
    woken = await wake_of(claude)
    await claude.hook("UserPromptSubmit", prompt=f"<task-notification>{woken}", prompt_id="p2")
    await claude.hook("Stop", last_assistant_message="I have noted it.", prompt_id="p2")
    await claude.client.do("wait", client="claude-code")
    await alice.send("worker", "How far are you?")
    woken = await wake_of(claude)
    await claude.hook("UserPromptSubmit", prompt=f"<task-notification>{woken}", prompt_id="p3")
    await claude.hook("Stop", last_assistant_message="Half way.", prompt_id="p3")
    (told,) = await take(alice, 1)
    assert str(told.body).startswith('worker stopped: "Half way."'), "the first it hears"
