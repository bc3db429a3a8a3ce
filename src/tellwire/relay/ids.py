"""Which JSON-RPC ids a line bears: of its object, or of each object of a batch. The line need not be valid.

A line that cannot be parsed has to be refused by its id, or its client waits for ever. So this looks at
brackets and strings only, not deeper than it must: text that is not UTF-8, nested beyond any depth, cut off,
or longer than may be kept makes no difference. Standard library only: the shim runs it too.
"""

from __future__ import annotations

import re

ID_BYTES_MAX = 1_024
IDS_MAX = 1_000
_FLAT = re.compile(rb'["{}\[\],:]')
_DEEP = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("?)|[{\[]+|[}\]]+', re.DOTALL)
_INSIDE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_QUOTE = b'"'


def find_ids(text: bytes) -> list[bytes]:
    """The ids of a whole line, as they are written."""
    finder = IdFinder()
    finder.feed(text)
    return finder.finish()


def is_sayable(raw: bytes) -> bool:
    """Whether an id can be copied into an answer: it is JSON, in UTF-8, and not too long."""
    import json  # noqa: PLC0415 - the shim hardly ever needs it

    try:
        if len(raw) > ID_BYTES_MAX:
            return False
        json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> None:
    raise ValueError(word)


class IdFinder:
    """Takes a line in pieces; keeps nothing of it but ids."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._depth = 0
        self._level = 0
        """The depth of the objects that have the ids: 1, in a batch 2; 0 before the first bracket."""
        self._in_string = False
        self._is_escaped = False
        self._key = bytearray()
        """The last string that may be a key."""
        self._value: bytearray | None = None
        """What an `id` has been so far."""
        self._id: bytes | None = None
        """The id of the current object; the last one counts."""

    def feed(self, data: bytes) -> None:
        """Scan the next piece of the line."""
        at = 0
        while at < len(data):
            if self._in_string:
                at = self._go_through(data, at)
                continue
            if self._depth > self._level:
                at = self._dive(data, at)
                continue
            found = _FLAT.search(data, at)
            if found is None:
                self._keep(data[at:])
                return
            self._keep(data[at : found.start()])
            at = found.end()
            if found.group() == _QUOTE:
                self._begin_string()
            else:
                self._take(found.group())

    def _dive(self, data: bytes, at: int) -> int:
        """Through what is inside of a value, to its end or that of the piece. A line may be nothing else."""
        depth, level, end = self._depth, self._level, len(data)
        for found in _DEEP.finditer(data, at):
            mark = found.group()
            if mark[0] == 0x22:  # a quote
                if not found.group(1):
                    self._in_string, self._is_escaped = True, found.end() < end
                    break
            elif mark[0] in b"{[":
                depth += len(mark)
            else:
                depth -= len(mark)
                if depth <= level:
                    end = found.end() - (level - depth)
                    depth = level
                    break
        self._depth = depth
        self._keep(data[at:end])
        return end

    def finish(self) -> list[bytes]:
        """The ids; that of an object that is cut off is one of them. No more than one beyond the bound."""
        self._end_value()
        self._end_object()
        return self._ids

    def _begin_string(self) -> None:
        self._in_string = True
        if self._value is None:
            self._key.clear()
        self._keep(_QUOTE)

    def _go_through(self, data: bytes, at: int) -> int:
        """To the end of a string, or of the piece."""
        if self._is_escaped:
            self._is_escaped = False
            self._keep(data[at : at + 1])
            return at + 1
        found = _INSIDE.match(data, at)
        end = at if found is None else found.end()
        self._keep(data[at:end])
        if end < len(data):
            self._keep(data[end : end + 1])
            self._in_string = data[end : end + 1] != _QUOTE
            self._is_escaped = self._in_string
        return end + 1

    def _take(self, mark: bytes) -> None:
        """A bracket, comma or colon of the line itself, of a batch, or of the object that has the id."""
        at_level = self._depth == self._level and self._depth > 0
        if mark in (b"{", b"["):
            if not self._level:
                self._level = 1 if mark == b"{" else 2
            self._depth += 1
            self._keep(mark)
        elif mark == b":" and at_level:
            self._value = bytearray() if self._is_id() else None
        elif mark == b"," and at_level:
            self._end_value()
        elif mark in (b"}", b"]") and self._depth:
            if at_level:
                self._end_value()
                self._end_object()
            self._depth -= 1

    def _keep(self, text: bytes) -> None:
        if self._value is not None:
            self._value += text[: ID_BYTES_MAX + 1 - len(self._value)]
        elif self._in_string and self._depth == self._level and len(self._key) < ID_BYTES_MAX:
            self._key += text[: ID_BYTES_MAX - len(self._key)]

    def _is_id(self) -> bool:
        key = bytes(self._key)
        if b"\\" not in key:
            return key == b'"id"'
        import json  # noqa: PLC0415 - hardly ever needed

        try:
            return json.loads(key) == "id"
        except ValueError:
            return False

    def _end_value(self) -> None:
        if self._value is not None:
            self._id, self._value = bytes(self._value.strip()), None

    def _end_object(self) -> None:
        if self._id is not None and len(self._ids) <= IDS_MAX:
            self._ids.append(self._id)
        self._id = None
