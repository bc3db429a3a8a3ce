"""The delivery matrix: mail for sessions that wait, that were interrupted, or that were not there."""

from __future__ import annotations

import asyncio

from tests.end_to_end.clients import run
from tests.end_to_end.matrix import cell
from tests.end_to_end.mesh import until_status
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, FINAL, PROMPT, QUESTION, Stage, last_words, once
from tests.end_to_end.terminal import Terminal

READY = "Ready for it."
QUEUE_RESTS = (
    "after an interrupt it leaves its queue alone; mail comes with the user's next prompt, or behind it"
)
NO_WAKE = "nothing from outside starts a turn in it; mail comes with the user's next prompt"


@cell("idle", "claude", "codex")
async def test_mail_wakes_an_idle_session_once(stage: Stage) -> None:
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        ids = await stage.send(QUESTION)
        once(await stage.request(QUESTION))
        await terminal.shows(FINAL)
        await stage.until_read(*ids)
    assert len(stage.requests) == 2


@cell("idle", gemini=NO_WAKE)
async def test_mail_for_an_idle_session_that_cannot_be_woken_comes_with_the_next_prompt(stage: Stage) -> None:
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await next_prompt_brings_mail(stage, terminal)


@cell("after Esc", "claude")
async def test_mail_wakes_a_session_that_was_interrupted(stage: Stage) -> None:
    stage.play(say(READY), say("never said")._replace(hold=asyncio.Event()), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await interrupt(stage, terminal)
        ids = await stage.send(QUESTION)
        once(await stage.request(QUESTION))
        await terminal.shows(FINAL)
        await stage.until_read(*ids)


@cell("after Esc", codex=QUEUE_RESTS, gemini=NO_WAKE)
async def test_mail_after_an_interrupt_comes_with_the_next_prompt(stage: Stage) -> None:
    stage.play(say(READY), say("never said")._replace(hold=asyncio.Event()), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await interrupt(stage, terminal)
        await next_prompt_brings_mail(stage, terminal)


async def settle(stage: Stage, terminal: Terminal) -> None:
    """A first turn, to its end."""
    await terminal.shows(stage.client.ready_mark)
    await terminal.type("Get ready.")
    await terminal.shows(READY)
    await terminal.idle()


async def interrupt(stage: Stage, terminal: Terminal) -> None:
    """A second turn, which the user interrupts."""
    await terminal.type("Think about it.")
    await stage.request("Think about it.")
    await terminal.interrupt()


async def next_prompt_brings_mail(stage: Stage, terminal: Terminal) -> None:
    """It waits while nobody types, and then is there once."""
    ids = await stage.send(QUESTION)
    assert (await stage.state(ids[0]))[0] == "pending"
    await terminal.type("Anything new here.")
    once(await stage.request("Anything new here."))
    await terminal.shows(FINAL)
    await stage.until_read(*ids)


@cell("offline", "claude", "codex", "gemini")
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
