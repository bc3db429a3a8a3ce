"""Codex's rollout file, in which it writes down each item of the conversation.

The file names no requests. What the model produced up to a `token_usage_record` is one answer, what comes
before it was asked; Codex writes an item down before it sends it. Seen with 0.166.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from math import inf
from typing import Any

import msgspec

from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState, Verdict, Who
from tellwire.clients.ports import QUEUE_NAME
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

_LINE_TYPES = {"response_item", "event_msg", "token_usage_record", "compacted"}
TAIL_BYTES_MAX = 1 << 20
"""The end of a turn is at the end of the file, or not far from it."""
_TURN_STARTS = {"task_started", "turn_started"}
_TURN_ENDS = {"task_complete", "turn_complete", "turn_aborted"}
_TURN_BOUNDS = _TURN_STARTS | _TURN_ENDS


class _Line(msgspec.Struct):
    type: str = ""
    timestamp: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _Phase(Enum):
    ASKING = auto()
    """Items are gathered that the next request will hold."""
    ANSWERING = auto()
    """The model has produced something; what else is written down now belongs to the next request."""
    DOUBTFUL = auto()
    """An answer is complete, but it may be the summary of a compaction."""
    ANSWERED = auto()


class CodexReader(TranscriptReader):
    """Follows one rollout file."""

    def _forget(self) -> None:
        self._phase = _Phase.ASKING
        self._request = 0
        self._is_turn = False
        self._announced = ""
        self._has_usage = False

    def _read_line(self, line: bytes, offset: int) -> None:
        """Handle one line: an item that the model gets, an item that it produced, or an event of the turn."""
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._lose_line(line)
            return
        if entry.type not in _LINE_TYPES:
            return
        if entry.type == "token_usage_record":
            self._has_usage = True
            self._complete()
            return
        payload = mapping(decoded(entry.payload))
        kind = string(payload.get("type"))
        if entry.type == "compacted":
            self._compact(payload)
        elif entry.type == "event_msg":
            self._take_event(kind, payload)
        elif _is_of_model(kind, payload):
            self._accept_doubtful()
            self._phase = _Phase.ANSWERING
            self._is_turn |= kind != "reasoning" and (
                kind != "message" or string(payload.get("id")) == self._announced != ""
            )
        elif kind == "message" or kind.endswith("_output"):
            self._ask(payload, line, offset=offset, at=seconds(entry.timestamp))

    def _ask(self, payload: dict[str, Any], line: bytes, *, offset: int, at: float) -> None:
        """An item that the model is asked with: in this request, or in the next if one is being answered."""
        self._accept_doubtful()
        if self._phase is _Phase.ANSWERED:
            self._phase = _Phase.ASKING
            self._request += 1
        number = self._number
        named = [mark for mark in self._named(line) if not mark.text.startswith(QUEUE_NAME)]
        for mark in marks_in(payload, named):
            self._find(mark, at, is_message=payload.get("role") == "user")
        for mark in self._open_marks():
            if mark.due is None and self._is_after(mark, offset, at):
                mark.due = number

    @property
    def _number(self) -> int:
        """The request that an item is in which is written down now."""
        return self._request + (self._phase is _Phase.ANSWERING)

    def _find(self, mark: Mark, at: float, *, is_message: bool) -> None:
        mark.is_present, mark.is_message = True, is_message
        # What was written before the hand-over is of an earlier one: that it left says nothing of this one.
        if mark.due is None and at > (mark.expected_at or 0.0) - 0.001:
            mark.due = self._number

    def _take_queued(self, item: dict[str, Any]) -> None:
        """A text was taken out of the queue; its id tells whose it is, whatever else quotes its marks."""
        mark = self._marks.get(string(item.get("client_id")))
        if mark is not None and mark.verdict is not Verdict.READ:
            texts = (string(mapping(part).get("text")) for part in listed(item.get("content")))
            mark.spellings = tuple(text for text in texts if text) or mark.spellings  # for a compaction
            self._find(mark, inf, is_message=True)

    def _take_event(self, kind: str, payload: dict[str, Any]) -> None:
        if kind == "item_completed":
            item = mapping(payload.get("item"))
            if item.get("type") == "AgentMessage":
                self._announced = string(item.get("id"))
            elif item.get("type") == "UserMessage":
                self._take_queued(item)
        elif kind in _TURN_BOUNDS:
            self._accept_doubtful()
            if self._phase is _Phase.ANSWERING:  # cut short, but the model had begun to answer
                self._complete()
                self._accept_doubtful()
        elif kind == "token_count" and not self._has_usage:
            self._complete()

    def _complete(self) -> None:
        """All of an answer is there. A message that was not announced may be a compaction's summary."""
        if self._phase is _Phase.ANSWERING:
            self._phase = _Phase.DOUBTFUL
            if self._is_turn:
                self._accept_doubtful()

    def _accept_doubtful(self) -> None:
        if self._phase is _Phase.DOUBTFUL:
            self._phase = _Phase.ANSWERED
            self._is_turn = False
            self._settle(self._request)

    def _compact(self, payload: dict[str, Any]) -> None:
        """The conversation is replaced; what was produced since the last request was its summary."""
        if self._phase is not _Phase.ANSWERED:
            self._phase, self._is_turn = _Phase.ASKING, False
        history = listed(payload.get("replacement_history"))
        present = [mark for mark in self._marks.values() if mark.is_present]
        kept = {mark.text for mark in marks_in(history or payload.get("message"), present)}
        for mark in present:
            # Older versions do not tell what is left: the user's messages are.
            mark.is_present = mark.text in kept or (not history and mark.is_message)


class CodexTranscript:
    """What Codex writes down of its sessions."""

    evidence = "transcript"

    def opened(self) -> CodexTranscript:
        """Return itself: it keeps no state."""
        return self

    def reader(self, event: HookEvent) -> CodexReader:
        """A reader of the session's rollout; after a backtrack the session goes on in another file."""
        return CodexReader(event.transcript)

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """From the last bound of the turn in the rollout: no hook reports that the model failed."""
        for line in lines_backwards(turn.transcript, TAIL_BYTES_MAX):
            if b"event_msg" not in line:
                continue
            entry = mapping(decoded(line))
            payload = mapping(entry.get("payload"))
            kind = string(payload.get("type"))
            if entry.get("type") != "event_msg" or kind not in _TURN_BOUNDS:
                continue
            if turn.client_id and payload.get("turn_id") != turn.client_id:
                continue  # of the turn that came next, or of one of the client's own
            at = seconds(entry.get("timestamp"))
            if kind in _TURN_STARTS:
                return TurnState(state="busy", at=at)
            failed = "errored" if payload.get("error") else "ended"
            outcome = "interrupted" if kind == "turn_aborted" else failed
            said = string(payload.get("last_agent_message")) if outcome == "ended" else ""
            return TurnState(state="idle", at=at, outcome=outcome, text=said)
        return None

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """The items of a rollout."""
        return entries(lines)


def entries(lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """The entries of a rollout file."""
    for entry in lines:
        if entry.get("type") != "response_item":
            continue
        at, item = seconds(entry.get("timestamp")), mapping(entry.get("payload"))
        if item.get("type") == "message" and item.get("role") in ("user", "assistant"):
            who: Who = "user" if item["role"] == "user" else "agent"
            yield from told(at, who, text_of(item.get("content")))
        elif item.get("type") in ("function_call", "custom_tool_call", "local_shell_call"):
            given = item.get("arguments") or item.get("input") or item.get("action")
            yield Said(at, "tool", call_line(item.get("name") or "shell", given))


def _is_of_model(kind: str, payload: dict[str, Any]) -> bool:
    if kind == "message":
        return payload.get("role") == "assistant"
    return kind == "reasoning" or kind.endswith("_call")
