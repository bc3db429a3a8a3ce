"""The line in which a person types: a message, an answer, a `:` command, a search. It grows with the text.

Enter hands the text over, Ctrl-J begins a new line, Tab completes the word before the cursor, Esc gives up.
Words and their completions are the asker's: this knows only text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tellwire.tui.lists import Look
from tellwire.tui.paint import Span
from tellwire.views.words import clean_lines, width_of

TEXT_MAX = 200_000
"""Characters; a message that long is refused by the broker anyway."""
ROWS_MAX = 6
REVERSED = Style(reverse=True)


class Candidate(NamedTuple):
    """One way to complete a word."""

    text: str
    note: str = ""
    """What there is to know about it."""


Complete = Callable[[str], "tuple[int, list[Candidate]]"]
"""From the text before the cursor to where the word to replace begins, and what it may be."""


def no_candidates(text: str) -> tuple[int, list[Candidate]]:
    """Nothing is completed here."""
    return len(text), []


class Edit:
    """A text and the place in it where typing goes."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.at: int = len(text)

    def insert(self, text: str) -> None:
        """Type something."""
        room = TEXT_MAX - len(self.text)
        text = text.replace("\r\n", "\n").replace("\r", "\n")[:room]
        self.text = self.text[: self.at] + text + self.text[self.at :]
        self.at += len(text)

    def replace(self, start: int, text: str) -> None:
        """Put a text in place of what stands between `start` and the cursor."""
        self.text = self.text[:start] + text + self.text[self.at :]
        self.at = start + len(text)

    def key(self, name: str) -> bool:
        """An editing key; whether it was one."""
        text, at = self.text, self.at
        line = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        word = len(text[:at].rstrip())
        word = max(text.rfind(" ", 0, word), text.rfind("\n", 0, word)) + 1
        moves = {
            "left": max(0, at - 1),
            "right": min(len(text), at + 1),
            "home": line,
            "ctrl+a": line,
            "end": end,
            "ctrl+e": end,
            "ctrl+left": word,
        }
        cuts = {
            "backspace": (max(0, at - 1), at),
            "delete": (at, min(len(text), at + 1)),
            "ctrl+u": (line, at),
            "ctrl+k": (at, end),
            "ctrl+w": (word, at),
        }
        if name in moves:
            self.at = moves[name]
        elif name in cuts:
            start, stop = cuts[name]
            self.text, self.at = text[:start] + text[stop:], start
        else:
            return False
        return True


class Told(NamedTuple):
    """Who hears of a prompt, at once: a key that comes behind Enter is no longer the prompt's."""

    done: Callable[[str], None]
    given_up: Callable[[], None]
    changed: Callable[[], None]
    asked: Callable[[], bool]
    """Whether something is asked for."""


class Prompt(Widget, can_focus=True):
    """Hidden until `ask`; focus returns to where it was when it is done."""

    def __init__(self, look: Look, told: Told, *, id: str) -> None:
        super().__init__(id=id)
        self._look = look
        self._told = told
        self.edit = Edit()
        self.label = ""
        self.found: list[Candidate] = []
        """What completes the word before the cursor."""
        self._picked = -1
        self._start = 0
        self._complete: Complete = no_candidates
        self._history: list[str] = []
        self._back = 0

    def ask(
        self, label: str, complete: Complete, *, text: str = "", history: list[str] | None = None
    ) -> None:
        """Begin with a label before the text."""
        self.label, self._complete, self.edit = label, complete, Edit(text)
        self._history, self._back = history if history is not None else [], 0
        self._start, self.found = complete(text)
        self._picked = -1
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return max(1, min(ROWS_MAX, len(self._rows(width)[0])))

    def render_line(self, y: int) -> Strip:
        rows, (row, column) = self._rows(self.size.width)
        first = max(0, min(row - self.size.height + 1, len(rows) - self.size.height))
        palette, at = self._look(), first + y
        if at >= len(rows):
            return palette.strip((), self.size.width)
        head = Span(self.label, "key") if at == 0 else Span(" " * width_of(self.label))
        if at != row or not self.has_focus:
            return palette.strip((head, Span(rows[at])), self.size.width)
        before, rest = _split(rows[at], column)
        under, after = (rest[:1], rest[1:]) if rest else (" ", "")
        cursor = palette.strip((head, Span(before)), width_of(self.label) + width_of(before))
        tail = palette.strip((Span(after),), max(0, self.size.width - cursor.cell_length - width_of(under)))
        block = palette.strip((Span(under),), width_of(under)).apply_style(REVERSED)
        return Strip.join([cursor, block, tail])

    def _rows(self, width: int) -> tuple[list[str], tuple[int, int]]:
        """What is shown, wrapped, and the row and column of the cursor in it."""
        room = max(8, width - width_of(self.label) - 1)
        rows, place = [""], (0, 0)
        used = 0
        for index, sign in enumerate((*self.edit.text, "")):
            if index == self.edit.at:
                place = (len(rows) - 1, used)
            if sign == "\n":
                rows.append("")
                used = 0
                continue
            shown = clean_lines(sign)[0] if sign else ""
            if used + width_of(shown) > room:
                rows.append("")
                used = 0
                if index == self.edit.at:
                    place = (len(rows) - 1, 0)
            rows[-1] += shown
            used += width_of(shown)
        return rows, place

    # -- keys -----------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self._told.asked():
            event.stop()
            event.prevent_default()
            self.take(event)

    def take(self, event: events.Key) -> None:
        """A key for the prompt, wherever the focus is."""
        name = event.key
        if name == "enter":
            self._told.done(self.edit.text)
            return
        if name in ("escape", "ctrl+c"):
            self._told.given_up()
            return
        if name in ("tab", "shift+tab"):
            self._pick(1 if name == "tab" else -1)
            return
        if name in ("up", "down"):
            self._recall(1 if name == "up" else -1)
        elif name == "ctrl+j":
            self.edit.insert("\n")
        elif not self.edit.key(name):
            if event.character is None or not event.is_printable:
                return
            self.edit.insert(event.character)
        self._look_up()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.edit.insert(event.text)
        self._look_up()

    def _look_up(self) -> None:
        self._start, self.found = self._complete(self.edit.text[: self.edit.at])
        self._picked = -1
        self._changed()

    def _pick(self, step: int) -> None:
        """Put the next candidate in, or the previous one."""
        if not self.found:
            return
        self._picked = (self._picked + step) % len(self.found)
        only = len(self.found) == 1
        self.edit.replace(self._start, self.found[self._picked].text + (" " if only else ""))
        if only:
            self._look_up()
        self._changed()

    def _recall(self, step: int) -> None:
        back = self._back + step
        if 0 <= back <= len(self._history):
            self._back = back
            self.edit = Edit(self._history[-back] if back else "")

    def _changed(self) -> None:
        self.refresh(layout=True)
        self._told.changed()

    @property
    def picked(self) -> int:
        """Which candidate was put in; -1 for none."""
        return self._picked


def _split(text: str, column: int) -> tuple[str, str]:
    used = 0
    for index, sign in enumerate(text):
        if used >= column:
            return text[:index], text[index:]
        used += width_of(sign)
    return text, ""
