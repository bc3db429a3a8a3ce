"""Short forms of sequence numbers: `m4f2k` for a message, `a3` for an agent.

An id is the journal sequence of the event that made the thing, so it is unique for the life of the
database, needs no index, and costs a model few tokens: base 32, digits and the letters a to v.
"""

from __future__ import annotations

from tellwire.protocol.errors import TellwireError

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_HEADS = [pair.lstrip("0") or "0" for pair in _PAIRS]
_LENGTH_MAX = 12
"""Sixty bits: what fits a journal's sequence."""


def format_id(prefix: str, seq: int) -> str:
    """Write `seq` in base 32 behind its one-letter prefix."""
    tail = ""
    while seq >= 1024:
        tail = _PAIRS[seq & 1023] + tail
        seq >>= 10
    return prefix + _HEADS[seq] + tail


def parse_id(prefix: str, text: str) -> int | None:
    """Read what `format_id` wrote; None if `text` is not of that form."""
    digits = text[1:]
    if (
        not text.startswith(prefix)
        or len(digits) > _LENGTH_MAX
        or not (digits.isalnum() and digits.isascii())
    ):
        return None
    try:
        return int(digits, 32)
    except ValueError:
        return None


def parse_message_id(text: str) -> int:
    """Read a message id.

    Raises:
        TellwireError: `unknown_message`, because no message can have such an id.
    """
    seq = parse_id("m", text)
    if seq is None:
        raise TellwireError("unknown_message", f"{text[:40]!r} is not a message id; they look like 'm4f2k'.")
    return seq
