"""Gemini CLI's chat file, in which a line may replace everything above it.

`{"$set": {"messages": […]}}` replaces the history, a line with a known id a message, and `$rewindTo` cuts.
A new message of type `gemini` is an answer to all that is there by then. Seen with 0.61.0.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState
from tellwire.clients.reader import (
    Mark,
    TranscriptReader,
    decoded,
    lines_backwards,
    listed,
    mapping,
    marks_in,
    seconds,
    string,
)
from tellwire.clients.said import call_line, text_of, told

SETTLED_S = 10.0
"""An answer older than this, with nothing after it, was the last of its turn."""


class GeminiReader(TranscriptReader):
    """Follows one chat file."""

    def _forget(self) -> None:
        self._places: dict[str, int] = {}
        """The position of each message in the history; after a resume two may have one id."""
        self._length = 0
        self._holding: list[tuple[int, Mark]] = []
        """Which place of the history holds a mark."""
        self._answers: set[str] = set()
        self._request = 0
        self._written_at = 0.0
        """When the newest of the lines was written."""

    def _read_line(self, line: bytes, offset: int) -> None:
        """Handle one line: a replaced history, a cut, or a new or changed message."""
        entry = mapping(decoded(line))
        self._written_at = max(self._written_at, seconds(entry.get("timestamp")))
        if not entry:
            self._lose_line(line)
        elif "$set" in entry:
            messages = mapping(entry["$set"]).get("messages")
            if isinstance(messages, list):
                self._replace(listed(messages), line)
        elif "$rewindTo" in entry:
            self._cut(string(entry["$rewindTo"]))
        elif string(entry.get("id")) and (kind := string(entry.get("type"))) in ("user", "gemini"):
            if kind == "gemini" and entry["id"] not in self._answers:
                self._answers.add(entry["id"])
                self._settle(self._request)
                self._request += 1
            self._add(entry, self._named(line))
            if kind == "user":
                self._ask(offset, seconds(entry.get("timestamp")))

    def _ask(self, offset: int, at: float) -> None:
        for mark in self._open_marks():
            if mark.due is None and self._is_after(mark, offset, at):
                mark.due = self._request

    def _replace(self, messages: list[Any], line: bytes) -> None:
        self._places.clear()
        self._holding.clear()
        self._length = 0
        named = self._named(line)
        for message in map(mapping, messages):
            if string(message.get("id")):
                self._place(message, named, place=self._length)  # no update, even if the id is known
                if message.get("type") == "gemini":
                    self._answers.add(message["id"])
        self._count()

    def _cut(self, first: str) -> None:
        self._length = self._places.get(first, 0)
        self._places = {one: place for one, place in self._places.items() if place < self._length}
        self._holding = [(place, mark) for place, mark in self._holding if place < self._length]
        self._count()

    def _add(self, message: dict[str, Any], named: list[Mark]) -> None:
        self._place(message, named, place=self._places.get(message["id"], self._length))
        self._count()

    def _place(self, message: dict[str, Any], named: list[Mark], *, place: int) -> None:
        if place < self._length:
            self._holding = [(at, mark) for at, mark in self._holding if at != place]
        # Of what the model said only the tools' results count: it may name a mark itself.
        said = message.get("toolCalls") if message.get("type") == "gemini" else message.get("content")
        self._holding += [(place, mark) for mark in marks_in(said, named)]
        self._places[message["id"]] = place
        self._length = max(self._length, place + 1)

    def _count(self) -> None:
        held = {mark.text for _, mark in self._holding}
        for mark in self._marks.values():
            mark.is_present = mark.text in held
            # What was written before the hand-over is of an earlier one, and says nothing of this one.
            is_new = self._written_at > (mark.expected_at or 0.0) - 0.001
            if mark.is_present and mark.due is None and is_new:
                mark.due = self._request


class GeminiTranscript:
    """What Gemini CLI writes down of its sessions."""

    evidence = "transcript"

    def opened(self) -> GeminiTranscript:
        """Return itself: it keeps no state."""
        return self

    def reader(self, event: HookEvent) -> GeminiReader:
        """A reader of the session's chat file."""
        return GeminiReader(event.transcript)

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """The end of a turn whose last hook nobody heard, since there was no broker at that moment.

        After mail that keeps a turn going the file ends with an answer as well, but not for long: what the
        model is asked with is written after it before the model has it.
        """
        for line in lines_backwards(turn.transcript):
            entry = mapping(decoded(line))
            kind, at = entry.get("type"), seconds(entry.get("timestamp"))
            if kind not in ("user", "gemini", "error"):
                continue
            if kind == "user" or time.time() - max(at, turn.since) < SETTLED_S:
                return None
            if kind == "error":
                return TurnState(state="idle", at=at, outcome="errored")
            said = "" if listed(entry.get("toolCalls")) else _final_text(entry.get("content"))
            return TurnState(state="idle", at=at, outcome="ended", text=said) if said else None
        return None

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """The messages of a chat file."""
        return entries(lines)


def entries(lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Gemini CLI's chat file, in which later lines replace earlier ones."""
    history: dict[str, dict[str, Any]] = {}
    for entry in lines:
        if isinstance(replaced := mapping(entry.get("$set")).get("messages"), list):
            history = {string(each.get("id")): each for each in map(mapping, listed(replaced))}
        elif (first := string(entry.get("$rewindTo"))) in history:
            kept = list(history)[: list(history).index(first)]
            history = {each: history[each] for each in kept}
        elif string(entry.get("id")):
            history[entry["id"]] = entry
    for entry in history.values():
        at, kind = seconds(entry.get("timestamp")), entry.get("type")
        if kind in ("user", "gemini"):
            yield from told(at, "user" if kind == "user" else "agent", text_of(entry.get("content")))
        for call in map(mapping, listed(entry.get("toolCalls"))):
            yield Said(at, "tool", call_line(call.get("name"), call.get("args")))


def with_ending(event: HookEvent) -> HookEvent:
    """How a turn ended. Its hook runs after an Esc too, and text would start a turn nobody wants."""
    replace = msgspec.structs.replace
    for line in lines_backwards(event.transcript):
        entry = mapping(decoded(line))
        kind = entry.get("type")
        if kind == "error":
            return replace(event, what="errored", takes_text=False, continues=False)
        if isinstance(mapping(entry.get("$set")).get("messages"), list):  # it is out of the history again
            return replace(event, what="interrupted", takes_text=False, continues=False)
        if kind == "user":
            return event
        if kind == "gemini":
            said = "" if listed(entry.get("toolCalls")) else _final_text(entry.get("content"))
            return replace(event, final_text=said)
    return event


def _final_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [mapping(part) for part in listed(content)]
    return "".join(string(part.get("text")) for part in parts if not part.get("thought"))
