"""The signs of a console, the same in ASCII, and ages. A sign never stands without its word."""

from __future__ import annotations

from typing import NamedTuple

from tellwire.views.words import cut

STATE_WORDS = ("busy", "waiting", "idle", "errored", "online", "offline")
RECEIPT_WORDS = ("pending", "delivered", "read", "answered", "expired", "denied")


class Signs(NamedTuple):
    """One set of signs."""

    states: dict[str, str]
    receipts: dict[str, str]
    need: str
    mail: str
    muted: str
    chosen: str
    to: str
    both: str
    child: str
    dot: str


UNICODE = Signs(
    states={"busy": "●", "waiting": "◐", "idle": "○", "errored": "✕", "online": "·", "offline": "-"},
    receipts={"pending": "…", "delivered": "✓", "read": "✓✓", "answered": "↩", "expired": "✕", "denied": "✕"},
    need="⚑",
    mail="✉",
    muted="⊘",
    chosen="▌",
    to="→",
    both="⇄",
    child="└",
    dot="·",
)
ASCII = Signs(
    states={"busy": "*", "waiting": "?", "idle": "o", "errored": "x", "online": ".", "offline": "-"},
    receipts={"pending": ".", "delivered": ">", "read": "=", "answered": "<", "expired": "x", "denied": "x"},
    need="!",
    mail="@",
    muted="m",
    chosen=">",
    to="->",
    both="<->",
    child="+",
    dot="-",
)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_LONG_UNITS = {"d": "d", "h": "h", "m": "min", "s": "s"}
_TWINS = {"…": ".", "·": "-", "—": "-", "“": '"', "”": '"', "’": "'"}


def short_age(since: float, now: float) -> str:
    """How long ago, in a column of four: `12s`, `4m`, `1h`, `3d`; empty if that is not known."""
    if not since:
        return ""
    seconds = max(0.0, now - since)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{min(999, int(seconds // size))}{unit}"
    return "0s"


def age_words(since: float, now: float) -> str:
    """The same in words: `4 min`; empty if that is not known."""
    short = short_age(since, now)
    return f"{short[:-1]} {_LONG_UNITS[short[-1]]}" if short else ""


def ascii_line(line: str) -> str:
    """A finished line for a terminal that knows ASCII only, as long as before; foreign letters become `?`."""
    if line.isascii():
        return line
    return "".join(sign if sign.isascii() else _TWINS.get(sign, "?") for sign in line)


def fit(line: str, width: int, signs: Signs = UNICODE) -> str:
    """Clean text, cut to a number of columns; with the signs of ASCII in ASCII."""
    short = cut(line, width)
    return ascii_line(short) if signs is ASCII else short
