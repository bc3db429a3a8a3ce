"""When an idle agent is woken: at once, once for a burst, by budgets of its senders, and after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tellwire
from tellwire.sessions.turns import RETRY_LINE
from tests.integration.hook_client import Claude, open_claude, restart
from tests.integration.world import WITHIN_S, Home, Join

RETRY_S = 0.5
BURST = 20


@pytest.fixture
async def claude(home: Home, tmp_path: Path) -> AsyncIterator[Claude]:
    """An idle stand-in for Claude Code with a waiter beside it, registered as `worker`."""
    (home.path / "config.toml").write_text(f"wake_retry_s = {RETRY_S}\n", "utf-8")
    home.up()
    async with open_claude(home, tmp_path / "config") as client:
        await client.hook("SessionStart", source="startup")
        await client.client.do("wait", client="claude-code")
        yield client


async def woken(claude: Claude) -> str:
    """What it is woken with; the turn has begun, and a waiter stands beside it again."""
    done = await claude.client.do("woken", within_s=WITHIN_S)
    assert done["code"] == 2, done
    await claude.hook("UserPromptSubmit", prompt=done["err"], prompt_id="w")
    await claude.client.do("wait", client="claude-code")
    return done["err"]


async def note_of(alice: tellwire.Agent) -> str:
    """What the listing says of the way that wakes the worker."""
    return next(path.note for path in (await alice.peer("worker")).paths if path.name == "waiter")


@pytest.mark.requirement("WAKE-3", "WAKE-1", stage="clients")
async def test_a_burst_wakes_once_and_the_rest_joins_that_turn(claude: Claude, join: Join) -> None:
    senders = [await join(f"sender{number}") for number in range(BURST)]
    ids = [(await sender.send("worker", "Hello.")).id for sender in senders]
    done = await claude.client.do("woken", within_s=WITHIN_S)
    given = done["err"] + str(await claude.hook("UserPromptSubmit", prompt=done["err"], prompt_id="w"))
    assert [given.count(f"id={each} ") for each in ids] == [1] * BURST


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.requirement("FIRST-2", stage="contact")
async def test_failed_wakes_are_retried_across_a_restart_and_then_left_to_the_human(
    claude: Claude, join: Join, home: Home
) -> None:
    alice, bob = await join("alice"), await join("bob")
    await alice.send("worker", "Hello.")
    assert "Hello." in await woken(claude)
    for failures in range(3):
        await claude.hook("StopFailure", error="overloaded", prompt_id="w")
        assert (await note_of(alice)).startswith("its last wake failed; next try in ")
        if failures == 1:
            await restart(home, alice)
        assert RETRY_LINE in await woken(claude)
    await claude.hook("StopFailure", error="overloaded", prompt_id="w")
    assert await note_of(alice) == "left to its human after 4 failed wakes"
    await claude.hook("UserPromptSubmit", prompt="Try again.", prompt_id="p2")
    await claude.hook("Stop", last_assistant_message="It works.", prompt_id="p2")
    assert await note_of(alice) == ""
    await bob.send("worker", "And now?")
    assert "And now?" in await woken(claude)


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_mail_that_comes_while_a_failed_wake_is_to_be_retried_joins_the_retry(
    claude: Claude, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    await alice.send("worker", "one")
    await woken(claude)
    await claude.hook("StopFailure", error="overloaded", prompt_id="w")
    await bob.send("worker", "two")
    assert "two" in await woken(claude)
    await claude.hook("Stop", last_assistant_message="Done.", prompt_id="w")
