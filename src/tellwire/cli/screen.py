"""The terminal, or a pipe in its place: how wide, in colour or not, and how text gets out.

Owns all that the commands read of the environment besides the settings. Whatever a command shows goes through
`write`: on a terminal nothing but text and the styles of `Screen` comes out of it.
"""

from __future__ import annotations

import os
import sys

from tellwire.views.words import json_escape, seal

OUT = 1
ERR = 2
EXIT_UNWRITTEN = 74
OWN = f"\x1b{os.urandom(8).hex()}"
"""What our own sequences begin with until they are written; no text from elsewhere can have it."""
RESET = f"{OWN}."
STYLES = {style: OWN + style[0] for style in ("bold", "dim", "red", "green", "yellow")}
LINE_START = f"{OWN}<"
LINE_WIPED = f"{OWN}-"
SEQUENCES = {
    "b": "\x1b[1m",
    "d": "\x1b[2m",
    "r": "\x1b[31m",
    "g": "\x1b[32m",
    "y": "\x1b[33m",
    ".": "\x1b[0m",
    "<": "\r",
    "-": "\r\x1b[K",
}
"""What a terminal gets for our own ones, by the sign after `OWN`."""


class UnwrittenError(Exception):
    """What was to be shown could not be: the reader is gone, or the disk is full."""


class Screen:
    """What rendering has to know: `width` in columns, None for no bound; `colour`; `person` reads it."""

    __slots__ = ("colour", "person", "width")

    def __init__(self, width: int | None = None, *, colour: bool = False, person: bool = False) -> None:
        self.width = width
        self.colour = colour
        self.person = person

    def paint(self, text: str, style: str) -> str:
        """Give text a style, if there is colour."""
        return f"{STYLES[style]}{text}{RESET}" if self.colour and text else text


def find_screen(fd: int = OUT) -> Screen:
    """The screen behind a descriptor: colour on a terminal only, and never against NO_COLOR."""
    person = os.isatty(fd)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() else 0
    if person and not width:
        width = os.get_terminal_size(fd).columns
    return Screen(width or None, colour=person and not plain, person=person)


def write(text: str, fd: int = OUT) -> None:
    """Write it all; what the encoding cannot say is escaped, and so is what a terminal must not get.

    Raises:
        UnwrittenError: it went nowhere, or only in part.
    """
    stream = sys.stdout if fd == OUT else sys.stderr
    data = memoryview(_encode(as_sent(text, is_terminal=os.isatty(fd)), stream.encoding or "utf-8"))
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError as error:
        raise UnwrittenError(error.strerror) from error


def as_sent(text: str, *, is_terminal: bool) -> str:
    """With our own sequences as they are sent. All else is harmless at a terminal, and exact elsewhere."""
    first, *rest = text.split(OWN)
    made = seal if is_terminal else str
    return made(first) + "".join(SEQUENCES[part[0]] + made(part[1:]) for part in rest)


def _encode(text: str, encoding: str) -> bytes:
    """Escapes are those of JSON: a document stays one."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        signs = (sign if _can_say(sign, encoding) else json_escape(sign) for sign in text)
        return "".join(signs).encode(encoding)


def _can_say(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def tell_unwritten(error: Exception) -> int:
    """Say on stderr, if that works, why nothing was shown; the exit code. A reader that went away knows."""
    cause = error.__cause__ or error
    if not isinstance(cause, BrokenPipeError):
        try:
            write(f"tellwire: Cannot write the output: {cause}.\n", ERR)
        except UnwrittenError:
            return EXIT_UNWRITTEN
    return EXIT_UNWRITTEN
