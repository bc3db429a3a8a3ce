"""The one line by which a human sees who wrote to an agent, and the first words; it is not for the model."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category

import msgspec

from tellwire.core.mail.framing import neutralise
from tellwire.protocol.operations.messages import MessageRecord

WORDS_CHARS_MAX = 60
SCANNED_CHARS_MAX = 1_000


def glimpse(messages: Sequence[MessageRecord], *, large: Sequence[MessageRecord] = ()) -> str:
    """Who, and the first words of the first message; how many more there are. Of a large one only who."""
    if not messages and not large:
        return ""
    first, more = [*messages, *large][0], len(messages) + len(large) - 1
    words = _words(first.body) if messages else "a large message"
    line = f"tellwire: {_line(first.sender)}: {words}" if first.sender else f"tellwire: {words}"
    return f"{line} (and {more} more)" if more else line


def _words(body: object) -> str:
    text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
    words = neutralise(_line(text[:SCANNED_CHARS_MAX]))
    if len(words) > WORDS_CHARS_MAX or len(text) > SCANNED_CHARS_MAX:
        return words[: WORDS_CHARS_MAX - 1].rstrip() + "…"
    return words


def _line(text: str) -> str:
    """One line without anything that a terminal would obey."""
    plain = "".join(each if not category(each).startswith(("C", "Z")) else " " for each in text)
    return " ".join(plain.split())
