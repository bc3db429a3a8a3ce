"""Painting: lines of plain text with roles, the colours of each theme, and the strips that Textual shows.

A role is what a piece of text is (`busy`, `dim`, `title`); a theme says how it looks. No text is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tellwire.views.words import ELLIPSIS, cut, width_of


class Span(NamedTuple):
    """A piece of clean text, and what it is."""

    text: str
    role: str = ""


class Line(NamedTuple):
    """One line of a list; lines with the same key belong to one item, and those without to none."""

    key: str
    spans: tuple[Span, ...]


def line(key: str, *parts: str | Span) -> Line:
    """A line of spans and of plain text."""
    return Line(key, tuple(part if isinstance(part, Span) else Span(part) for part in parts))


def text_of(spans: tuple[Span, ...]) -> str:
    """The words alone."""
    return "".join(span.text for span in spans)


class Theme(NamedTuple):
    """The colours of one look: text, background, and one for each role."""

    name: str
    dark: bool
    text: str
    back: str
    chosen: str
    """The background of the chosen line."""
    roles: Mapping[str, str]
    """From a role to a style, as Rich writes it."""
    ansi: bool = False
    """It uses the terminal's own colours."""


_DARK = {
    "dim": "#9aa4b2",
    "bold": "bold",
    "title": "bold #8fb8ff",
    "rule": "#5f6b7d",
    "busy": "#7ee0a3",
    "idle": "#9aa4b2",
    "waiting": "bold #ffd166",
    "errored": "bold #ff8a80",
    "need": "bold #ffd166",
    "good": "#7ee0a3",
    "bad": "bold #ff8a80",
    "key": "bold #8fb8ff",
    "name": "bold #e6edf3",
    "mark": "bold #ffd166",
}
_LIGHT = {
    "dim": "#57606a",
    "bold": "bold",
    "title": "bold #0a4fb5",
    "rule": "#8c959f",
    "busy": "#116329",
    "idle": "#57606a",
    "waiting": "bold #7d4e00",
    "errored": "bold #b3261e",
    "need": "bold #7d4e00",
    "good": "#116329",
    "bad": "bold #b3261e",
    "key": "bold #0a4fb5",
    "name": "bold #1f2328",
    "mark": "bold #7d4e00",
}
_CONTRAST = {
    **dict.fromkeys(_DARK, "#ffffff"),
    "bold": "bold",
    "title": "bold #ffffff",
    "busy": "#00ff7f",
    "waiting": "bold #ffff00",
    "need": "bold #ffff00",
    "errored": "bold #ff9d9d",
    "bad": "bold #ff9d9d",
    "good": "#00ff7f",
    "key": "bold #7fdfff",
    "name": "bold #ffffff",
    "mark": "bold #ffff00",
}
_ANSI = {
    "dim": "dim",
    "bold": "bold",
    "title": "bold blue",
    "rule": "dim",
    "busy": "green",
    "idle": "",
    "waiting": "bold yellow",
    "errored": "bold red",
    "need": "bold yellow",
    "good": "green",
    "bad": "bold red",
    "key": "bold blue",
    "name": "bold",
    "mark": "bold yellow",
}
THEMES = {
    theme.name: theme
    for theme in (
        Theme("dark", dark=True, text="#d7dde5", back="#12161c", chosen="#263142", roles=_DARK),
        Theme("light", dark=False, text="#1f2328", back="#ffffff", chosen="#dbe7fb", roles=_LIGHT),
        Theme("contrast", dark=True, text="#ffffff", back="#000000", chosen="#303030", roles=_CONTRAST),
        Theme("ansi", dark=True, text="default", back="default", chosen="", roles=_ANSI, ansi=True),
    )
}
QUIET_RULES = frozenset({"rule"})
"""Roles that carry no words: they need no contrast."""


class Palette:
    """The styles of one theme, made once."""

    def __init__(self, theme: Theme, ellipsis: str = ELLIPSIS) -> None:
        self.theme = theme
        self._ellipsis = ellipsis
        base = Style.parse(f"{theme.text} on {theme.back}")
        chosen = base + (Style(bgcolor=theme.chosen) if theme.chosen else Style(reverse=True))
        self._plain = {"": base, **{role: base + Style.parse(word) for role, word in theme.roles.items()}}
        self._chosen = {
            "": chosen,
            **{role: chosen + Style.parse(word) for role, word in theme.roles.items()},
        }

    def style(self, role: str, *, chosen: bool = False) -> Style:
        """How a role looks."""
        styles = self._chosen if chosen else self._plain
        return styles.get(role) or styles[""]

    def strip(self, spans: tuple[Span, ...], width: int, *, chosen: bool = False) -> Strip:
        """A line, cut or filled to the width."""
        segments: list[Segment] = []
        left = width
        for span in spans:
            if left <= 0:
                break
            text = cut(span.text, left)
            if text != span.text and self._ellipsis != ELLIPSIS:
                text = text[:-1] + self._ellipsis
            left -= width_of(text)
            segments.append(Segment(text, self.style(span.role, chosen=chosen)))
        if left > 0:
            segments.append(Segment(" " * left, self.style("", chosen=chosen)))
        return Strip(segments, width).simplify()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours such as `#12161c`, from 1 to 21, as WCAG defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
