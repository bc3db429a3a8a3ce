"""The delivery matrix: what the human sees of a wake, and mail after a conversation that was begun anew."""

from __future__ import annotations

import re

import pytest

from tellwire.sessions.doors.plugin_poll import PLUGIN
from tests.end_to_end.matrix import cell
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, FINAL, QUESTION, Stage, once
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, settle, wake
from tests.integration.world import pass_time, until

WORDS = "Is the parser"
ANEW = {"claude": "/clear", "codex": "/clear", "gemini": "/clear", "opencode": "/new", "pi": "/new"}
FIRST_PROMPT = "Begin anew."
WAITS = ("codex",)
"""Clients that are not woken before the first prompt of a conversation: until then it has no turn."""
TOLD_LATER = ("opencode",)
"""Clients whose plugin looks where its human is, ten times in a second."""
LEFT_S = 8.0
"""So long mail must not enter the conversation that was left."""


@pytest.mark.requirement("FIRST-5", stage="contact")
@cell("who woke it", *REAL)
async def test_the_screen_shows_who_woke_the_agent_and_the_first_words(stage: Stage) -> None:
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await wake(stage, terminal, FINAL)
        screen = re.sub(r"[ ┃]*\n[ ┃]*", "\n", await terminal.screen())
    assert re.search(rf"alice\b[^\n]{{0,80}}\n?{WORDS}", screen), screen


@pytest.mark.requirement("FIRST-4", stage="contact")
@cell("/clear or /new", *REAL)
async def test_mail_enters_the_conversation_that_was_begun_anew(stage: Stage) -> None:
    stage.play(say(READY), END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await begin_anew(stage, terminal)
        (sent,) = await stage.send(QUESTION)
        if stage.row in WAITS:
            await pass_time(LEFT_S)
            assert len(stage.requests) == 1, "the conversation that was left has acted"
            await terminal.type(FIRST_PROMPT)
        request = await stage.request(QUESTION)
        await terminal.shows(FINAL)
        await stage.until_read(sent)
    once(request)
    assert "Get ready." not in request.text, "it entered the conversation that was left"
    assert len(stage.requests) == 2


async def begin_anew(stage: Stage, terminal: Terminal) -> None:
    """The human leaves the conversation for a new one, and the broker has heard of it where it can."""
    joined = await joined_at(stage)
    await terminal.type(ANEW[stage.row])

    async def is_empty() -> bool:
        return READY not in await terminal.visible()

    async def is_another() -> bool:
        return await joined_at(stage) > joined > 0

    async def is_left() -> bool:
        paths = (await stage.alice.peer(stage.agent)).paths
        return not any(path.works for path in paths if path.name == PLUGIN)

    await until(is_empty, what="an empty screen")
    if stage.row in WAITS:
        await until(is_another, what="the new conversation under the old name")
    elif stage.row in TOLD_LATER:
        await until(is_left, what="a plugin that does not wake the old conversation")


async def joined_at(stage: Stage) -> float:
    """Since when the session under the agent's name is there; 0 if none is."""
    found = [each for each in await stage.alice.peers(all=True) if each.name == stage.agent]
    return found[0].connected_at if found and found[0].status == "online" else 0.0
