"""The terminal, or what stands in its place: how wide, in colour or not, and how text gets out.

Owns all that the commands read of the environment besides the settings.
"""

from __future__ import annotations

import os
import sys

OUT = 1
ERR = 2
EXIT_UNWRITTEN = 74
RESET = "\x1b[0m"
STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m"}


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
    """Write it all; what the encoding cannot say is escaped.

    Raises:
        UnwrittenError: it went nowhere, or only in part.
    """
    stream = sys.stdout if fd == OUT else sys.stderr
    data = memoryview(text.encode(stream.encoding or "utf-8", "backslashreplace"))
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError as error:
        raise UnwrittenError(error.strerror) from error


def tell_unwritten(error: Exception) -> int:
    """Say on stderr, if that works, why nothing was shown; the exit code. A reader that went away knows."""
    cause = error.__cause__ or error
    if not isinstance(cause, BrokenPipeError):
        try:
            write(f"tellwire: The output cannot be written: {cause}.\n", ERR)
        except UnwrittenError:
            return EXIT_UNWRITTEN
    return EXIT_UNWRITTEN
