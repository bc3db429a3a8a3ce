"""The delivery matrix: programs die between delivery and read, and sub-agents run beside."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.end_to_end.clients import Client, client_pid, run, started
from tests.end_to_end.matrix import cell, impossible
from tests.end_to_end.mesh import until_status
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import Request, Step, call, say
from tests.end_to_end.stage import END, LOOK, PROMPT, QUESTION, REQUEST_S, Stage, frames, last_words, once

TASK = "Count the lines of the list."
TRANSCRIPTS = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*.jsonl",
    "pi": ".pi/agent/sessions/*/*.jsonl",
}
SUB_DONE = "The list has three lines."
impossible("pi", "sub-agent", "it has no sub-agents")

DOUBLES = "on resume it writes a tool's result twice into the context, and with it what a hook had added"


@pytest.mark.requirement("REC-2", stage="clients")
@cell("client killed", "claude", "codex", "opencode", "pi")
async def test_mail_of_a_killed_client_is_read_after_a_resume(stage: Stage) -> None:
    sent = await kill_with_mail(stage)
    new, repeated = await resume(stage, sent)
    assert (new, repeated) in {(1, 0), (1, 1), (0, 1)}, f"{new} times as new, {repeated} times as a repeat"


@pytest.mark.requirement("REC-2", stage="clients")
@cell("client killed", gemini=DOUBLES)
async def test_mail_of_a_killed_client_is_read_after_a_resume_that_doubles(stage: Stage) -> None:
    sent = await kill_with_mail(stage)
    new, repeated = await resume(stage, sent)
    assert new <= 2, "only as often as the client doubles"
    assert 1 <= new + repeated <= 3, f"{new} times as new, {repeated} times as a repeat"


async def kill_with_mail(stage: Stage) -> str:
    """Kill a client whose model has mail before it and has not answered; the message."""
    release = asyncio.Event()
    stage.play(LOOK._replace(hold=release), say("never said")._replace(hold=asyncio.Event()))
    async with started(stage.client, PROMPT) as process:
        await stage.request()
        (sent,) = await stage.send(QUESTION)
        release.set()
        once(await stage.request(QUESTION))
        os.kill(await client_pid(stage.client, process.pid), signal.SIGKILL)
        await until_status(stage.home, stage.agent, "offline")
    assert await stage.state(sent) == ("pending", "")
    return sent


async def resume(stage: Stage, sent: str) -> tuple[int, int]:
    """Go on with the session; how often the message is in its context, as new and as a repeat."""
    stage.play(LOOK, END, END)
    ran = await run(stage.client, "Go on.", resume=session_of(stage.client))
    assert ran.code == 0, last_words(ran)
    assert PROMPT in stage.requests[-1].text, "not resumed"
    await stage.until_read(sent)
    return frames(stage.requests[-1], sent)


def session_of(client: Client) -> str:
    """The only session of a client, as it is resumed."""
    if client.short == "gemini":
        return "latest"
    if client.short == "opencode":
        with closing(sqlite3.connect(client.home / ".local/share/opencode/opencode.db")) as database:
            ((found,),) = database.execute("SELECT id FROM session")
            return found
    (path,) = client.home.glob(TRANSCRIPTS[client.short])
    return path.stem[-36:]


@pytest.mark.requirement("REC-3", "AUD-6", stage="clients")
@cell("broker killed", *REAL)
async def test_mail_is_read_once_though_the_broker_dies(stage: Stage) -> None:
    release, go_on = asyncio.Event(), asyncio.Event()
    stage.play(LOOK._replace(hold=release), LOOK._replace(hold=go_on), END, END)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(stage.client, PROMPT))
        await stage.request()
        (sent,) = await stage.send(QUESTION)
        release.set()
        once(await stage.request(QUESTION))
        stage.home.signal(signal.SIGKILL)
        await until_status(stage.home, stage.agent, "online")  # the client's shim starts the next broker
        go_on.set()
    assert running.result().code == 0, last_words(running.result())
    new, repeated = frames(stage.requests[-1], sent)
    assert (new, repeated) in {(1, 0), (1, 1)}, f"{new} times as new, {repeated} times as a repeat"
    await stage.until_read(sent)


# -- sub-agents ---------------------------------------------------------------------------------------


def agent_ids(request: Request) -> list[str]:
    """As an argument: the sub-agent that was started."""
    return [request.text.split('"agent_id":"', 1)[1].split('"', 1)[0]]


def delegation(row: str) -> tuple[list[Step], list[Step]]:
    """How a client's model has a task done by a sub-agent, and how that one ends."""
    words: dict[str, Any] = {"description": "count lines", "prompt": TASK, "subagent_type": "general-purpose"}
    if row == "opencode":
        return [call("task", **{**words, "subagent_type": "general"})], [say(SUB_DONE)]
    if row == "claude":
        return [call("Agent", **words)], [say(SUB_DONE)]
    if row == "codex":
        wait = call("wait_agent", targets=agent_ids, timeout_ms=20_000)
        return [call("spawn_agent", message=TASK), wait], [say(SUB_DONE)]
    return [call("invoke_agent", agent_name="generalist", prompt=TASK)], [
        call("complete_task", result=SUB_DONE)
    ]


@pytest.mark.requirement("REC-6", stage="clients")
@cell("sub-agent", "claude", "codex", "gemini", "opencode")
async def test_mail_enters_the_main_conversation_and_not_a_sub_agents(stage: Stage) -> None:
    release = asyncio.Event()
    steps, ending = delegation(stage.row)
    own = [step._replace(when=PROMPT) for step in (*steps, *[END] * 4)]
    sub = [step._replace(when=TASK) for step in (LOOK._replace(hold=release), *ending)]
    stage.play(*own, *sub)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(stage.client, PROMPT))
        await stage.model.request(stage.row, TASK, within_s=REQUEST_S)
        await until_sub(stage)
        (sent,) = await stage.send(QUESTION)
        release.set()
    assert running.result().code == 0, last_words(running.result())
    theirs = [request for request in stage.requests if PROMPT not in request.text]
    assert len(theirs) >= 2
    assert not any(QUESTION in request.text for request in theirs), "it entered the sub-agent's context"
    once([request for request in stage.requests if PROMPT in request.text][-1])
    await stage.until_read(sent)
    known = {peer.name for peer in await stage.alice.peers(all=True)}
    assert known - {"alice"} == {stage.agent}, "a sub-agent that has called a tool is no agent of its own"


async def until_sub(stage: Stage) -> None:
    """Wait for the first request of a sub-agent."""
    async with asyncio.timeout(REQUEST_S):
        while not any(PROMPT not in request.text for request in stage.requests):
            await stage.request(index=len(stage.requests))
