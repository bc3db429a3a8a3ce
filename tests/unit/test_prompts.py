"""The input line of each client, read from recorded screens and from such as nobody should type into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tellwire.system.panes import WAKE_LINE
from tellwire.system.screens import Shown, read_input
from tests.clients import PROMPTS

SCREENS = Path(__file__).parent.parent / "samples" / "screens"
RULE = "─" * 40
CASES = [
    (path.stem, each)
    for path in sorted(SCREENS.glob("*.json"))
    for each in json.loads(path.read_text("utf-8"))
]


def test_every_client_has_its_screens() -> None:
    assert sorted(PROMPTS) == sorted({kind for kind, _ in CASES})


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}-{case['name']}" for kind, case in CASES])
def test_a_recorded_screen_is_read_right(kind: str, case: dict[str, Any]) -> None:
    assert read_input(Shown(case["lines"], case["x"], case["y"]), PROMPTS[kind]) == case["input"]


def claude(line: str, x: int, *, above: str = RULE, below: str = RULE) -> str | None:
    """What is read from such a line of Claude Code."""
    return read_input(Shown([above, line, below], x, 1), PROMPTS["claude-code"])


def test_a_faint_hint_is_no_text_even_beneath_the_cursor() -> None:
    assert claude('❯\xa0\x1b[7mT\x1b[0m\x1b[2mry "fix it"\x1b[0m', 2) == ""
    assert claude("❯\xa0a\x1b[2mnd so on\x1b[22m", 3) == "a"
    assert claude("❯\xa0\x1b[38;5;2mgreen\x1b[39m", 2) == "green", "a colour of that number is not faint"
    assert claude("❯\xa0\x1b[38;2;2;2;2mgreen\x1b[39m", 2) == "green"


def test_text_behind_the_cursor_counts() -> None:
    assert claude("❯\xa0rm -r /", 2) == "rm -r /"
    assert claude("❯\xa0   ", 5) == "   "
    assert claude("❯\xa0", 5) == "   ", "blanks at the end of a line are not told by tmux"


def test_wide_characters_take_two_places() -> None:
    assert claude("❯\xa0日本", 6) == "日本"
    assert claude("❯\xa0日本", 4) == "日本"


@pytest.mark.parametrize(
    ("line", "x", "above", "below"),
    [
        ("❯ 1. Yes", 0, RULE, "  2. No"),
        ("❯ 1. Yes", 8, "Do you want to proceed?", "  2. No"),
        ("!\xa0ls", 4, RULE, RULE),
        ("  second line", 13, "❯\xa0first line", RULE),
        ("❯\xa0first", 2, RULE, "  second"),
        ("$ ", 2, "", ""),
        ("", 0, "", ""),
    ],
)
def test_what_is_no_input_line_is_not_made_out(line: str, x: int, above: str, below: str) -> None:
    assert claude(line, x, above=above, below=below) is None


@pytest.mark.parametrize("kind", sorted(PROMPTS))
def test_a_screen_without_lines_is_not_made_out(kind: str) -> None:
    for shown in (
        Shown([], 0, 0),
        Shown([""], 0, 0),
        Shown(["", ""], 5, 7),
        Shown(["\x1b[", "\x1b[1;;38m"], 1, 1),
    ):
        assert read_input(shown, PROMPTS[kind]) in (None, " "), shown


def test_the_line_begins_no_command_of_a_client() -> None:
    assert WAKE_LINE.isascii()
    assert WAKE_LINE[0].isalpha()
    assert len(WAKE_LINE) < 40
