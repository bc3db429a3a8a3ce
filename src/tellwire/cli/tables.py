"""Tables on a screen: aligned, and cut to its width. Less important columns go first, the last one is cut."""

from __future__ import annotations

from tellwire.cli.screen import Screen
from tellwire.views.words import cut, pad, width_of

GAP = "  "
LAST_WIDTH_MIN = 12
"""Below this a cut last column tells nothing: rather drop another one."""


RANK_DROPPED = 3
"""Columns of this rank are dropped rather than another one cut."""


class Column:
    """A heading and its clean cells. Columns with the highest `rank` are dropped first; 0 stays.

    One with a `least` width is cut to that before any is dropped whose rank is lower than `RANK_DROPPED`.
    """

    __slots__ = ("cells", "heading", "least", "rank", "right", "style", "styles", "width")

    def __init__(
        self,
        heading: str,
        cells: list[str],
        *,
        right: bool = False,
        rank: int = 0,
        least: int = 0,
        style: str = "",
        styles: dict[str, str] | None = None,
    ) -> None:
        self.heading = heading
        self.cells = cells
        self.right = right
        self.rank = rank
        self.least = least
        self.style = style
        self.styles = styles or {}
        self.width = max(len(heading), *map(width_of, cells)) if cells else len(heading)

    def render(self, text: str, screen: Screen) -> str:
        """One cell, filled up and in its style."""
        filled = pad(cut(text, self.width), self.width, right=self.right)
        style = self.styles.get(text.partition(" ")[0], self.style) if screen.colour else ""
        return screen.paint(filled, style) if style else filled


def render_table(columns: list[Column], screen: Screen) -> str:
    """All rows under a line of headings."""
    shown = [column for column in columns if any(column.cells)]
    if screen.width is not None:
        shown = _fit(shown, screen.width)
    heading = GAP.join(
        pad(each.heading[: each.width], each.width, right=each.right) for each in shown
    ).rstrip()
    lines = [screen.paint(heading, "dim")]
    *before, last = shown
    for row in range(len(last.cells)):
        parts = [column.render(column.cells[row], screen) for column in before]
        text = cut(last.cells[row], last.width)
        style = last.styles.get(text.partition(" ")[0], last.style)
        parts.append(screen.paint(text, style) if style else text)
        lines.append(GAP.join(parts).rstrip())
    return "\n".join(lines) + "\n"


def _shrink(columns: list[Column], width: int) -> None:
    """Cut the columns that may be cut, the widest first, as far as that is needed."""
    last = min(columns[-1].width, LAST_WIDTH_MIN)
    over = sum(column.width + len(GAP) for column in columns[:-1]) + last - width
    for column in sorted(columns[:-1], key=lambda each: each.width - each.least, reverse=True):
        if over > 0 and 0 < column.least < column.width:
            less = min(over, column.width - column.least)
            column.width -= less
            over -= less


def _fit(columns: list[Column], width: int) -> list[Column]:
    """The columns that have room; the last one, or else the first, gets what is left."""
    shrunk = False
    while True:
        rest = width - sum(column.width + len(GAP) for column in columns[:-1])
        needed = min(columns[-1].width, LAST_WIDTH_MIN)
        rank = max(column.rank for column in columns)
        if not shrunk and rank < RANK_DROPPED:
            _shrink(columns, width)
            shrunk = True
            continue
        if rest >= needed or rank == 0:
            break
        columns = [column for column in columns if column.rank != rank]
    last, first = columns[-1], columns[0]
    if rest < min(last.width, LAST_WIDTH_MIN) and first is not last:
        first.width = max(4, first.width - (min(last.width, LAST_WIDTH_MIN) - rest))
        rest = width - sum(column.width + len(GAP) for column in columns[:-1])
    last.width = max(1, min(last.width, rest))
    return columns
