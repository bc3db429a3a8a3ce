"""The delivery matrix: mail for sessions that wait, that were interrupted, or that were not there."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.end_to_end.clients import run
from tests.end_to_end.matrix import cell
from tests.end_to_end.mesh import until_status
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, FINAL, PROMPT, QUESTION, Stage, last_words, once, processes_of
from tests.end_to_end.terminal import Terminal
from tests.integration.world import pass_time, until

READY = "Ready for it."
WOKEN = "Woken up."
SECOND = "And is the lexer finished?"
OVERTIME_S = {"codex": 12, "gemini": 12, "opencode": 28, "pi": 28}
"""A little longer than a hook, or a plugin's poll, may take."""
SHORT_S = 10


@pytest.mark.requirement("WAKE-1", stage="clients")
@cell("idle", *REAL)
async def test_mail_wakes_an_idle_session_once_and_again(stage: Stage) -> None:
    stage.play(say(READY), say(WOKEN), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await wake(stage, terminal, WOKEN)
        await terminal.idle()
        (more,) = await stage.send(SECOND)
        last = await stage.request(SECOND)
        await terminal.shows(FINAL)
        await stage.until_read(more)
    once(last)
    once(last, SECOND)
    assert len(stage.requests) == 3


@pytest.mark.requirement("WAKE-1", stage="clients")
@cell("beyond time-out", "codex", "gemini", "opencode", "pi")
async def test_mail_wakes_a_session_that_was_idle_for_longer_than_its_hooks_may_take(stage: Stage) -> None:
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await pass_time(OVERTIME_S[stage.row])
        await wake(stage, terminal, FINAL)


@pytest.mark.requirement("WAKE-1", stage="clients")
@cell("beyond time-out", "claude")
async def test_mail_wakes_a_session_whose_waiter_has_timed_out(stage: Stage) -> None:
    shorten_waiter(stage)
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await until(lambda: waiters(stage), what="a waiter")
        await until(lambda: not waiters(stage), what="its end")
        await wake(stage, terminal, FINAL)


def shorten_waiter(stage: Stage) -> None:
    """Have the client end a waiter after seconds, instead of a week."""
    path = stage.client.home / ".claude/settings.json"
    settings = json.loads(path.read_text("utf-8"))
    hooks = [hook for some in settings["hooks"].values() for group in some for hook in group["hooks"]]
    rewaking = [hook for hook in hooks if hook.get("asyncRewake")]
    assert rewaking
    for hook in rewaking:
        hook["timeout"] = SHORT_S
    path.write_text(json.dumps(settings), encoding="utf-8")


def waiters(stage: Stage) -> list[int]:
    """The waiters of the client that live."""
    running = processes_of(str(stage.client.home).encode())
    return [pid for pid, words in running.items() if b"/waiter.py" in words]


@pytest.mark.requirement("WAKE-1", stage="clients")
@cell("after Esc", *REAL)
async def test_mail_wakes_a_session_that_was_interrupted(stage: Stage) -> None:
    stage.play(say(READY), say("never said")._replace(hold=asyncio.Event()), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await interrupt(stage, terminal)
        await wake(stage, terminal, FINAL)


async def settle(stage: Stage, terminal: Terminal) -> None:
    """A first turn, to its end."""
    await terminal.shows(stage.client.ready_mark)
    await terminal.type("Get ready.")
    await terminal.shows(READY)
    await terminal.idle()


async def wake(stage: Stage, terminal: Terminal, answer: str) -> None:
    """Mail starts a turn, and is read."""
    ids = await stage.send(QUESTION)
    once(await stage.request(QUESTION))
    await terminal.shows(answer)
    await stage.until_read(*ids)


async def interrupt(stage: Stage, terminal: Terminal) -> None:
    """A second turn, which the user interrupts."""
    await terminal.type("Think about it.")
    await stage.request("Think about it.")
    await terminal.interrupt()


@pytest.mark.requirement("REC-1", stage="clients")
@cell("offline", *REAL)
async def test_mail_for_a_closed_client_is_in_its_next_run(stage: Stage) -> None:
    stage.play(END)
    first = await run(stage.client, PROMPT)
    assert first.code == 0, last_words(first)
    await until_status(stage.home, stage.agent, "offline")
    sent = await stage.alice.send(stage.agent, QUESTION)
    assert sent.status == "queued"
    stage.play(say("Back again."), END)
    second = await run(stage.client, "And again.")
    assert second.code == 0, last_words(second)
    once(stage.requests[-1])
    await stage.until_read(sent.id)
