"""Toy's transcript: a line for each thing that was said; an answer is to all that stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState
from tellwire.clients.reader import TranscriptReader, decoded, mapping, marks_in, string
from tellwire.clients.said import told


class ToyReader(TranscriptReader):
    """Follows one session's file."""

    def _forget(self) -> None:
        self._request = 0

    def _read_line(self, line: bytes, offset: int) -> None:
        del offset
        entry = mapping(decoded(line))
        if entry.get("who") == "toy":
            self._settle(self._request)
            self._request += 1
        for mark in marks_in(entry.get("text"), self._named(line)):
            mark.is_present, mark.due = True, self._request


class ToyTranscript:
    """What Toy writes down of its sessions."""

    evidence = "transcript"

    def opened(self) -> ToyTranscript:
        """It remembers nothing."""
        return self

    def reader(self, event: HookEvent) -> ToyReader:
        """A reader of the session's file."""
        return ToyReader(event.transcript)

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """It keeps no other file."""
        del turn
        return None

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """Each line is one."""
        for line in lines:
            yield from told(0.0, "agent" if line.get("who") == "toy" else "user", string(line.get("text")))
