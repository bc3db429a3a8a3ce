"""The delivery matrix: what an Esc drops, and what a stalled broker hands to nobody, comes again and once."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.matrix import cell, impossible
from tests.end_to_end.mesh import until_known
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, QUESTION, Stage, frames, once
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, SECOND, WOKEN, settle
from tests.integration.world import pass_time

STALL_S = 10.0
QUIET_S = 3.0
COMMAND_S = 60.0
PROMPT = "Think about it."
OTHER = "Say something else."
THOUGHT = "Thought about it."
impossible("mcp", "Esc with mail", "no mail rides along with a prompt: its model fetches it")
impossible(
    "mcp",
    "broker stalled",
    "its model's own call waits, and ends with an error after 30 s; nothing is handed to a hook",
)


@pytest.mark.requirement("REC-2", stage="clients")
@cell("Esc with mail", *REAL)
async def test_mail_with_a_prompt_that_was_interrupted_is_in_the_context_once(stage: Stage) -> None:
    stage.play(say(READY), say("never said")._replace(hold=asyncio.Event()), say(THOUGHT), END, END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await until_known(stage.alice, stage.agent)
        mute(stage)  # the mail is to wait for the prompt, not to begin a turn
        (sent,) = await stage.send(QUESTION)
        await terminal.type(PROMPT)
        once(await stage.request(PROMPT))
        await terminal.interrupt()
        await terminal.type(OTHER)
        await stage.request(OTHER)
        await terminal.shows(THOUGHT)
        await terminal.idle()
        mute(stage, "--off")
        await stage.until_read(sent)
        await pass_time(QUIET_S)  # for a copy that should not come
        (more,) = await stage.send(SECOND)
        await stage.until_read(more)
    new, repeated = frames(stage.requests[-1], sent)
    assert new + repeated == 1, f"{new} times as new, {repeated} times as a repeat"
    once(stage.requests[-1], SECOND)


def mute(stage: Stage, *options: str) -> None:
    """Have the agent woken by nothing, or by mail again; only a person at a terminal may."""
    program = str(Path(sys.executable).parent / "tellwire")
    done = subprocess.run(
        ["script", "-qec", shlex.join([program, "mute", stage.agent, *options]), "/dev/null"],
        env=stage.home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("REC-2", stage="clients")
@pytest.mark.requirement("FIRST-1", stage="contact")
@cell("broker stalled", *REAL)
async def test_mail_is_in_the_context_once_though_the_broker_stalls(stage: Stage) -> None:
    release = asyncio.Event()
    stage.play(say(READY), say(THOUGHT)._replace(hold=release), say(WOKEN), END, END)
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await terminal.type(PROMPT)
        await stage.request(PROMPT)
        (first,) = await stage.send(QUESTION)
        stage.home.signal(signal.SIGSTOP)
        try:
            release.set()
            await terminal.shows(THOUGHT)
            await pass_time(STALL_S)
        finally:
            stage.home.signal(signal.SIGCONT)
        await stage.until_read(first)
        (second,) = await stage.send(SECOND)
        await stage.until_read(second)
    once(stage.requests[-1])
    once(stage.requests[-1], SECOND)
