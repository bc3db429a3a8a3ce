"""Claude Code's transcript, which tells each request and which answer belongs to it.

A request is what it keeps of an earlier one and the hashes of more messages; a hash is that of the text of an
`api-request-blob`, or for ordinary entries. The file is not in order of time, only the conversation's entries
are, among themselves. Undocumented, seen with 2.1.325; without requests the order of the entries has to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tellwire.clients.claude.status import read_turn_state
from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState, Verdict
from tellwire.clients.reader import (
    Mark,
    TranscriptReader,
    decoded,
    listed,
    literal_of,
    mapping,
    marks_in,
    seconds,
    string,
)
from tellwire.clients.said import blocks_said, text_of, told
from tellwire.system.bounded import BoundedDict

REQUESTS_MAX = 50_000
"""How many requests are remembered; one that builds on a forgotten one proves no absence."""
ANSWERED_MAX = 1_000

_TAKEN_UP = {"hook_additional_context", "queued_command"}
"""Attachments that are part of the conversation; `hook_success` only logs what a hook wrote, used or not."""
_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "[Request interrupted"
"""Begins what the client writes after an Esc that leaves the prompt in the conversation."""
_FEEDBACK = "Stop hook feedback:"
"""Before what a hook says to keep its turn going."""
_NOTHING = msgspec.Raw(b"null")


class _Line(msgspec.Struct, rename="camel"):
    """Of any line what the reader asks for; the rest is not even decoded."""

    type: str = ""
    subtype: str | None = None
    timestamp: str = ""
    is_sidechain: bool = False
    agent_id: str | None = None
    message: msgspec.Raw = _NOTHING
    attachment: msgspec.Raw = _NOTHING
    request_ref: str = ""
    is_api_error_message: bool = False
    operation: str = ""
    content: msgspec.Raw = _NOTHING
    id: str = ""
    base: str | None = None
    keep: int = 0
    tail: list[str] = []
    hash: str = ""


class _Request(msgspec.Struct, frozen=True):
    began_at: float
    base: str | None
    keep: int
    tail: tuple[str, ...]


class _Hashes(msgspec.Struct, frozen=True):
    """All messages of one request."""

    names: set[str]
    is_whole: bool
    """None is missing because a request that it builds on is not known."""


class ClaudeReader(TranscriptReader):
    """Follows one session's transcript."""

    evidence = "request"

    def _forget(self) -> None:
        """Reset everything that was read, for a file that is read from its beginning."""
        self._requests: BoundedDict[str, _Request] = BoundedDict(REQUESTS_MAX)
        self._answered: BoundedDict[str, None] = BoundedDict(ANSWERED_MAX)
        """Requests that were answered and are not in the file yet: it may have them behind their answers."""
        self._known: set[str] = set()
        """The hashes of which the text was seen."""
        self._holding: dict[str, set[str]] = {}
        """The marks that the message of a hash holds."""
        self._run: list[dict[str, Any]] = []
        self._run_of = ""
        self._run_marks: set[str] = set()
        self._asked_at = 0.0
        self._queue: list[tuple[float, bytes]] = []
        """The messages that wait for their turn, and since when."""
        self._prompt_at: float | None = None
        """When the first of the last prompts was, while nothing but additions of hooks follows them."""
        self._compacted_at = 0.0
        self._is_damaged = False

    def _read_line(self, line: bytes, offset: int) -> None:
        """Handle one entry of the main conversation; entries of sub-agents are skipped."""
        del offset  # time tells the order here, not the place
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._is_damaged |= bool(line.strip())
            self._lose_line(line)
            return
        if entry.is_sidechain or entry.agent_id:
            return
        match entry.type:
            case "api-request":
                self._add_request(entry)
            case "api-request-blob":
                self._known.add(entry.hash)
                if marks := marks_in(decoded(entry.message), self._named(line)):
                    self._holding[entry.hash] = {mark.text for mark in marks}
            case "user":
                self._take_message(entry, line)
            case "assistant":
                self._take_answer(entry)
            case "attachment":
                self._take_attachment(entry, line)
            case "queue-operation":
                self._take_queued(entry, line)
            case "system" if entry.subtype == "compact_boundary":
                self._compacted_at = seconds(entry.timestamp)
            case _:
                pass

    def _take_attachment(self, entry: _Line, line: bytes) -> None:
        if named := self._named(line):
            attachment = mapping(decoded(entry.attachment))
            if attachment.get("type") in _TAKEN_UP:
                for mark in marks_in(attachment, named):
                    self._take_up(mark, seconds(entry.timestamp))

    def _take_queued(self, entry: _Line, line: bytes) -> None:
        """What is typed or sent during a turn waits, and with it what a hook added to it."""
        at, content = seconds(entry.timestamp), bytes(entry.content)
        if entry.operation == "enqueue":
            self._queue.append((at, content))
        elif entry.operation in ("dequeue", "remove"):
            found = [one for one in self._queue if one[1] == content] or self._queue[:1]
            self._queue = [one for one in self._queue if one not in found[:1]]
        else:
            self._queue.clear()
        for mark in marks_in(decoded(entry.content), self._named(line)):
            mark.is_queued = entry.operation == "enqueue"
            if entry.operation in ("dequeue", "remove"):
                self._take_up(mark, at)

    def _take_up(self, mark: Mark, at: float) -> None:
        # What lies before the hand-over is from an earlier one. Claude's times are cut to milliseconds.
        if at > (mark.expected_at or 0.0) - 0.001:
            mark.taken_at = max(at, mark.taken_at or 0.0)
            mark.is_queued = False

    def may_return(self, mark: str) -> bool:
        """What an Esc has dropped stays in the file, and a resume goes by the file."""
        self._catch_up()  # a broker that has just been started has read nothing yet
        return self._file.holds([literal_of(mark)])

    def _is_taken(self, mark: Mark) -> bool:
        handed_over = mark.expected_at or 0.0
        waits = mark.is_queued or any(at > handed_over for at, _ in self._queue)
        return waits or (mark.taken_at is not None and mark.taken_at > self._compacted_at)

    def _is_withdrawn(self, mark: Mark) -> bool:
        # After an Esc before the answer the prompt is back in the input line, and what came with it is
        # gone. An Esc that leaves the prompt where it is writes so behind it.
        if self._prompt_at is None or mark.taken_at is None:
            return False
        return mark.taken_at >= self._prompt_at - 0.001

    # -- messages -------------------------------------------------------------------------------------

    def _take_message(self, entry: _Line, line: bytes) -> None:
        at = seconds(entry.timestamp)
        self._asked_at = max(self._asked_at, at)
        message = mapping(decoded(entry.message))
        if not _is_prompt(message):
            self._prompt_at = None
        elif self._prompt_at is None:
            self._prompt_at = at
        marks = marks_in(message, self._named(line))
        for mark in marks:
            self._take_up(mark, at)
            mark.is_message = True
        self._extend_run("user", message, {mark.text for mark in marks})

    def _extend_run(self, name: str, message: dict[str, Any], marks: set[str]) -> None:
        """Entries that follow each other may go to the model as one message; a new role ends the run."""
        if name != self._run_of:
            self._close_run()
            self._run_of = name
        self._run.append(message)
        self._run_marks |= marks
        self._know(message, marks)

    def _close_run(self) -> None:
        if len(self._run) > 1:
            content = [part for message in self._run for part in _parts(message)]
            self._know({"role": self._run[0].get("role"), "content": content}, self._run_marks)
        self._run, self._run_marks = [], set()

    def _know(self, message: dict[str, Any], marks: set[str]) -> None:
        role, content = message.get("role"), message.get("content")
        for written in (content, _parts(message)) if isinstance(content, str) else (content,):
            name = _hash({"role": role, "content": written})
            self._known.add(name)
            if marks:
                self._holding[name] = self._holding.get(name, set()) | marks

    # -- requests -------------------------------------------------------------------------------------

    def _add_request(self, entry: _Line) -> None:
        request = _Request(seconds(entry.timestamp), entry.base, max(entry.keep, 0), tuple(entry.tail))
        self._requests[entry.id] = request
        if entry.id in self._answered:
            del self._answered[entry.id]
            self._settle_request(request)

    def _take_answer(self, entry: _Line) -> None:
        self._prompt_at = None
        message = mapping(decoded(entry.message))
        name = string(message.get("id"))
        is_new = not name or name != self._run_of
        self._extend_run(name, {key: message.get(key) for key in ("role", "content")}, set())
        if entry.is_api_error_message or message.get("model") == _SYNTHETIC:
            return
        if entry.request_ref:
            if request := self._requests.get(entry.request_ref):
                self._settle_request(request)
            else:
                self._answered[entry.request_ref] = None
        elif not self._requests and is_new:
            self._settle_by_order(seconds(entry.timestamp))

    def _settle_request(self, request: _Request) -> None:
        """The model has answered this request: what is in it was read, what should be in it is absent."""
        waiting = self._open_marks()
        if not waiting:
            return
        hashes = self._hashes_of(request)
        held = {mark for name in hashes.names & self._holding.keys() for mark in self._holding[name]}
        is_known = hashes.names <= self._known
        for mark in waiting:
            if mark.text in held:
                mark.verdict = Verdict.READ
            elif (
                self._is_due(mark, request.began_at)
                and hashes.is_whole
                # A hash without text can only be ordinary entries, which hold no hook's text.
                and (is_known or not (mark.is_message or self._is_damaged))
            ):
                self._absent(mark)

    def _is_due(self, mark: Mark, began_at: float) -> bool:
        """A request that began then had to hold the text."""
        if mark.taken_at is not None:
            return began_at > mark.taken_at
        handed_over = mark.expected_at
        if handed_over is None or mark.is_deferred or mark.is_queued:
            return False
        if any(at > handed_over for at, _ in self._queue):
            return False
        return began_at > handed_over

    def _hashes_of(self, request: _Request) -> _Hashes:
        names = set(request.tail)
        wanted, base = request.keep, request.base
        for _ in range(len(self._requests)):  # a chain can be no longer than that; a circle could
            if wanted <= 0:
                break
            before = self._requests.get(base or "")
            if before is None:
                break
            names.update(before.tail[: max(wanted - before.keep, 0)])
            wanted, base = min(wanted, before.keep), before.base
        return _Hashes(names, wanted <= 0)

    def _settle_by_order(self, at: float) -> None:
        """A version that records no requests: an answer was given with everything before it."""
        for mark in self._open_marks():
            if mark.taken_at is not None:
                mark.verdict, self.evidence = Verdict.READ, "transcript"
            elif self._is_due(mark, min(self._asked_at, at)):
                self.evidence = "transcript"
                self._absent(mark)


class ClaudeTranscript:
    """What Claude Code writes down of its sessions."""

    evidence = "request"

    def opened(self) -> ClaudeTranscript:
        """Return itself: it keeps no state."""
        return self

    def reader(self, event: HookEvent) -> ClaudeReader:
        """A reader of the session's transcript; after /clear the session has another."""
        return ClaudeReader(event.transcript)

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """From the file that each session of it keeps of itself: an Esc runs no hook."""
        return read_turn_state(turn)

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """Its entries; what its sub-agents said is not the session's."""
        return entries(lines)


def entries(lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Claude Code's transcript; what its sub-agents said is not the session's."""
    for entry in lines:
        if entry.get("isSidechain"):
            continue
        at, kind = seconds(entry.get("timestamp")), entry.get("type")
        content = mapping(entry.get("message")).get("content")
        if entry.get("isMeta"):
            _, mark, fed_back = text_of(content).partition(_FEEDBACK)
            yield from told(at, "note", fed_back if mark else "")
        elif kind == "user":
            yield from told(at, "user", text_of(content))
        elif kind == "assistant":
            yield from blocks_said(at, listed(content), call="tool_use", arguments="input")
        elif kind == "attachment":
            yield from told(at, "note", _hook_text(mapping(entry.get("attachment"))))


def _hook_text(attachment: dict[str, Any]) -> str:
    """What a hook, or another session, put into the conversation."""
    if attachment.get("type") == "hook_additional_context":
        content = attachment.get("content")
        return "\n".join(map(string, listed(content))) if isinstance(content, list) else string(content)
    return string(attachment.get("prompt")) if attachment.get("type") == "queued_command" else ""


def _parts(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)


def _is_prompt(message: dict[str, Any]) -> bool:
    parts = [mapping(part) for part in _parts(message)]
    texts = [string(part.get("text")) for part in parts if part.get("type") == "text"]
    return bool(texts) and not any(text.startswith(_INTERRUPTED) for text in texts)


def _hash(message: dict[str, Any]) -> str:
    try:
        return hashlib.sha256(msgspec.json.encode(message, order="sorted")).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return ""  # half a surrogate pair, say: such a message has no hash that we could know
