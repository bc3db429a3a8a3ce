"""Reads the input line of a client on a screen: empty, with a text in it, or not to be made out.

All of them keep the terminal's cursor where the next character goes, even if they hide it and draw their own.
So the line is found by the cursor, and recognised by the text around it. Seen
with the versions in `docs/delivery-matrix.md`; what looks different is not typed into.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

ESCAPE = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|[\x0e\x0f]")


class Prompt(NamedTuple):
    """How a client draws its input line; patterns for whole pieces."""

    before: re.Pattern[str]
    """Left of the first character."""
    above: re.Pattern[str]
    below: re.Pattern[str]
    hint: re.Pattern[str]
    """Right of the cursor while nothing is typed, besides faint text."""


class Shown(NamedTuple):
    """One screen: its lines as tmux writes them, with attributes, and the cursor."""

    lines: list[str]
    x: int
    y: int


class Cell(NamedTuple):
    """A character of a line, with the attributes that matter."""

    text: str
    faint: bool = False
    inverse: bool = False


def read_input(shown: Shown, prompt: Prompt) -> str | None:
    """The text in the input line; None if the line cannot be recognised."""
    if not 0 < shown.y < len(shown.lines):
        return None
    cells = parse_cells(shown.lines[shown.y])
    before = _text(cells[: shown.x])
    if len(cells) < shown.x:
        before += " " * (shown.x - len(cells))
    head = prompt.before.match(before)
    if head is None or not _is_framed(shown, prompt):
        return None
    typed, behind = before[head.end() :], cells[shown.x :]
    if _is_hint(behind, prompt):
        return typed
    return typed + _text(behind).rstrip()


def _is_framed(shown: Shown, prompt: Prompt) -> bool:
    below = shown.lines[shown.y + 1] if shown.y + 1 < len(shown.lines) else ""
    return bool(
        prompt.above.fullmatch(_plain(shown.lines[shown.y - 1])) and prompt.below.fullmatch(_plain(below))
    )


def _is_hint(behind: list[Cell], prompt: Prompt) -> bool:
    if prompt.hint.fullmatch(_text(behind)):
        return True
    # A drawn cursor may cover the first letter of a faint hint.
    first = 1 if behind[0].inverse and len(behind) > 1 else 0
    return all(cell.faint or cell.text.isspace() or not cell.text for cell in behind[first:])


def parse_cells(line: str) -> list[Cell]:
    """A line of the screen, place by place; a wide character takes two."""
    cells: list[Cell] = []
    faint = inverse = False
    place = 0
    for found in ESCAPE.finditer(line):
        cells += _cells(line[place : found.start()], faint=faint, inverse=inverse)
        place = found.end()
        if found[1] is not None:
            faint, inverse = _attributes(found[1], faint=faint, inverse=inverse)
    return cells + _cells(line[place:], faint=faint, inverse=inverse)


def _cells(text: str, *, faint: bool, inverse: bool) -> list[Cell]:
    cells: list[Cell] = []
    for char in text:
        if unicodedata.combining(char):
            continue
        cells.append(Cell(char, faint, inverse))
        if unicodedata.east_asian_width(char) in "WF":
            cells.append(Cell("", faint, inverse))
    return cells


def _attributes(words: str, *, faint: bool, inverse: bool) -> tuple[bool, bool]:
    """Apply the numbers of an SGR sequence to the two attributes that matter."""
    numbers = words.replace(":", ";").split(";")
    place = 0
    while place < len(numbers):
        number = numbers[place]
        if number in ("38", "48", "58"):  # a colour: its own numbers are not attributes
            place += 2 if numbers[place + 1 : place + 2] == ["5"] else 4
        elif number in ("", "0"):
            faint = inverse = False
        elif number == "2":
            faint = True
        elif number == "22":
            faint = False
        elif number in ("7", "27"):
            inverse = number == "7"
        place += 1
    return faint, inverse


def _text(cells: list[Cell]) -> str:
    return "".join(cell.text for cell in cells)


def _plain(line: str) -> str:
    return ESCAPE.sub("", line)
