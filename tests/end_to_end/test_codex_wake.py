"""An idle Codex is woken: on its daemon by the thread's queue, off it by a typed line or its own poll."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tellwire.clients.codex.app_server import AppServer, AppServerError
from tellwire.clients.ports import QUEUE_NAME as NAME
from tests.end_to_end.mesh import until_known, until_status
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, QUESTION, Stage, once, open_stage, processes_of
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_faults import session_of
from tests.end_to_end.test_trust import ready, settle
from tests.end_to_end.trust import NO_DAEMON, Cautious, cautious, end_daemon, trust
from tests.integration.hook_client import activity
from tests.integration.world import pass_time, until

SECOND = "And is the lexer finished?"
DRAFT = "half a sentence that"
LEFT_S = 8.0
"""So long mail must not enter the session that was left."""
OFF = ("-c", "model_reasoning_summary=none")
"""One of the options with which Codex does not use its daemon."""


@asynccontextmanager
async def settled(folder: Path, *options: str) -> AsyncGenerator[tuple[Stage, Cautious, Terminal]]:
    """A Codex whose hooks are trusted, idle after its first turn."""
    async with open_stage("codex", folder) as stage, cautious(stage) as client:
        await trust(stage.home, client, stage.agent)
        typed, answer = ready("one")
        stage.play(say(answer)._replace(when=typed))
        async with Terminal.open(client, *options) as terminal:
            await settle(client, terminal, "one")
            await until_known(stage.alice, stage.agent)
            await until_idle(stage)
            yield stage, client, terminal


async def until_idle(stage: Stage) -> None:
    """Wait until its hooks have told the end of its turn: before that, mail would keep it going."""

    async def idle() -> bool:
        return await activity(stage.alice, stage.agent) == "idle"

    await until(idle, what="the end of the turn")


def wake_of(stage: Stage) -> str:
    """How the listing says that the agent is woken."""
    done = stage.home.tellwire("info", stage.agent, "--json")
    paths = json.loads(done.stdout)["paths"]
    return next((path["name"] for path in paths if path["works"] and path.get("wakes")), "")


def names(client: Cautious) -> list[str]:
    """The names of queued texts that the rollout tells."""
    rollouts = client.home.glob(".codex/sessions/**/rollout-*.jsonl")
    lines = [json.loads(line) for path in rollouts for line in path.read_text("utf-8").splitlines()]
    items = [line["payload"].get("item", {}) for line in lines if line["type"] == "event_msg"]
    found = [str(each.get("client_id")) for each in items if each.get("type") == "UserMessage"]
    return [each for each in found if each.startswith(NAME)]


async def wake(stage: Stage, text: str = QUESTION) -> None:
    """Mail starts a turn, is in the context once, and is read."""
    stage.play(END)
    (sent,) = await stage.send(text)
    once(await stage.request(text), text)
    await stage.until_read(sent)


@pytest.mark.requirement("WAKE-1", "REC-1", stage="clients")
async def test_on_its_daemon_mail_comes_under_a_name_that_the_rollout_tells(tmp_path: Path) -> None:
    async with settled(tmp_path) as (stage, client, terminal):
        assert wake_of(stage) == "queue"
        await wake(stage)
        await until_idle(stage)
        assert len(names(client)) == 1
        await wake(stage, SECOND)
        await terminal.idle()
        assert len(set(names(client))) == 2
        assert len(stage.requests) == 3


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_on_its_daemon_mail_after_an_interrupt_is_started(tmp_path: Path) -> None:
    async with settled(tmp_path) as (stage, client, terminal):
        stage.play(say("never said")._replace(hold=asyncio.Event()))
        await terminal.type("Think about it.")
        await stage.request("Think about it.")
        await terminal.interrupt()
        await wake(stage)
        assert len(names(client)) == 1


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_on_its_daemon_mail_waits_as_soon_as_a_new_session_is_begun(tmp_path: Path) -> None:
    async with settled(tmp_path) as (stage, client, terminal):
        before = await loaded(client)
        await terminal.type("/clear")

        async def is_begun() -> bool:
            return len(await loaded(client)) > len(before)

        await until(is_begun, what="a new thread")  # its MCP servers start about now
        stage.play(END)
        sent = (await stage.alice.send(stage.agent, QUESTION)).id
        await until_status(stage.home, stage.agent, "online")
        await pass_time(LEFT_S)
        assert len(stage.requests) == 1, "the session that was left has acted"
        await terminal.type("Begin anew.")
        request = await stage.request(QUESTION)
        await stage.until_read(sent)
        once(request)
        assert "Begin anew." in request.text


async def loaded(client: Cautious) -> list[str]:
    """The threads that its daemon has loaded."""
    for pid, words in processes_of(str(client.home).encode()).items():
        if b"app-server" in words:
            with suppress(AppServerError):
                async with AppServer.open(pid) as server:
                    return (await server.call("thread/loaded/list", limit=100))["data"]
    return []


@pytest.mark.requirement("WAKE-1", "WAKE-2", stage="clients")
async def test_on_its_daemon_a_draft_is_kept_when_mail_comes(tmp_path: Path) -> None:
    async with settled(tmp_path) as (stage, _, terminal):
        await terminal.draft(DRAFT)
        await wake(stage)
        await terminal.idle()
        assert any(line.startswith(f"› {DRAFT}") for line in (await terminal.visible()).splitlines())
        stage.play(END)
        await terminal.press("Enter")
        asked = await stage.request(DRAFT)
        once(asked, DRAFT)
        once(asked)


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_a_daemon_that_was_replaced_is_told_of_mail(tmp_path: Path) -> None:
    async with settled(tmp_path) as (stage, client, terminal):
        await wake(stage)
        await terminal.idle()
        await terminal.end()
        end_daemon(client)
        await until_status(stage.home, stage.agent, "offline")
        stage.play(say("Here again."))
        async with Terminal.open(client, "resume", session_of(client), "Are you there?") as again:
            await again.shows("Here again.")
            await until_idle(stage)
            await wake(stage, SECOND)
            once(stage.requests[-1])
            assert len(set(names(client))) == 2


@pytest.mark.requirement("WAKE-1", stage="clients")
@pytest.mark.parametrize("options", [OFF, (NO_DAEMON,)], ids=["option", "no-daemon"])
async def test_off_its_daemon_a_line_is_typed_into_its_pane(tmp_path: Path, options: tuple[str, ...]) -> None:
    async with settled(tmp_path, *options) as (stage, client, terminal):
        assert wake_of(stage) == "typing"
        await wake(stage)
        await terminal.idle()
        assert not names(client)


@pytest.mark.requirement("WAKE-1", "WAKE-2", stage="clients")
async def test_off_its_daemon_a_draft_is_left_alone_and_mail_comes_by_the_queue(tmp_path: Path) -> None:
    async with settled(tmp_path, NO_DAEMON) as (stage, _, terminal):
        await terminal.draft(DRAFT)
        await wake(stage)
        await terminal.idle()
        assert any(line.startswith(f"› {DRAFT}") for line in (await terminal.visible()).splitlines())


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_off_its_daemon_without_tmux_mail_comes_by_the_queue_and_the_listing_says_when(
    tmp_path: Path,
) -> None:
    async with open_stage("codex", tmp_path) as stage, cautious(stage) as client:
        await trust(stage.home, client, stage.agent)
        typed, answer = ready("one")
        stage.play(say(answer)._replace(when=typed))
        async with bare(client, NO_DAEMON, typed):
            await stage.request(typed)
            await until_known(stage.alice, stage.agent)
            await until(lambda: wake_of(stage) == "queue (up to 10 s)", what="the listing")
            await wake(stage)


@asynccontextmanager
async def bare(client: Cautious, *words: str) -> AsyncGenerator[None]:
    """Codex in a terminal that is no tmux, with a first prompt."""
    program = [*client.program(), *client.interactive(), *words]
    code = "import pty, sys; pty.spawn(sys.argv[1:], lambda fd: __import__('os').read(fd, 65536))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *program),
        env={**client.environment(), "TERM": "xterm-256color", "LINES": "40", "COLUMNS": "120"},
        cwd=client.project,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        place = client.program()[0].encode()
        for pid, started in processes_of(str(client.home).encode()).items():
            if started.startswith(place):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
