"""What is known of an agent through its client's hooks: its session, its turn, and open hand-overs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tellwire.clients.client import Client, Reader
from tellwire.clients.events import HookEvent, Outcome, Turning, Verdict
from tellwire.clients.ports import NAMED
from tellwire.clients.said import last_asked
from tellwire.core.mail.waking import WAKEABLE, Standing, Wake, recent
from tellwire.sessions.turns import Ending, Turn, Turns

RESTING = ("idle", "errored")
"""States in which certainly no turn is in progress."""
DEFERRED = ("wake", "queue", NAMED)
"""Paths whose text the client may hold back until its next turn."""
BEGINNING = ("wake", "plugin")
"""Paths whose text begins a turn at once."""
WAKING = {*DEFERRED, *BEGINNING}
"""Paths for a client that is idle."""

STATES = {
    "session_started": "idle",
    "prompt": "busy",
    "tool_wanted": "busy",
    "tool_used": "busy",
    "turn_ended": "idle",
    "errored": "errored",
    "interrupted": "idle",
    "idle": "idle",
    "waiting": "waiting",
    "session_ended": "",
}
_CLOSING: dict[str, Outcome] = {"turn_ended": "ended", "errored": "errored", "interrupted": "interrupted"}

Place: TypeAlias = tuple[str, str]
"""A conversation: the client's id of it, and where it is written down."""


class EvidenceTimes(msgspec.Struct, frozen=True, kw_only=True):
    """From when on silence of a client means something."""

    lost_s: float = 5.0
    """A text that was handed to a waiter so long ago is in the client, or will never be."""
    settled_s: float = 3.0
    """A client that rests for so long has written down all that became of its last turn."""
    unbegun_s: float = 15.0
    """A text that should begin a turn at once, and has not within this, never will."""
    left_s: float = 90.0
    """A conversation that its human has left may go on for so long with what stands in its queue."""


@dataclass(slots=True)
class HandOver:
    """Messages on their way into one conversation. Its verdict is its own, and comes from one reader."""

    call: str
    """The lease's word; it begins with the path."""
    marks: list[str]
    way: str
    at: float
    """When, in seconds of the wall clock."""
    reader: Reader | None = None
    place: Place = ("", "")
    """The conversation that it went to."""
    is_deferred: bool = False

    @property
    def path(self) -> str:
        """By which door."""
        return self.call.partition(":")[0]

    def open(self, reader: Reader | None, place: Place) -> None:
        """Have the reader of a conversation judge it, from its beginning."""
        self.reader, self.place = reader, place
        if reader is not None:
            for mark in self.marks:
                reader.expect(mark, self.at, deferred=self.is_deferred)

    def doubt(self) -> None:
        """The client should have taken it up by now."""
        self.is_deferred = False
        if self.reader is not None:
            for mark in self.marks:
                self.reader.doubt(mark)

    def may_move(self) -> bool:
        """Whether the client may still take it up in another conversation than this one."""
        if self.path not in BEGINNING or not self.is_deferred:
            return False
        return _verdict(self) is Verdict.OPEN and self.is_lost(unbegun=True)

    def is_lost(self, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """Whether no part of it can still come into the context."""
        reader = self.reader
        # One of them may stand there from an earlier hand-over; this text has all of them.
        return reader is not None and any(
            reader.lacks(mark, left=left, unbegun=unbegun, stopped=stopped) for mark in self.marks
        )


class Book:
    """One agent's client, as its hooks show it."""

    glimpse: str = ""
    """Of what began a turn by itself: who wrote, and the first words, for its human's screen."""
    rested_at: float = 0.0
    """When the last turn ended."""
    begun_at: float = 0.0
    """When a hook last showed that a turn was in progress."""
    changed_at: float = 0.0
    """When it went on to another conversation."""
    has_ended: bool = False
    """The conversation is over, and no other has begun: there is nothing to wake."""

    def __init__(
        self,
        agent: str,
        client: Client,
        name: Callable[[], str],
        *,
        wake_line: str = "",
        clock: Callable[[], float] | None = None,
        times: EvidenceTimes | None = None,
    ) -> None:
        self._clock, self._times = clock or time.time, times or EvidenceTimes()
        self.agent = agent
        self.client = client
        self.turns = Turns(name, wake_line=wake_line, clock=self._clock)
        self.session, self.transcript, self.state = "", "", ""
        self.heard = 0
        """Events of the main conversation so far."""
        self.heard_at = 0.0
        """When the last one was, in seconds of the wall clock."""
        self.final_text = ""
        self.final_at = 0.0
        """What the last turn that ended said in the end, and when."""
        self.delegations = 0
        """Sub-agents under way whose hooks look like the main conversation's."""
        self.is_woken, self.woken_at = False, 0.0
        """Whether the turn under way, or the one that comes, is a wake's, and when that wake was."""
        self.failures, self.failed_at = 0, 0.0
        """Woken turns in a row that failed, and when the last of them did (WAKE-3)."""
        self.worked: dict[str, float] = {}
        """From the name of each path to when evidence last proved it."""
        self.is_ready = True
        """False while a long transcript is read for the first time, elsewhere."""
        self.reader: Reader | None = None
        self.open: dict[str, HandOver] = {}
        """Hand-overs without evidence, by the call's word."""
        self.judged: dict[str, HandOver] = {}
        """Hand-overs with a verdict that may not be in the journal yet."""
        self.announced: set[str] = set()
        """Large messages that the client was woken for already."""
        self.was_interrupted = False
        """Its human stopped it, and has said nothing since."""
        self.interrupted_at = 0.0
        self.watching = False
        self.wake_waits, self.news = False, asyncio.Event()
        """Whether somebody waits for when it may be woken, and what has them look again."""
        self.is_over = False  # the session has ended
        self.continuations = 0
        """Ends of turns in a row that text has kept from being ends."""
        self._wakes: list[Wake] = []

    def note(self, event: HookEvent) -> list[Ending]:
        """The main conversation goes on; the turns that this ends. One that ends with it is `close`'s."""
        if event.what == "session_ended" and self.session not in ("", event.session):
            return []  # one that its human has left before
        self.heard += 1
        self.heard_at = self._clock()
        if (event.session, event.transcript) != (self.session, self.transcript) or self.reader is None:
            self.restore(event.session, event.transcript)
        if event.what == "interrupted":
            self.interrupt()
        elif event.what == "prompt":
            self.was_interrupted = False
        endings = self.turns.see(event)
        turn = self.turns.current
        if event.what == "prompt" and turn is not None and turn.human:
            self.is_woken, self.failures = False, 0
            self._doubt_wakes()
        if event.what == "idle" and self.state in ("busy", "waiting"):
            endings += self.turns.end("interrupted")
        # Who tells of a start only with its first prompt may have been resumed since.
        tells_starts = not self.client.starts_with_prompt
        self.has_ended = event.what == "session_ended" and tells_starts
        is_news = event.what != "idle" or self.state != "errored"
        if (event.what, event.source) == ("session_started", "compact"):
            if self.state in RESTING:
                self.rested_at = self._clock()  # what it was given for its next turn may be gone
        elif is_news:
            self._enter(STATES.get(event.what, self.state))
        self._count(event)
        return endings

    def _enter(self, state: str) -> None:
        if state in RESTING and self.state not in RESTING:
            self.rested_at = self._clock()
        elif state == "busy":
            self.begun_at = self._clock()
        self.state = state

    def restore(self, session: str, transcript: str) -> None:
        """This is the session, and there it is written down."""
        is_other = bool(self.session) and session != self.session
        self.session, self.transcript = session, transcript
        before, self.reader = self.reader, self._reader_of((session, transcript))
        if is_other:
            self.changed_at = self._clock()
        for given in self.open.values():
            # What a waiter was given enters the next turn, of whichever conversation; the rest stays.
            if before is None or not is_other or given.may_move():
                given.open(self.reader, self.place)

    def _reader_of(self, place: Place) -> Reader:
        session, transcript = place
        return self.client.transcript.reader(
            HookEvent(what="other", name="", session=session, transcript=transcript)
        )

    def _count(self, event: HookEvent) -> None:
        if event.what in ("tool_used", "prompt"):
            self.continuations = 0
        if event.delegation:
            self.delegations = max(0, self.delegations + event.delegation)
        elif event.what not in ("tool_wanted", "tool_used", "waiting", "other"):
            self.delegations = 0  # a sub-agent that died told no end

    def interrupt(self) -> None:
        """Its human stopped it."""
        self.was_interrupted, self.interrupted_at = True, self._clock()

    def close(self, event: HookEvent) -> list[Ending]:
        """The event ends a turn, and nothing keeps it from ending."""
        outcome = _CLOSING.get(event.what)
        # An end that has an id of its own is no hook that is registered twice.
        if outcome == "ended" and not event.ending and self.turns.is_part_again(event.final_text):
            self.state = "busy"
            return []
        return [] if outcome is None else self.finish(outcome, event.final_text, event.ending)

    def is_checkpoint(self, turn: Turn, prompt: str) -> bool:
        """Whether a turn answers a checkpoint's prompt, which may also have come by another's hook."""
        if turn.checkpoint or not prompt:
            return turn.checkpoint
        return prompt in turn.prompt or prompt in last_asked(self.client.transcript.entries, self.transcript)

    def part(self, event: HookEvent) -> list[Ending]:
        """What it has finally said before mail that may keep its turn going."""
        endings = self.turns.part(event.final_text)
        if endings:
            self.final_text, self.final_at = endings[-1].text, self._clock()
        return endings

    def keep_going(self) -> None:
        """Mail keeps its turn from ending."""
        self.state = "busy"
        self.turns.keep_going()

    def finish(self, outcome: Outcome, text: str = "", ending: str = "") -> list[Ending]:
        """The turn is over, whoever told so; `ending` is the client's id of that, if it has one."""
        endings = self.turns.end(outcome, text, ending)
        self.state = "errored" if outcome == "errored" else "idle"
        self.rested_at = self._clock()
        if endings and outcome == "ended":
            self.final_text, self.final_at = endings[-1].text, self._clock()
            self.failures = 0
        is_ours = self.is_woken or any(not ending.turn.human for ending in endings)
        if outcome == "errored" and is_ours:
            self.failures += 1
            self.failed_at = self._clock()
        self.is_woken = False
        return endings

    def takes(self, event: HookEvent) -> bool:
        """Whether mail given at this event reaches the main conversation by itself.

        What is given at a session's start stays unread until somebody prompts; that prompt's own hook, or a
        wake, brings it sooner. Some clients tell of a session's start with its first prompt.
        """
        if event.what == "session_started" and not self.client.starts_with_prompt:
            return False
        return event.takes_text and not (event.what == "tool_used" and self.delegations)

    def glimpse_at(self, event: HookEvent) -> str:
        """What the human is shown of a wake, at the prompt that it comes as; once."""
        if event.what != "prompt":
            return ""
        line, self.glimpse = self.glimpse, ""
        return "" if event.typed else line

    def turning(self, pid: int) -> Turning:
        """The turn under way, for a look into the client's own files."""
        turn = self.turns.current
        return Turning(
            pid=pid,
            session=self.session,
            transcript=self.transcript,
            since=self.heard_at,
            began_at=self.heard_at if turn is None else turn.began_at,
            word="" if turn is None else turn.word,
        )

    @property
    def checkpoint_next(self) -> bool:
        """Whether the next turn is a checkpoint's: it concerns nobody else."""
        return self.turns.checkpoint_next

    @checkpoint_next.setter
    def checkpoint_next(self, value: bool) -> None:
        self.turns.checkpoint_next = value

    def hand_over(
        self,
        call: str,
        marks: list[str],
        *,
        way: str = "",
        at: float = 0.0,
        left: Place | None = None,
        due: bool = False,
    ) -> None:
        """Messages are on their way into the context, or in it without evidence.

        `left` is the conversation that they went to, if its human has gone on to another one since. What
        is `due` has to be in the next request, whatever path it takes.
        """
        given = HandOver(call, marks, way, at or self._clock())
        given.is_deferred = given.path in DEFERRED and not due
        self.open[call] = given
        if left is not None:
            given.open(self._reader_of(left), left)
        elif self.is_ready:
            given.open(self.reader, self.place)

    def expect_open(self) -> None:
        """The reader is ready now: tell it of what was handed over meanwhile."""
        for given in self.open.values():
            if given.reader is None:
                given.open(self.reader, self.place)

    def _doubt_wakes(self) -> None:
        """What a waiter was given begins a turn at once; if a human does so later, it may have been lost."""
        late = self._clock() - self._times.lost_s
        for given in self.open.values():
            if given.is_deferred and given.path in BEGINNING and given.at < late:
                given.doubt()

    def judge(self) -> tuple[list[str], list[str]]:
        """The calls whose messages were read, and those whose messages are not in the context."""
        if not self.open or not self.is_ready:
            return [], []
        read: list[str] = []
        absent: list[str] = []
        for given in list(self.open.values()):
            verdict = _verdict(given)
            if verdict is Verdict.READ:
                read.append(given.call)
                if given.way:
                    self.worked[given.way] = self._clock()
            elif verdict is Verdict.ABSENT or self._is_over(given):
                absent.append(given.call)
            else:
                continue
            self.judged[given.call] = self.open.pop(given.call)
        return read, absent

    def _is_over(self, given: HandOver) -> bool:
        """The turn it was for has ended, the client rests, and its record has settled without the text."""
        now = self._clock()
        if given.reader is not self.reader:
            is_due = given.path in BEGINNING or not given.is_deferred
            wait_s = self._times.settled_s if is_due else self._times.left_s
            return now - self.changed_at > wait_s and given.is_lost(left=True)
        quiet_s = now - max(self.rested_at, self.heard_at, given.at)
        if self.state not in RESTING or quiet_s <= self._times.settled_s:
            return False
        begins = given.path in BEGINNING
        unbegun = quiet_s > self._times.unbegun_s
        is_due = unbegun if begins else self.rested_at > given.at and not given.is_deferred
        return is_due and given.is_lost(
            unbegun=begins and self.begun_at < given.at,
            stopped=self.was_interrupted and self.interrupted_at > given.at,
        )

    @property
    def place(self) -> Place:
        """The conversation that it is in."""
        return self.session, self.transcript

    @property
    def places(self) -> set[Place]:
        """All conversations in which something may still be found."""
        return {self.place, *(given.place for given in self.open.values())}

    @property
    def readers(self) -> list[Reader]:
        """Those of all these conversations."""
        found = [self.reader, *(given.reader for given in self.open.values())]
        return [reader for number, reader in enumerate(found) if reader and reader not in found[:number]]

    @property
    def leases(self) -> dict[str, HandOver]:
        """All hand-overs that may have a lease, by the call's word."""
        return {**self.judged, **self.open}

    def drop_settled(self, leased: Container[str]) -> None:
        """Forget the hand-overs whose leases are over: by evidence, a reply, or the session's end."""
        self.open = {call: given for call, given in self.open.items() if call in leased}
        self.judged = {call: given for call, given in self.judged.items() if call in leased}

    @property
    def evidence(self) -> str:
        """The word for what the reader finds."""
        return self.client.transcript.evidence if self.reader is None else self.reader.evidence

    @property
    def is_wakeable(self) -> bool:
        """Whether a wake could begin a turn."""
        return self.state in WAKEABLE

    @property
    def standing(self) -> Standing:
        """What decides whether it may be woken."""
        return Standing(
            self.state,
            failures=self.failures,
            failed_at=self.failed_at,
            interrupted_at=self.interrupted_at if self.was_interrupted else 0.0,
            woken_at=self.woken_at if self.is_woken else 0.0,
            wakes=self._wakes,
            has_ended=self.has_ended,
        )

    def count_wake(self, now: float, senders: frozenset[str]) -> None:
        """It is being woken, for the mail of these."""
        self._wakes = [*recent(self._wakes, now), Wake(now, senders)]

    def note_woken(self) -> None:
        """A wake has reached its client."""
        self.is_woken, self.woken_at = True, self._clock()


def _verdict(given: HandOver) -> Verdict:
    if given.reader is None or not given.marks:
        return Verdict.OPEN
    seen = set(given.reader.judge(given.marks).values())
    if Verdict.OPEN in seen:
        return Verdict.OPEN
    # One of them may be known from an earlier hand-over; that proves nothing of this text.
    return Verdict.ABSENT if Verdict.ABSENT in seen else Verdict.READ


def mark_of(message: str, *, notice: bool) -> str:
    """What a message's frame has in it, and nothing else does; a notice of the broker has another."""
    return f"tellwire: notice id={message} " if notice else f"peer-message id={message} from="
