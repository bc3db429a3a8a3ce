"""Gemini CLI: its hooks, and the chat file, in which a line may replace all that stands above it.

`{"$set": {"messages": […]}}` replaces the history, a line with a known id a message, and `$rewindTo` cuts.
A new message of type `gemini` is an answer to all that is there by then. Seen with 0.61.0.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tellwire.integrations.hooks import HookEvent, Pulse, Turning
from tellwire.integrations.payloads import (
    Hook,
    additional_context,
    parse_payload,
    require_text_taken,
    require_tool_wanted,
)
from tellwire.integrations.tails import lines_backwards
from tellwire.integrations.transcripts import (
    Mark,
    TranscriptReader,
    decoded,
    listed,
    mapping,
    marks_in,
    seconds,
    string,
)

SUBAGENT_TOOL = "invoke_agent"
"""While it runs, the hooks of its sub-agent's tools look like the main conversation's."""

_HOOKS = {
    "SessionStart": Hook("session_started", takes_text=True),
    "BeforeAgent": Hook("prompt", takes_text=True),
    "BeforeTool": Hook("tool_wanted"),
    "AfterTool": Hook("tool_used", takes_text=True),
    "Notification": Hook("waiting"),
    "AfterAgent": Hook("turn_ended", takes_text=True, continues=True),
    "SessionEnd": Hook("session_ended"),
}
_DELEGATION = {"tool_wanted": 1, "tool_used": -1}
DROPPING = ("clear", "resume")
"""How a session starts whose client drops what its start hook is given, in a terminal at least."""
SETTLED_S = 10.0
"""An answer so old, with nothing behind it, was the last of its turn."""


class GeminiReader(TranscriptReader):
    """Follows one chat file."""

    def _forget(self) -> None:
        self._places: dict[str, int] = {}
        """Where each message stands in the history; after a resume two may have one id."""
        self._length = 0
        self._holding: list[tuple[int, Mark]] = []
        """Which place of the history holds a mark."""
        self._answers: set[str] = set()
        self._request = 0
        self._written_at = 0.0
        """When the newest of the lines was written."""

    def _read_line(self, line: bytes, offset: int) -> None:
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


class GeminiCli:
    """Google's Gemini CLI."""

    kind = "gemini-cli"
    chars_max = 9_900
    evidence = "transcript"

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload; the final answer is taken from the chat file: the payload joins all of a turn."""
        event = parse_payload(payload, _HOOKS)
        if event.name == "SessionStart" and event.source in DROPPING:
            return msgspec.structs.replace(event, takes_text=False)
        if payload.get("tool_name") == SUBAGENT_TOOL and event.what in _DELEGATION:
            return msgspec.structs.replace(event, delegation=_DELEGATION[event.what])
        if event.what == "prompt":
            return msgspec.structs.replace(event, begins=True)  # what is typed in a turn waits for its end
        return _ended(event) if event.what == "turn_ended" else event

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text`."""
        require_text_taken(event)
        if event.continues:
            return {"decision": "deny", "reason": text}
        return additional_context(event, text)

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """The client shows it as information; the model does not see it."""
        return {**answer, "systemMessage": line}

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        require_tool_wanted(event)
        return {"decision": "deny", "reason": reason}

    def reader(self, event: HookEvent) -> GeminiReader:
        """A reader of the session's chat file."""
        return GeminiReader(event.transcript)

    def pulse(self, turn: Turning) -> Pulse | None:
        """The end of a turn whose last hook nobody heard, since there was no broker at that moment.

        After mail that keeps a turn going the file ends with an answer as well, but not for long: what the
        model is asked with stands behind it before the model has it.
        """
        for line in lines_backwards(turn.transcript):
            entry = mapping(decoded(line))
            kind, at = entry.get("type"), seconds(entry.get("timestamp"))
            if kind not in ("user", "gemini", "error"):
                continue
            if kind == "user" or time.time() - max(at, turn.since) < SETTLED_S:
                return None
            if kind == "error":
                return Pulse(state="idle", at=at, outcome="errored")
            said = "" if listed(entry.get("toolCalls")) else _text_of(entry.get("content"))
            return Pulse(state="idle", at=at, outcome="ended", text=said) if said else None
        return None


INTEGRATION = GeminiCli()


# -- the final answer ---------------------------------------------------------------------------------


def _ended(event: HookEvent) -> HookEvent:
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
            said = "" if listed(entry.get("toolCalls")) else _text_of(entry.get("content"))
            return replace(event, final_text=said)
    return event


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [mapping(part) for part in listed(content)]
    return "".join(string(part.get("text")) for part in parts if not part.get("thought"))
