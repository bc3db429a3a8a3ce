"""Widgets that are painted line by line: a bar of one line, and a list with a title and a chosen item.

A list holds lines, not widgets: however long it is, only what is on screen is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tellwire.tui.paint import Line, Palette, Span, line, text_of

WHEEL_LINES = 3
Look = Callable[[], Palette]


class Bar(Widget):
    """A few lines of text that cannot be chosen: the header, the footer, a notice."""

    def __init__(self, look: Look, *, id: str) -> None:
        super().__init__(id=id)
        self._look = look
        self.lines: list[tuple[Span, ...]] = []

    def show(self, lines: list[tuple[Span, ...]]) -> None:
        """Paint these from now on; nothing happens if they are there already."""
        if lines != self.lines:
            self.lines = lines
            self.styles.height = max(1, len(lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        spans = self.lines[y] if y < len(self.lines) else ()
        return self._look().strip(spans, self.size.width)

    @property
    def words(self) -> str:
        """What it shows."""
        return "\n".join(text_of(spans) for spans in self.lines)


class LazyLines(Sequence[Line]):
    """Lines that are made when they are looked at."""

    def __init__(self, count: int, make: Callable[[int], Line]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Line:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices here
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._make(index)


class LineList(Widget, can_focus=True):
    """A titled list. Its first line is the title; the rest shows the lines around the chosen item."""

    class Chosen(Message):
        """An item was chosen, or opened with a double click."""

        def __init__(self, pane: LineList, *, opened: bool) -> None:
            super().__init__()
            self.pane = pane
            self.opened = opened

    def __init__(self, look: Look, rule: Callable[[], str], *, id: str) -> None:
        super().__init__(id=id)
        self._look = look
        self._rule = rule
        self.title: tuple[Span, ...] = ()
        self.lines: Sequence[Line] = ()
        self.empty: list[str] = []
        """What is said if there is no line."""
        self.cursor = ""
        """The key of the chosen item."""
        self.edge = ""
        """Drawn at the left of each line, between two columns."""
        self.follows = False
        """New lines at the end are scrolled to while the last item is chosen."""
        self._at = 0
        """The line at which the chosen item begins."""
        self._top = 0
        self._drawn: tuple[object, ...] = ()

    # -- content --------------------------------------------------------------------------------------

    def show(self, title: tuple[Span, ...], lines: Sequence[Line], *, empty: list[str] | None = None) -> None:
        """Take new lines; the chosen item stays chosen, and where it was on screen if it can."""
        was_last = self.follows and self._at >= last_item(self.lines)
        offset = self._at - self._top
        self.title, self.lines, self.empty = title, lines, empty or []
        found = find_item(lines, self.cursor, hint=self._at)
        if was_last and lines:
            found = last_item(lines)
        if found < 0:
            found = nearest_item(lines, self._at)
        self._at = max(0, found)
        self._top = self._at - offset
        self.cursor = lines[self._at].key if lines else ""
        self._keep_visible()
        self.repaint()

    def repaint(self) -> None:
        """Refresh if what is on screen changed."""
        drawn = (self.title, self._top, self.cursor, self.has_focus, self.size, self._visible())
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def _visible(self) -> tuple[Line, ...]:
        end = min(len(self.lines), self._top + self._room)
        return tuple(self.lines[at] for at in range(max(0, self._top), end))

    @property
    def _room(self) -> int:
        return max(0, self.size.height - 1)

    def on_screen(self) -> list[str]:
        """The keys of the items that are seen."""
        return list(dict.fromkeys(each.key for each in self._visible() if each.key))

    @property
    def words(self) -> str:
        """The title and all that is on screen."""
        shown = [text_of(each.spans) for each in self._visible()] or self.empty
        return "\n".join([text_of(self.title), *shown])

    def render_line(self, y: int) -> Strip:
        palette, width = self._look(), self.size.width
        edge = (Span(self.edge, "rule"),) if self.edge else ()
        if y == 0:
            return palette.strip((*edge, *self._title_spans(width - len(self.edge))), width)
        at = self._top + y - 1
        if not self.lines and y <= len(self.empty):
            return palette.strip((*edge, Span(" " + self.empty[y - 1], "dim")), width)
        if at >= len(self.lines):
            return palette.strip(edge, width)
        each = self.lines[at]
        chosen = bool(each.key) and each.key == self.cursor
        mark = Span(self._mark() if chosen else " ", "mark")
        return palette.strip((*edge, mark, *each.spans), width, chosen=chosen and self.has_focus)

    def _mark(self) -> str:
        return "▌" if self._rule() != "-" else ">"

    def _title_spans(self, width: int) -> tuple[Span, ...]:
        rule = self._rule()
        used = sum(len(span.text) for span in self.title)
        below = len(self.lines) - self._top - self._room
        more = f" {below} more {'line' if below == 1 else 'lines'} " if below > 0 else ""
        title = tuple(Span(span.text, span.role or "title") for span in self.title)
        fill = width - used - len(more) - 3
        return (
            Span(rule * 2, "title" if self.has_focus else "rule"),
            *title,
            Span(rule * max(1, fill), "title" if self.has_focus else "rule"),
            Span(more, "dim"),
            Span(rule, "rule"),
        )

    # -- moving ---------------------------------------------------------------------------------------

    def move(self, items: int) -> None:
        """Choose the item so many further down, or up."""
        step = 1 if items > 0 else -1
        at = self._at
        for _ in range(abs(items)):
            found = next_item(self.lines, at, step)
            if found < 0:
                break
            at = found
        self._choose(at)

    def page(self, pages: int) -> None:
        """Move by what fits on the screen."""
        self._choose(nearest_item(self.lines, self._at + pages * max(1, self._room - 1)))

    def go_to(self, key: str) -> bool:
        """Choose an item by its key."""
        found = find_item(self.lines, key, hint=self._at)
        if found >= 0:
            self._choose(found)
        return found >= 0

    def home(self) -> None:
        """Choose the first item."""
        self._choose(nearest_item(self.lines, 0))

    def end(self) -> None:
        """Choose the last item."""
        self._choose(last_item(self.lines))

    def _choose(self, at: int, *, opened: bool = False) -> None:
        if not self.lines or at < 0:
            return
        self._at, self.cursor = at, self.lines[at].key
        self._keep_visible()
        self.repaint()
        self.post_message(self.Chosen(self, opened=opened))

    def _keep_visible(self) -> None:
        last = self._at
        while last + 1 < len(self.lines) and self.cursor and self.lines[last + 1].key == self.cursor:
            last += 1
        self._top = max(self._top, last - self._room + 1)
        self._top = max(0, min(self._top, self._at, len(self.lines) - 1))
        if self._at > 0 and self._at == self._top and not self.lines[self._at - 1].key:
            self._top -= 1  # the heading above it
        self._top = max(0, min(self._top, max(0, len(self.lines) - self._room)))

    # -- the mouse ------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._keep_visible()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-WHEEL_LINES)

    def _scroll(self, count: int) -> None:
        self._top = max(0, min(self._top + count, len(self.lines) - self._room))
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        at = self._top + event.y - 1
        if event.y and at < len(self.lines) and self.lines[at].key:
            self._choose(first_of(self.lines, at), opened=event.chain > 1)

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()


# -- items among lines ---------------------------------------------------------------------------------


def find_item(lines: Sequence[Line], key: str, *, hint: int) -> int:
    """The first line of an item, which was at `hint` before; -1 if it is not there."""
    if not key:
        return -1
    if hint < len(lines) and lines[hint].key == key:
        return first_of(lines, hint)
    return next((at for at in range(len(lines)) if lines[at].key == key), -1)


def next_item(lines: Sequence[Line], at: int, step: int) -> int:
    """The first line of the next item, down or up; -1 if there is none."""
    here = lines[at].key if at < len(lines) else ""
    at += step
    while 0 <= at < len(lines):
        if lines[at].key and lines[at].key != here:
            return first_of(lines, at)
        at += step
    return -1


def first_of(lines: Sequence[Line], at: int) -> int:
    """The first line of the item that has this line."""
    while at > 0 and lines[at - 1].key == lines[at].key:
        at -= 1
    return at


def nearest_item(lines: Sequence[Line], at: int) -> int:
    """The item at a line, below it, or else above it; -1 if there is no line."""
    at = max(0, min(at, len(lines) - 1))
    for each in (*range(at, len(lines)), *range(at - 1, -1, -1)):
        if lines[each].key:
            return first_of(lines, each)
    return 0 if lines else -1


def last_item(lines: Sequence[Line]) -> int:
    """The first line of the last item; -1 if there is no line."""
    at = len(lines) - 1
    while at > 0 and (not lines[at].key or lines[at - 1].key == lines[at].key):
        at -= 1
    return at


def plain_lines(key: str, rows: Sequence[str], role: str = "") -> list[Line]:
    """Lines of one item."""
    return [line(key, Span(row, role)) for row in rows]
