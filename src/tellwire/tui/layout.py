"""Where each list stands on a screen of a given size. Pure: the same size and choice give the same places."""

from __future__ import annotations

from typing import NamedTuple

PANES = ("agents", "conversations", "talk", "sheet", "tree", "timeline", "needs")
WIDTH_MIN, HEIGHT_MIN = 40, 12
"""Below this nothing useful fits."""
MIDDLE = (110, 28)
WIDE = (180, 45)
"""From these sizes on, in columns and lines, there are two and three columns."""


class Place(NamedTuple):
    """A rectangle in columns and lines, from the upper left corner."""

    x: int
    y: int
    width: int
    height: int


def fits(width: int, height: int) -> bool:
    """Whether a screen is large enough at all."""
    return width >= WIDTH_MIN and height >= HEIGHT_MIN


def columns(width: int, height: int) -> int:
    """How many columns a screen has room for; the whole screen's size."""
    if width >= WIDE[0] and height >= WIDE[1]:
        return 3
    return 2 if width >= MIDDLE[0] and height >= MIDDLE[1] else 1


def arrange(width: int, height: int, *, count: int, current: str, sheet: bool) -> dict[str, Place]:
    """The lists that are shown, in an area of this size; what needs the person is always among them."""
    if count == 1:
        return _one(width, height, current)
    if count == 2:
        return _two(width, height, current, sheet=sheet)
    return _three(width, height, current)


def _one(width: int, height: int, current: str) -> dict[str, Place]:
    needs = 4 if height >= 16 else 3
    if current == "needs":
        needs = max(needs, height // 2)
    shown = "agents" if current == "needs" else current
    return {
        shown: Place(0, 0, width, height - needs),
        "needs": Place(0, height - needs, width, needs),
    }


def _two(width: int, height: int, current: str, *, sheet: bool) -> dict[str, Place]:
    left = max(38, min(60, width * 2 // 5))
    upper = height * 3 // 5
    needs = max(5, height // 4)
    main = current if current in ("talk", "tree", "timeline", "sheet") else "sheet" if sheet else "talk"
    return {
        "agents": Place(0, 0, left, upper),
        "conversations": Place(0, upper, left, height - upper),
        "needs": Place(left, 0, width - left, needs),
        main: Place(left, needs, width - left, height - needs),
    }


def _three(width: int, height: int, current: str) -> dict[str, Place]:
    del current
    left, right = 62, max(56, width * 3 // 10)
    middle = width - left - right
    foot = max(8, height // 6)
    body = height - foot
    upper, lower = body // 2, body // 4
    needs = max(6, body // 5)
    return {
        "agents": Place(0, 0, left, upper),
        "conversations": Place(0, upper, left, lower),
        "tree": Place(0, upper + lower, left, body - upper - lower),
        "needs": Place(left, 0, middle, needs),
        "talk": Place(left, needs, middle, body - needs),
        "sheet": Place(left + middle, 0, right, body),
        "timeline": Place(0, body, width, foot),
    }
