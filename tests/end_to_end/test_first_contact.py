"""First contact, with the real programs: started without a broker, and beside brokers that go and come.

In each case the mail is once in what the model was asked, idle sessions are woken, no screen shows an error.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import tellwire
from tellwire.version import VERSION
from tests.end_to_end.clients import ROOT, Client
from tests.end_to_end.matrix import cell, impossible
from tests.end_to_end.mesh import until_known, until_status
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import Call, Step, say
from tests.end_to_end.stage import END, FINAL, QUESTION, Stage, nothing_runs, once, open_stage
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.trust import end_daemon, trusted
from tests.integration.world import Home, pass_time, until

READY = "Ready for it."
FIRST, SECOND, THIRD = "Is the lexer finished?", "Is the printer finished?", "Is the yard swept?"
WRONG = re.compile(r"\berror\b|failed|refused|timed out|traceback", re.IGNORECASE)
KILLED = "fullscreen renderer"
"""Claude Code takes it for the renderer's fault that it was killed."""
SILENT_AT_START = {"codex", "opencode"}
"""They tell of a session only when something is said in it."""
APART_S = 6.0
STALL_S = 10.0
MAIN = "import sys; from tellwire.cli.main import main; sys.exit(main())"
HOOK_S = 2.0
BUSY_S = 5.0
"""What a busy machine may add to a turn."""
impossible("mcp", "no broker at start", "a server cannot start a turn; its shim starts the broker")
impossible("mcp", "two in one folder", "a server cannot start a turn; each session fetches its own mail")


async def stop(home: Home) -> None:
    """No broker runs, and nobody starts one."""
    assert home.tellwire("down").returncode == 0
    await until(lambda: not home.brokers(), what="no broker")


async def begin(stage: Stage, terminal: Terminal, *, prompt: bool) -> None:
    """The client takes input; where its session begins with that, after a first turn."""
    await terminal.shows(stage.client.ready_mark)
    if prompt:
        await terminal.type("Get ready.")
        await terminal.shows(READY)
        await terminal.idle()


async def no_error(terminal: Terminal) -> None:
    """The human is not bothered."""
    shown = (await terminal.screen()).splitlines()
    lines = [line for line in shown if WRONG.search(line) and KILLED not in line]
    assert not lines, lines


@asynccontextmanager
async def alice(stage: Stage) -> AsyncGenerator[None]:
    """Who writes to the client, now that there is a broker, or there will be."""
    async with tellwire.connect("alice", home=stage.home.path) as stage.alice:
        yield


@pytest.mark.requirement("FIRST-1", stage="contact")
@cell("no broker at start", *REAL, broker=False)
async def test_mail_wakes_a_session_that_started_without_a_broker(stage: Stage) -> None:
    prompt = stage.row in SILENT_AT_START
    await stop(stage.home)
    stage.play(*([say(READY)] if prompt else []), END)
    async with Terminal.open(stage.client) as terminal:
        await begin(stage, terminal, prompt=prompt)
        async with alice(stage):
            (sent,) = await stage.send(QUESTION)
            once(await stage.request(QUESTION))
            await terminal.shows(FINAL)
            await stage.until_read(sent)
        await no_error(terminal)


@pytest.mark.requirement("FIRST-1", stage="contact")
@cell("two in one folder", *REAL, broker=False)
async def test_two_sessions_of_one_folder_get_their_own_mail(stage: Stage) -> None:
    prompt = stage.row in SILENT_AT_START
    await stop(stage.home)
    stage.play(*([say(READY)] * 2 if prompt else []), END._replace(when=FIRST), END._replace(when=SECOND))
    names = {FIRST: stage.agent, SECOND: f"{stage.agent}-2"}
    async with Terminal.open(stage.client) as one, Terminal.open(stage.client) as other:
        await asyncio.gather(*(begin(stage, each, prompt=prompt) for each in (one, other)))
        async with alice(stage):
            for name in names.values():
                await until_known(stage.alice, name)
            sent = [(await stage.alice.send(name, text)).id for text, name in names.items()]
            for text in names:
                request = await stage.request(text)
                once(request, text)
                assert not request.where(FIRST if text is SECOND else SECOND), "mail of the other session"
            await stage.until_read(*sent)
        for terminal in (one, other):
            await terminal.shows(FINAL)
            await no_error(terminal)


@pytest.mark.requirement("FIRST-1", "FIRST-4", stage="contact")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", REAL)
async def test_sessions_started_apart_in_two_folders_and_after_a_reboot_get_their_own_mail(
    row: str, tmp_path: Path
) -> None:
    async with open_stage(row, tmp_path, broker=False) as stage, trusted(stage):
        far = elsewhere(stage, tmp_path / "yard")
        await stop(stage.home)
        prompts = [say(READY)] * 3 if row in SILENT_AT_START else []
        stage.play(*prompts, *(say(f"Yes: {text}")._replace(when=text) for text in (FIRST, SECOND, THIRD)))
        async with Terminal.open(stage.client) as one:
            await pass_time(APART_S)
            async with Terminal.open(stage.client) as other, Terminal.open(far) as third:
                terminals = (one, other, third)
                await asyncio.gather(*(begin(stage, each, prompt=bool(prompts)) for each in terminals))
                async with alice(stage):
                    names = await until(lambda: three_of(stage), what="three sessions")
                    assert (names[0], names[2]) == (stage.agent, f"yard-{row}")
                    await to_each_its_own(stage, dict(zip((FIRST, SECOND, THIRD), names, strict=True)))
                await third.shows(f"Yes: {THIRD}")
                for terminal in terminals:
                    await no_error(terminal)
        await reboot(stage)
        await come_back(stage)


async def three_of(stage: Stage) -> list[str]:
    """The names of three sessions of the client, once they are there; Codex may pass a number over."""
    peers = await stage.alice.peers(all=True)
    names = sorted(each.name for each in peers if each.kind == stage.client.kind and each.status == "online")
    return names if len(names) == 3 else []


def elsewhere(stage: Stage, folder: Path) -> Client:
    """The same client, at work in another folder."""
    stage.client.trust_project(folder)
    return type(stage.client)(stage.client.home, folder, stage.client.model_url)


async def to_each_its_own(stage: Stage, names: dict[str, str]) -> None:
    """Each name gets a text of its own, which is once in its context, and in no other."""
    for name in names.values():
        await until_known(stage.alice, name)
    sent = [(await stage.alice.send(name, text)).id for text, name in names.items()]
    for text in names:
        request = await stage.request(text)
        once(request, text)
        assert not any(request.where(other) for other in names if other is not text), "mail of another"
    await stage.until_read(*sent)


async def reboot(stage: Stage) -> None:
    """Mail waits for the agent, and no process is left; the homes are kept."""
    end_daemon(stage.client)
    async with alice(stage):
        await until_status(stage.home, stage.agent, "offline")
        assert (await stage.alice.send(stage.agent, QUESTION)).status == "queued"
    await nothing_runs(stage.home, stage.folder)
    assert not stage.home.brokers()


async def come_back(stage: Stage) -> None:
    """The client is started; it has its name again, and its mail."""
    prompt = stage.row in SILENT_AT_START
    stage.model.drop(stage.row)
    stage.play(*([say(READY)] if prompt else []), END, END)
    async with Terminal.open(stage.client) as terminal:
        await begin(stage, terminal, prompt=prompt)
        await until(stage.home.brokers, what="a broker, which the client has started")
        async with alice(stage):
            await until_known(stage.alice, stage.agent)
            once(await stage.request(QUESTION))
            await terminal.idle()
            (sent,) = await stage.send("And now?")
            last = await stage.request("And now?")
            await stage.until_read(sent)
        once(last)
        once(last, "And now?")
        await no_error(terminal)


# -- brokers that go and come beside an open session ----------------------------------------------------


@pytest.mark.requirement("FIRST-1", "FIRST-3", stage="contact")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", REAL)
async def test_an_open_session_is_reached_through_every_change_of_broker(row: str, tmp_path: Path) -> None:
    async with open_stage(row, tmp_path, broker=False) as stage, trusted(stage):
        stage.play(say(READY), *[say(f"Answer {number}.") for number in range(1, 6)])
        async with Terminal.open(stage.client) as terminal:
            await begin(stage, terminal, prompt=True)
            await stop(stage.home)
            await terminal.type("Go on alone.")  # a turn without a broker, which does not bring it back
            await terminal.shows("Answer 1.")
            await terminal.idle()
            assert not stage.home.brokers()
            await no_error(terminal)
            assert stage.home.tellwire("list").returncode == 0  # a command does
            await wake(stage, terminal, "After the stop.", 2)
            stage.home.signal(Home.KILL)
            await wake(stage, terminal, "After the kill.", 3)
            replace(stage.home, tmp_path)
            await wake(stage, terminal, "After the upgrade.", 4)
            await no_error(terminal)
            assert len(stage.requests) == 5


async def wake(stage: Stage, terminal: Terminal, text: str, number: int) -> None:
    """Mail comes into an idle session, once."""
    async with alice(stage):
        (sent,) = await stage.send(text)
        once(await stage.request(text), text)
        await terminal.shows(f"Answer {number}.")
        await stage.until_read(sent)
        await terminal.idle()


def replace(home: Home, folder: Path) -> None:
    """Another version takes over."""
    copy = folder / "newer"
    shutil.copytree(ROOT / "src" / "tellwire", copy / "tellwire")
    version = copy / "tellwire" / "version.py"
    version.write_text(version.read_text("utf-8").replace(VERSION, "99.0.0"), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "up", "--detach", "--replace"],
        env={**home.environment(), "PYTHONPATH": str(copy)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert home.status()["version"] == "99.0.0"


# -- a broker that stalls -------------------------------------------------------------------------------


def reading(stage: Stage) -> Step:
    """The model has a small file read by the client's own tool."""
    (stage.client.project / "note.txt").write_text("Nothing new.", encoding="utf-8")
    path = str(stage.client.project / "note.txt")
    calls = {
        "claude": Call("Read", {"file_path": path}),
        "codex": Call("exec_command", {"cmd": "cat note.txt"}),
        "gemini": Call("read_file", {"file_path": "note.txt"}),
        "opencode": Call("read", {"filePath": path}),
        "pi": Call("read", {"path": "note.txt"}),
    }
    return Step(calls=(calls[stage.row],))


@pytest.mark.requirement("FIRST-3", stage="contact")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", REAL)
async def test_a_turn_beside_a_stalled_broker_waits_once_and_its_mail_comes(row: str, tmp_path: Path) -> None:
    async with open_stage(row, tmp_path) as stage, trusted(stage):
        release = asyncio.Event()
        look = reading(stage)
        stage.play(look, say(READY), look._replace(hold=release), say("Turn over."), END, END)
        async with Terminal.open(stage.client) as terminal:
            await terminal.shows(stage.client.ready_mark)
            usual_s = await turn_s(terminal, "Get ready.", READY)
            await terminal.type("Look again.")
            await stage.request("Look again.")
            (sent,) = await stage.send(QUESTION)
            async with stalled(stage):
                began = time.monotonic()
                release.set()
                await terminal.shows("Turn over.")
                await terminal.idle()
                took_s = time.monotonic() - began
            assert took_s < usual_s + HOOK_S + BUSY_S, f"{took_s:.1f} s, {usual_s:.1f} s without a stall"
            once(await stage.request(QUESTION))
            await stage.until_read(sent)
            once(stage.requests[-1])
            await no_error(terminal)


@pytest.mark.requirement("FIRST-1", "FIRST-3", stage="contact")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", REAL)
async def test_a_client_starts_and_is_prompted_beside_a_stalled_broker(row: str, tmp_path: Path) -> None:
    async with open_stage(row, tmp_path) as stage, trusted(stage), AsyncExitStack() as stack:
        stage.play(say(READY), END, say("Prompted."), END, END)
        async with stalled(stage):
            terminal = await stack.enter_async_context(Terminal.open(stage.client))
            await terminal.shows(stage.client.ready_mark)
        usual_s = await turn_s(terminal, "Get ready.", READY)
        (sent,) = await stage.send(QUESTION)
        once(await stage.request(QUESTION))
        await stage.until_read(sent)
        await terminal.idle()
        async with asyncio.TaskGroup() as group, stalled(stage):
            sending = group.create_task(stage.alice.send(stage.agent, SECOND))
            took_s = await turn_s(terminal, "And a prompt.", "Prompted.")
        assert took_s < usual_s + HOOK_S + BUSY_S, f"{took_s:.1f} s, {usual_s:.1f} s without a stall"
        once(await stage.request(SECOND), SECOND)
        await stage.until_read(sending.result().id)
        once(stage.requests[-1], SECOND)
        once(stage.requests[-1])
        await no_error(terminal)


@asynccontextmanager
async def stalled(stage: Stage) -> AsyncGenerator[None]:
    """The broker is stopped for ten seconds, or for as long as the block takes."""
    stage.home.signal(Home.STOP)
    began = time.monotonic()
    try:
        yield
        await pass_time(max(0.0, STALL_S - (time.monotonic() - began)))
    finally:
        os.kill(stage.home.pid, Home.GO_ON)


async def turn_s(terminal: Terminal, prompt: str, answer: str) -> float:
    """How long a turn takes."""
    await terminal.type(prompt)
    began = time.monotonic()
    await terminal.shows(answer)
    await terminal.idle()
    return time.monotonic() - began
