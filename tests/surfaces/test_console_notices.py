"""The console and the person: when it says that they look, and how it gets their attention."""

from __future__ import annotations

from typing import Any

import pytest
from textual import events

from tellwire.protocol.operations.needs import Notice
from tellwire.tui.signals import AWAY_S, UNSURE_S, find_terminal, signal
from tests.surfaces.console_world import World

ESC = "\x1b"


@pytest.mark.requirement("HUM-5", stage="console")
async def test_the_broker_is_told_whether_the_person_looks() -> None:
    world = World()
    world.join("alice")
    async with world.console((80, 24)) as screen:

        def told() -> list[bool]:
            return [each.focused for each in world.wire.attended]

        await screen.until(lambda: told() == [True])
        assert world.wire.attended[0].notifies
        screen.app.post_message(events.AppBlur())
        await screen.until(lambda: told() == [True, False])
        screen.app.post_message(events.AppFocus())
        await screen.until(lambda: told() == [True, False, True])
        world.pass_by(AWAY_S + 1)
        await screen.until(lambda: told() == [True, False, True, False])
        await screen.press("j")
        await screen.until(lambda: told() == [True, False, True, False, True])


@pytest.mark.requirement("HUM-5", stage="console")
async def test_a_terminal_that_tells_nothing_of_focus_is_believed_for_a_short_time_only() -> None:
    world = World()
    async with world.console((80, 24)) as screen:
        await screen.until(lambda: world.wire.attended)
        world.pass_by(UNSURE_S + 1)
        await screen.until(lambda: not world.wire.attended[-1].focused)


@pytest.mark.requirement("HUM-5", stage="console")
async def test_a_notice_rings_once_and_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    world = World()
    async with world.console((80, 24)) as screen:
        written: list[str] = []
        driver: Any = screen.app._driver  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(driver, "write", written.append)
        world.wire.notice(
            Notice(id=7, text="bob asks you: drop \x1b[2J it; now?", kind="question", who="bob")
        )
        await screen.until(lambda: any(each.heard == 7 for each in world.wire.attended))
        assert [text for text in written if "\a" in text] == [
            f"\a{ESC}]9;bob asks you: drop \\x1b[2J it, now?{ESC}\\"
        ]
        assert [each.heard for each in world.wire.attended if each.heard] == [7]


async def test_quiet_for_a_while_and_again_as_usual() -> None:
    world = World()
    async with world.console((80, 24)) as screen:
        for typed, asked, told in (
            ("quiet 1h", 3_600.0, "no notices for 1 h"),
            ("quiet off", 0.0, "as usual"),
        ):
            await screen.press("colon")
            await screen.type(typed)
            await screen.press("enter")
            await screen.shows(told)
            assert world.wire.attended[-1].quiet_s == asked


@pytest.mark.requirement("HUM-5", stage="console")
@pytest.mark.parametrize(
    ("terminal", "in_tmux", "written"),
    [
        ("", False, "\a"),
        ("xterm-256color", False, "\a"),
        ("iterm.app xterm", False, f"\a{ESC}]9;hi{ESC}\\"),
        ("xterm-kitty", False, f"\a{ESC}]99;;hi{ESC}\\"),
        ("foot", False, f"\a{ESC}]777;notify;tellwire;hi{ESC}\\"),
        ("foot", True, f"\a{ESC}Ptmux;{ESC}{ESC}]777;notify;tellwire;hi{ESC}{ESC}\\{ESC}\\"),
        ("", True, "\a"),
    ],
)
def test_each_terminal_gets_what_it_understands(terminal: str, in_tmux: bool, written: str) -> None:
    assert signal("hi", terminal, in_tmux=in_tmux) == written


def test_the_terminal_is_known_by_its_name() -> None:
    assert find_terminal({"TERM_PROGRAM": "WezTerm", "TERM": "xterm"}) == ("wezterm xterm", False)
    assert find_terminal({"KITTY_WINDOW_ID": "1", "TERM": "xterm"}) == ("kitty", False)
    assert find_terminal({"TMUX": "/nowhere/socket,1,0", "PATH": "/nowhere"})[1]
