"""What the fast and the click commands must agree on: values of options, the body, who registers, notes,
and the line on stderr when mail waits for the person at the terminal.

The count of that mail comes with every reply, and only to a person. Imports are few: the fast commands pay
for them.
"""

from __future__ import annotations

import os

from tellwire.cli.screen import ERR, OUT, find_screen, write

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from tellwire.cli.shapes import Facts

MODES = ("challenge", "agree", "collaborate", "deduce")
KINDS = ("request", "response", "notification")
PERSON = "operator"
BODY_BYTES_MAX = 900_000
"""What fits a frame. The broker's own bound is lower, and its refusal tells more."""
SESSION = os.urandom(16).hex()
"""One for the whole command: if the broker dies after it joined, it joins again as the same session."""


def split_names(to: str) -> str | list[str]:
    """The recipients: one address, or a list of names joined by commas."""
    return [name.strip() for name in to.split(",") if name.strip()] if "," in to else to


def read_body() -> str:
    """The body from stdin, without its last line end; what is not UTF-8 is kept as surrogates."""
    parts: list[bytes] = []
    size = 0
    while size <= BODY_BYTES_MAX and (part := os.read(0, 1 << 16)):
        parts.append(part)
        size += len(part)
    text = b"".join(parts).decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")


def is_sendable(body: str) -> bool:
    """Whether a body can be put into a frame at all: valid Unicode, and not too long."""
    try:
        return len(body.encode()) <= BODY_BYTES_MAX
    except UnicodeEncodeError:
        return False


def registration(name: str) -> Facts:
    """How a command joins: as `name`, or without one as the agent above it or the person at the terminal."""
    return {
        "name": name,
        "kind": PERSON if name in ("", PERSON) else "script",
        "cwd": here(),
        "session": SESSION,
        "exact": True,
    }


def here() -> str:
    """The working folder; empty if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def note_of_peek(name: str) -> str:
    """Said when somebody else takes the mail that was asked for."""
    return f"{name} has a running client, which gets its mail; nothing was taken from the inbox.\n"


def note_of_new(name: str) -> str:
    """Said when asking for mail made the agent."""
    return f"{name} is new here; it has been registered.\n"


# -- waiting mail -------------------------------------------------------------------------------------

SILENT = frozenset({"inbox", "needs", "answer", "glance"})
"""Commands that show it themselves."""

_count = 0


def note_unread(count: int) -> None:
    """What the last reply said."""
    global _count  # noqa: PLW0603 - one command is one process
    _count = count


def tell_unread(words: list[str]) -> None:
    """Say it, if somebody reads this: both outputs are terminals, and no document was asked for."""
    if not _count or "--json" in words or (words and words[0] in SILENT):
        return
    if os.isatty(OUT) and os.isatty(ERR):
        what = "1 message waits" if _count == 1 else f"{_count} messages wait"
        write(find_screen(ERR).paint(f"{what} for you: tellwire needs", "yellow") + "\n", ERR)
