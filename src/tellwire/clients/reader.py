"""Following a transcript that a client writes: new lines only, and the marks of texts that were handed over.

What a line means is the business of each client's module; a reader here knows only files, marks and time.
"""

from __future__ import annotations

import html
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import msgspec

from tellwire.clients.events import Verdict

LONG_BYTES = 1 << 20
LINE_BYTES_MAX = 64 << 20
"""A longer line is passed over; the largest tool outputs stay far below."""
UNREADABLE = b"\0"
"""A placeholder for such a line."""
FRESH_S = 1.0
"""What was handed over within this is not in the file yet."""
MARKS_MAX = 4_096
"""How many texts are remembered for a session; settled ones are forgotten first."""
TAIL_BYTES_MAX = 16 << 20
"""How far back the file is searched."""
_BLOCK_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20
_FINGERPRINT_BYTES = 64
# No client writes any of these otherwise than as they are, so a line without them cannot hold the mark.
_LITERAL = re.compile(rb"[A-Za-z0-9 #_.:,@=+-]+")


@dataclass(slots=True)
class Mark:
    """What is known of one text that was handed over."""

    text: str
    spellings: tuple[str, ...]
    """Some clients give the model `&quot;` for a quote."""
    literal: bytes
    """A part of it that occurs unescaped in the raw line."""
    verdict: Verdict = Verdict.OPEN
    expected_at: float | None = None
    """When it was handed over; nothing older can be about it."""
    expected_from: int = 0
    """Where the file ended at that time."""
    taken_at: float | None = None
    """When the client took it up: it is in its conversation, though maybe in no request yet."""
    is_message: bool = False
    """It came as a message of its own, or within one; else as a hook's addition."""
    is_queued: bool = False
    """The client holds it back for later."""
    is_present: bool = False
    """It is in the conversation as the file tells it now."""
    due: int | None = None
    """Of the numbered requests, the first that has to hold it."""
    is_searched: bool = True
    """The file was searched for it as far as it had been read when the mark became known."""
    is_deferred: bool = False
    """It went into a queue of the client: requests without it may come before its turn."""
    is_doubtful: bool = False
    """A line that cannot be read may have held it."""
    was_absent: bool = False
    """Of an earlier hand-over: a request that should have held it did not."""

    def forget(self) -> None:
        """Be as new, for a file that is read again; a verdict stays."""
        self.taken_at, self.is_message, self.is_queued = None, False, False
        self.is_present, self.due = False, None


class FileFollower:
    """The whole lines that a growing file gained since the last look."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inode = 0
        self._begin = 0
        self._rest = bytearray()
        self._is_skipping = False
        self._fingerprint = b""
        self.position = 0
        """How much of the file has been read."""

    def size(self) -> int:
        """How long the file is now; 0 if there is none."""
        with suppress(OSError, ValueError):
            return os.stat(self._path).st_size
        return 0

    def lines(self, restart: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
        """Each new line, with where it begins; a last line without its end waits.

        `restart` is called first if the file is not the one that was followed so far.
        """
        if not self._path:
            return
        # A path that leads to a pipe or a device must not block us.
        with suppress(OSError, ValueError), open(self._path, "rb", opener=open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return
            if self.position and (
                found.st_ino != self._inode or not self._is_same(file.fileno(), found.st_size)
            ):
                self._forget()
                restart()
            self._inode = found.st_ino
            yield from self._new_lines(file.fileno())

    def again(self) -> None:
        """Read the file from its beginning at the next look."""
        self._forget()

    def holds(self, literals: Iterable[bytes]) -> bool:
        """One of these is in what was read so far."""
        wanted = [re.escape(literal) for literal in literals]
        if not wanted or not self.position:
            return False
        pattern, overlap = re.compile(b"|".join(wanted)), max(map(len, wanted))
        with suppress(OSError, ValueError), open(self._path, "rb", opener=open_at_once) as file:
            before, place = b"", 0
            while place < self.position:
                chunk = os.pread(file.fileno(), min(_CHUNK_BYTES, self.position - place), place)
                if not chunk:
                    break
                if pattern.search(before + chunk):
                    return True
                before, place = chunk[-overlap:], place + len(chunk)
        return False

    def _is_same(self, descriptor: int, size: int) -> bool:
        if size < self.position:
            return False
        start = self.position - len(self._fingerprint)
        return os.pread(descriptor, len(self._fingerprint), start) == self._fingerprint

    def _forget(self) -> None:
        self.position, self._begin, self._fingerprint, self._is_skipping = 0, 0, b"", False
        self._rest.clear()

    def _new_lines(self, descriptor: int) -> Iterator[tuple[int, bytes]]:
        """The lines that are complete by now, in chunks; one beyond the bound becomes `UNREADABLE`."""
        while chunk := os.pread(descriptor, _CHUNK_BYTES, self.position):
            place = self.position
            self.position += len(chunk)
            self._fingerprint = (self._fingerprint + chunk[-_FINGERPRINT_BYTES:])[-_FINGERPRINT_BYTES:]
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                place += len(line) + 1
                begin, self._begin = self._begin, place
                if self._is_skipping:
                    line = UNREADABLE
                elif self._rest:
                    line = bytes(self._rest) + line
                self._rest.clear()
                self._is_skipping = False
                yield begin, line
            if not self._is_skipping:
                self._rest += rest
            if len(self._rest) > LINE_BYTES_MAX:
                self._rest.clear()
                self._is_skipping = True


class TranscriptReader:
    """The part of every reader that knows no client: which marks, which lines, and when."""

    evidence = "transcript"
    """The name of the evidence that this reader's verdicts rest on."""

    def __init__(self, path: str, *, clock: Callable[[], float] | None = None) -> None:
        self._file = FileFollower(path)
        self._clock = clock or time.time
        self._marks: dict[str, Mark] = {}
        self._doubted: list[Mark] = []
        self._forget()

    def expect(self, mark: str, at: float | None = None, *, deferred: bool = False) -> None:
        """A text with this mark is handed over, now or `at`: a verdict of its own begins.

        From now on an answered request without it counts, even if the client never wrote the text down.
        For a deferred text, which goes into a queue of the client, that holds once the client took it up.
        """
        known = self._marks.get(mark)
        if known is None:
            # Not searched for now: somebody waits for the hook. It matters only before ABSENT is said.
            known = self._marks[mark] = _new_mark(mark, is_searched=self._file.position == 0)
        if known.verdict is Verdict.READ:
            return
        # What became of an earlier hand-over says nothing of this one.
        known.verdict, known.taken_at, known.due, known.is_queued = Verdict.OPEN, None, None, False
        known.is_deferred, known.is_doubtful = deferred, False
        now = self._clock()
        known.expected_at = now if at is None else min(at, now)
        is_fresh = now - known.expected_at < FRESH_S
        known.expected_from = self._file.size() if is_fresh else 0

    def doubt(self, mark: str) -> None:
        """A deferred text should have been taken up by now; unless it was, requests without it count."""
        known = self._marks.get(mark)
        if known is not None and known.is_deferred and not self._is_taken(known):
            known.is_deferred, known.expected_at = False, self._clock()
            known.expected_from = self._file.size()

    def lacks(self, mark: str, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """The client is idle, and its file shows nothing of the hand-over and never will.

        `left`: its human has gone on to another conversation. `unbegun`: the text was to begin a turn, and
        no hook has told of one. `stopped`: its human interrupted the last turn.
        """
        known = self._marks.get(mark)
        if known is None or known.verdict is not Verdict.OPEN or known.is_doubtful:
            return False
        if not (left or unbegun) and not self._file.position:
            return False  # a file that is missing shows nothing
        if not known.is_searched:
            known.is_searched = True
            if self._file.holds([known.literal]):
                self._start_over()
                self._catch_up()
        return left or not self._is_taken(known) or (stopped and self._is_withdrawn(known))

    def is_present(self, mark: str) -> bool:
        """A text with this mark is in the conversation already, and will be in its next request."""
        self.judge([mark])
        known = self._marks[mark]
        return known.is_present and not known.was_absent

    def may_return(self, mark: str) -> bool:
        """The client dropped a text with this mark, but brings it back when the session is resumed."""
        del mark
        return False

    def judge(self, marks: Sequence[str]) -> dict[str, Verdict]:
        """What is known now of the texts that contain these marks."""
        self._learn(marks)
        self._catch_up()
        self._resolve_doubts()
        verdicts = {mark: self._marks[mark].verdict for mark in marks}
        self._drop_settled()
        return verdicts

    # -- for each client ------------------------------------------------------------------------------

    def _forget(self) -> None:
        """The file is read from its beginning: nothing of it is known."""
        raise NotImplementedError

    def _read_line(self, line: bytes, offset: int) -> None:
        """One line of the file, whatever is in it."""
        raise NotImplementedError

    # -- for all of them ------------------------------------------------------------------------------

    def _open_marks(self) -> list[Mark]:
        return [mark for mark in self._marks.values() if mark.verdict is Verdict.OPEN]

    def _named(self, line: bytes) -> list[Mark]:
        """The marks that may be in this line; a quick look, to spare the parsing."""
        return [m for m in self._marks.values() if m.verdict is not Verdict.READ and m.literal in line]

    def _is_taken(self, mark: Mark) -> bool:
        """The client has the text: it is in its conversation, or will be."""
        return mark.is_present

    def _is_withdrawn(self, mark: Mark) -> bool:
        """An interrupt has taken the text out again, though the file still has it."""
        del mark
        return False

    def _is_after(self, mark: Mark, offset: int, at: float) -> bool:
        """Written after the text with this mark was handed over, and had to come with it."""
        if mark.expected_at is None or mark.is_deferred:
            return False
        return offset >= mark.expected_from and at > mark.expected_at

    def _settle(self, number: int) -> None:
        """The request of this number was answered (for clients whose requests we number)."""
        for mark in self._open_marks():
            if mark.due is None or mark.due > number:
                continue
            if mark.is_present:
                mark.verdict = Verdict.READ
            else:
                self._absent(mark)

    def _absent(self, mark: Mark) -> None:
        if mark.is_searched:
            mark.verdict, mark.was_absent = Verdict.ABSENT, True
        else:
            self._doubted.append(mark)

    def _resolve_doubts(self) -> None:
        """Before a text is called absent: was it in what we had read before its mark was known?"""
        doubted = [mark for mark in self._doubted if mark.verdict is Verdict.OPEN]
        self._doubted.clear()
        for mark in doubted:
            mark.is_searched = True
        if self._file.holds(mark.literal for mark in doubted):
            self._start_over()
            self._catch_up()
        else:
            for mark in doubted:
                mark.verdict, mark.was_absent = Verdict.ABSENT, True

    def _lose_line(self, line: bytes) -> None:
        """A line cannot be read: a text that was not seen yet may have been in it, so it is not missed."""
        if line.strip():
            for mark in self._open_marks():
                mark.is_doubtful = True
                if not mark.is_present:
                    mark.expected_at, mark.due = None, None

    def _learn(self, marks: Sequence[str]) -> None:
        """A mark that nobody announced may be in what was read already; then all of it is read again."""
        new = [_new_mark(mark) for mark in dict.fromkeys(marks) if mark not in self._marks]
        self._marks |= {mark.text: mark for mark in new}
        if self._file.holds(mark.literal for mark in new):
            self._start_over()

    def _start_over(self) -> None:
        self._file.again()
        self._restart()

    def _restart(self) -> None:
        for mark in self._marks.values():
            mark.forget()
        self._forget()

    def _restart_shorter(self) -> None:
        for mark in self._marks.values():
            mark.expected_from = 0
        self._restart()

    def _catch_up(self) -> None:
        for offset, line in self._file.lines(self._restart_shorter):
            self._read_line(line, offset)

    def _drop_settled(self) -> None:
        surplus = len(self._marks) - MARKS_MAX
        if surplus <= 0:
            return
        settled = [mark for mark in self._marks.values() if mark.verdict is not Verdict.OPEN]
        for mark in (settled + self._open_marks())[:surplus]:
            del self._marks[mark.text]


# -- what every module does with foreign JSON ---------------------------------------------------------


def decoded(raw: bytes | msgspec.Raw) -> Any:
    """The JSON in it; None if it is not JSON."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    with suppress(ValueError, RecursionError):  # half a surrogate pair is no JSON for msgspec
        return json.loads(bytes(raw))
    return None


def mapping(value: Any) -> dict[str, Any]:
    """The object it is; an empty one if it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """The list it is; an empty one if it is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def string(value: Any) -> str:
    """The text it is; an empty one if it is something else."""
    return value if isinstance(value, str) else ""


def marks_in(value: Any, marks: Iterable[Mark]) -> list[Mark]:
    """The marks that occur in some text of this JSON value."""
    wanted = list(marks)
    if not wanted:
        return []
    texts = list(_texts(value))
    return [mark for mark in wanted if any(word in text for text in texts for word in mark.spellings)]


def seconds(timestamp: Any) -> float:
    """A client's time stamp as seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(string(timestamp)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def is_long(path: str) -> bool:
    """Whether reading a transcript would be felt."""
    try:
        return os.path.getsize(path) > LONG_BYTES
    except (OSError, ValueError):
        return False


def open_at_once(path: str, flags: int) -> int:
    """An opener that never waits, whatever the path leads to."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def literal_of(mark: str) -> bytes:
    """A part of a mark that occurs unescaped in a raw line."""
    return max(_LITERAL.findall(mark.encode(errors="replace")), key=len, default=b"")


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))


def _new_mark(mark: str, *, is_searched: bool = True) -> Mark:
    spellings = dict.fromkeys((mark, html.escape(mark, quote=False), html.escape(mark)))
    return Mark(mark, tuple(spellings), literal_of(mark), is_searched=is_searched)


def lines_backwards(path: str, bytes_max: int = 0) -> Iterator[bytes]:
    """The lines of a file, the last one first; nothing of a file that cannot be read."""
    if not path:
        return
    with suppress(OSError, ValueError), open(path, "rb", opener=open_at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return
        place, rest = found.st_size, b""
        stop = max(0, place - (bytes_max or TAIL_BYTES_MAX))
        pieces: list[bytes] = []
        while place > stop:
            size = min(_BLOCK_BYTES, place - stop)
            place -= size
            rest = os.pread(file.fileno(), size, place)
            if b"\n" not in rest:
                pieces.append(rest)
                continue
            first, *whole = rest.split(b"\n")
            whole[-1] += b"".join(reversed(pieces))
            yield from reversed(whole)
            pieces = [first]
        if stop == 0:
            yield b"".join(reversed(pieces))
