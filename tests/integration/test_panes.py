"""Typing into a real tmux: one line, once, and never where a person or another program would get it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tellwire.system.panes import (
    HUMAN_S,
    SETTLE_S,
    WAKE_LINE,
    ObstacleError,
    capture,
    find_pane,
    look,
    type_line,
)
from tellwire.system.processes import read_process
from tellwire.system.threads import in_thread
from tests.clients import PROMPTS
from tests.integration.tmux import Tmux
from tests.integration.world import read_proc, until

KIND = "gemini-cli"
WAKE_1 = pytest.mark.requirement("WAKE-1", stage="clients")


class Screen:
    """The stand-in for a client, in the first pane of a tmux of its own."""

    def __init__(self, tmux: Tmux, folder: Path, owner: str) -> None:
        self.tmux = tmux
        self.folder = folder
        self.owner = owner

    @property
    def lines(self) -> list[str]:
        """What was entered."""
        path = self.folder / "lines"
        return [json.loads(line)["line"] for line in path.read_text().splitlines()] if path.exists() else []

    def tell(self, **command: object) -> None:
        """Have it do something."""
        with (self.folder / "control").open("w") as control:
            control.write(json.dumps(command) + "\n")

    async def type(self, *, still: bool = True, human_s: float = HUMAN_S) -> str:
        """Try to wake it; what was in the way."""
        try:
            await asyncio.to_thread(type_line, self.owner, PROMPTS[KIND], lambda: still, human_s=human_s)
        except ObstacleError as obstacle:
            return obstacle.reason
        return ""

    async def shows(self, text: str) -> None:
        """Wait for something on the screen."""

        async def look() -> bool:
            return text in await self.tmux.screen()

        await until(look, what=text)


@pytest.fixture
async def screen(tmp_path: Path) -> AsyncIterator[Screen]:
    """A client that waits for its user."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "LANG": "C.UTF-8"}
    words = (sys.executable, "-m", "tests.integration.prompting", str(tmp_path))
    async with Tmux.open(*words, environment=environment) as tmux:
        process = read_process(await tmux.pid())
        assert process is not None
        opened = Screen(tmux, tmp_path, process.key)
        await opened.shows("Type your message")
        yield opened


@WAKE_1
async def test_an_empty_line_gets_the_words_and_enter_once(screen: Screen) -> None:
    assert await screen.type() == ""
    await until(lambda: screen.lines, what="a line")
    assert screen.lines == [WAKE_LINE]


@WAKE_1
async def test_a_half_typed_line_is_left_as_it_is(screen: Screen) -> None:
    await screen.tmux.run("send-keys", "-l", "rm -r")
    await screen.shows("> rm -r")
    assert await screen.type() == "there is text in its input line"
    await screen.tmux.run("send-keys", "-N", "5", "BSpace")
    await screen.shows("Type your message")
    assert await screen.type() == ""
    await until(lambda: screen.lines == [WAKE_LINE], what="a line")


async def test_a_line_of_blanks_is_not_an_empty_one(screen: Screen) -> None:
    await screen.tmux.run("send-keys", "-l", "   ")

    async def blank() -> bool:
        return "Type your" not in await screen.tmux.screen()

    await until(blank, what="blanks")
    assert await screen.type() == "there is text in its input line"
    assert screen.lines == []


async def test_our_own_line_that_was_left_there_is_only_sent_off(screen: Screen) -> None:
    await screen.tmux.run("send-keys", "-l", WAKE_LINE)
    await screen.shows(WAKE_LINE)
    assert await screen.type() == ""
    await until(lambda: screen.lines, what="a line")
    assert screen.lines == [WAKE_LINE]


@WAKE_1
async def test_nothing_is_typed_in_copy_mode(screen: Screen) -> None:
    await screen.tmux.run("copy-mode")
    assert await screen.type() == "its pane is in copy mode"
    assert screen.lines == []
    await screen.tmux.run("send-keys", "-X", "cancel")
    assert await screen.type() == ""


@WAKE_1
async def test_nothing_is_typed_into_synchronised_panes(screen: Screen) -> None:
    await screen.tmux.run("split-window", "-d", "cat")
    await screen.tmux.run("set-window-option", "synchronize-panes", "on")
    assert await screen.type() == "its pane is synchronised with others"
    assert screen.lines == []


async def test_a_pane_of_one_of_several_is_the_right_one(screen: Screen) -> None:
    await screen.tmux.run("split-window", "cat")
    await screen.tmux.run("new-window", "cat")
    assert await screen.type() == ""
    await until(lambda: screen.lines == [WAKE_LINE], what="a line")
    for window in ("0.1", "1.0"):
        assert (await screen.tmux.run("capture-pane", "-p", "-t", window)).strip() == ""


@WAKE_1
async def test_nothing_is_typed_while_a_person_types(screen: Screen) -> None:
    person = screen.tmux.attach()
    await until(lambda: attached(screen.tmux), what="a person")
    os.write(person, b"h")
    await screen.shows("> h")
    os.write(person, b"\x7f")
    await screen.shows("Type your message")
    assert await screen.type() == "a person typed just now"
    assert screen.lines == []


async def test_a_person_who_has_long_been_silent_is_not_in_the_way(screen: Screen) -> None:
    screen.tmux.attach()
    await until(lambda: attached(screen.tmux), what="a person")
    began = time.monotonic()

    async def typed() -> bool:
        return await screen.type(human_s=4.0) == ""

    await until(typed, what="typed")
    assert time.monotonic() - began > 2, "tmux tells whole seconds"
    await until(lambda: screen.lines == [WAKE_LINE], what="a line")


async def attached(tmux: Tmux) -> bool:
    """Whether somebody looks at it."""
    return bool((await tmux.run("list-clients")).strip())


@WAKE_1
async def test_nothing_is_typed_if_a_child_has_the_terminal(screen: Screen) -> None:
    screen.tell(do="shell")
    await until(lambda: in_the_way(screen, "another program has its terminal"), what="a child")
    assert screen.lines == []
    screen.tell(do="draw")
    await until((screen.folder / "answers").exists, what="the child's end")
    assert await screen.type() == ""


async def in_the_way(screen: Screen, reason: str) -> bool:
    """Whether this is what keeps us from typing."""
    try:
        await asyncio.to_thread(lambda: look(find_pane(screen.owner), PROMPTS[KIND]))
    except ObstacleError as obstacle:
        return obstacle.reason == reason
    return False


@WAKE_1
async def test_nothing_is_typed_to_a_shell_that_has_the_client_in_the_background(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "LANG": "C.UTF-8"}
    async with Tmux.open("bash", "--norc", "-i", environment=environment) as tmux:
        await tmux.run("send-keys", "-l", f"{sys.executable} -m tests.integration.prompting {tmp_path} &")
        await tmux.run("send-keys", "Enter")

        shell = await tmux.pid()
        found = await until(lambda: read_proc(shell, f"task/{shell}/children").split(), what="the client")
        process = read_process(int(found[0]))
        assert process is not None
        screen = Screen(tmux, tmp_path, process.key)
        assert await screen.type() == "another program has its terminal"


async def test_what_is_no_longer_wanted_is_not_typed(screen: Screen) -> None:
    assert await screen.type(still=False) == "it is no longer idle"
    await screen.shows("Type your message")
    assert screen.lines == []


async def test_a_screen_that_is_not_known_is_left_alone(tmp_path: Path) -> None:
    async with Tmux.open("cat") as tmux:
        process = read_process(await tmux.pid())
        assert process is not None
        assert await Screen(tmux, tmp_path, process.key).type() == "its input line cannot be recognised"
        assert (await tmux.screen()).strip() == ""


async def test_a_process_outside_tmux_has_no_pane(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "sleep", "60", env={"PATH": os.environ["PATH"]}, start_new_session=True
    )
    try:
        found = read_process(process.pid)
        assert found is not None
        with pytest.raises(ObstacleError, match="not running in tmux") as caught:
            find_pane(found.key)
        assert not caught.value.passing
    finally:
        process.kill()
        await process.wait()
    with pytest.raises(ObstacleError, match="unknown"):
        find_pane(found.key)


def is_stopped(pid: int) -> bool:
    """Whether a process has come to a stop."""
    process = read_process(pid)
    return process is not None and process.is_stopped


async def test_a_tmux_that_does_not_answer_is_given_up(screen: Screen) -> None:
    server = await screen.tmux.server()
    os.kill(server, signal.SIGSTOP)
    try:
        await until(lambda: is_stopped(server), what="the stop")
        began = time.monotonic()
        assert await screen.type() == "tmux does not respond"
        assert time.monotonic() - began < 10
    finally:
        os.kill(server, signal.SIGCONT)
    assert await screen.type() == ""


async def test_what_a_pane_shows_can_be_read_while_the_client_has_it(screen: Screen) -> None:
    assert "Type your message" in await in_thread(lambda: capture(screen.owner), within_s=10)
    screen.tell(do="shell")
    await until(lambda: in_the_way(screen, "another program has its terminal"), what="a child")
    with pytest.raises(ObstacleError):
        capture(screen.owner)
    screen.tell(do="draw")
    await until((screen.folder / "answers").exists, what="the child's end")


async def test_work_that_does_not_end_is_not_waited_for() -> None:
    release = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await in_thread(release.wait, within_s=0.05)
    finally:
        release.set()
    assert await in_thread(lambda: 7, within_s=10) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0, within_s=10)


@WAKE_1
@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (
            ("send-keys", "-l", "x"),
            "its input line changed while the wake line was typed; Enter was not pressed",
        ),
        (
            ("send-keys", "BSpace"),
            "its input line changed while the wake line was typed; Enter was not pressed",
        ),
        (("copy-mode",), "its pane is in copy mode"),
        (("set-window-option", "synchronize-panes", "on"), "its pane is synchronised with others"),
        (("resize-window", "-x", "30"), "its pane is too narrow"),
    ],
)
async def test_what_happens_between_the_words_and_enter_stops_it(
    screen: Screen, meanwhile: tuple[str, ...], reason: str
) -> None:
    loop = asyncio.get_running_loop()

    def pause(seconds: float) -> None:
        if seconds == SETTLE_S:
            asyncio.run_coroutine_threadsafe(screen.tmux.run(*meanwhile), loop).result(10)
        time.sleep(seconds)

    with pytest.raises(ObstacleError) as caught:
        await asyncio.to_thread(type_line, screen.owner, PROMPTS[KIND], lambda: True, pause)
    assert caught.value.reason == reason
    assert screen.lines == []
