"""One line on stderr when mail waits for the person at the terminal; the count comes with a reply anyway.

The broker tells it to persons only: beneath an agent there is nothing to say. Imports are few: the fast
commands pay for them.
"""

from __future__ import annotations

import os

from tellwire.cli.screen import ERR, OUT, find_screen, write

SILENT = frozenset({"inbox", "needs", "answer"})
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
