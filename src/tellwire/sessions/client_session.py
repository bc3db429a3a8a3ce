"""What is known of an agent through its client's hooks: its conversation, turns, leases and wakes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from tellwire.clients.client import Client, Reader
from tellwire.clients.events import HookEvent, OpenTurn, Outcome, Verdict
from tellwire.clients.ports import NAMED
from tellwire.clients.said import last_asked
from tellwire.core.mail.waking import WAKEABLE, Standing, Wake, recent
from tellwire.sessions.turns import Ending, Turn, TurnLog

RESTING = ("idle", "errored")
"""States in which certainly no turn is in progress."""
DEFERRED = ("wake", "queue", NAMED)
"""Channels whose text the client may hold back until its next turn."""
BEGINNING = ("wake", "plugin")
"""Channels whose text begins a turn at once."""
WAKING = {*DEFERRED, *BEGINNING}
"""Channels to a client that is idle."""

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
    """When a silent client means that a text was lost."""

    lost_s: float = 5.0
    """After this long, a text that was handed to a waiter is in the client, or never will be."""
    settled_s: float = 3.0
    """A client that is idle for this long has written its last turn to the transcript."""
    unbegun_s: float = 15.0
    """A text that should begin a turn at once, and has not within this, never will."""
    left_s: float = 90.0
    """How long a conversation that its human has left may still work on its queue."""


@dataclass(slots=True)
class Lease:
    """Messages that were handed to one conversation, until its reader has a verdict on them."""

    call: str
    """The id of the lease; it begins with the channel."""
    marks: list[str]
    """What to look for in the transcript."""
    path: str
    """The path by which it went, as the listing names it."""
    at: float
    """When, in seconds of the wall clock."""
    reader: Reader | None = None
    place: Place = ("", "")
    """The conversation that it went to."""
    is_deferred: bool = False

    @property
    def channel(self) -> str:
        """What carried it into the client: a hook, a waiter, a queue, a plugin."""
        return self.call.partition(":")[0]

    def open(self, reader: Reader | None, place: Place) -> None:
        """Have the reader of a conversation judge it from the start."""
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
        if self.channel not in BEGINNING or not self.is_deferred:
            return False
        return _verdict(self) is Verdict.OPEN and self.is_lost(unbegun=True)

    def is_lost(self, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """Whether no part of it can still come into the context."""
        reader = self.reader
        # One of them may be there from an earlier hand-over; this text has all of them.
        return reader is not None and any(
            reader.lacks(mark, left=left, unbegun=unbegun, stopped=stopped) for mark in self.marks
        )


class Activity(NamedTuple):
    """What a client does, and since when: whether it can still take up what it was given."""

    state: str
    heard_at: float
    rested_at: float
    begun_at: float
    interrupted_at: float


class Leases:
    """What one agent's client was given, and which conversation's transcript proves that it was read."""

    def __init__(self, client: Client, clock: Callable[[], float], times: EvidenceTimes) -> None:
        self._transcripts = client.transcript
        self._clock = clock
        self._times = times
        self.place: Place = ("", "")
        """The conversation that the client is in."""
        self.changed_at = 0.0
        """When it went on to another conversation."""
        self.reader: Reader | None = None
        self.is_ready = True
        """False while a long transcript is read for the first time, in a thread."""
        self.is_watched = False
        """A task polls the transcript."""
        self.open: dict[str, Lease] = {}
        """Without evidence, by call."""
        self.judged: dict[str, Lease] = {}
        """With a verdict that may not be in the journal yet."""
        self.announced: set[str] = set()
        """Large messages that the client was woken for already."""
        self.worked: dict[str, float] = {}
        """From the name of each path to when evidence last proved it."""

    def move_to(self, place: Place) -> None:
        """The client goes on in this conversation."""
        is_other = bool(self.place[0]) and place[0] != self.place[0]
        self.place = place
        before, self.reader = self.reader, self._reader_of(place)
        if is_other:
            self.changed_at = self._clock()
        for lease in self.open.values():
            # What a waiter was given enters the next turn, of whichever conversation; the rest stays.
            if before is None or not is_other or lease.may_move():
                lease.open(self.reader, self.place)

    def _reader_of(self, place: Place) -> Reader:
        session, transcript = place
        return self._transcripts.reader(
            HookEvent(what="other", name="", session=session, transcript=transcript)
        )

    def add(
        self,
        call: str,
        marks: list[str],
        *,
        path: str = "",
        at: float = 0.0,
        left: Place | None = None,
        due: bool = False,
    ) -> None:
        """Note messages that were handed to the client, and have no evidence yet.

        `left` is the conversation that they went to, if its human has gone on to another one since. What
        is `due` has to be in the next request, whatever carries it.
        """
        lease = Lease(call, marks, path, at or self._clock())
        lease.is_deferred = lease.channel in DEFERRED and not due
        self.open[call] = lease
        if left is not None:
            lease.open(self._reader_of(left), left)
        elif self.is_ready:
            lease.open(self.reader, self.place)

    def expect_open(self) -> None:
        """The reader is ready now: tell it of what was handed over meanwhile."""
        for lease in self.open.values():
            if lease.reader is None:
                lease.open(self.reader, self.place)

    def doubt_wakes(self) -> None:
        """What a waiter was given begins a turn at once; if a human does so later, it may have been lost."""
        late = self._clock() - self._times.lost_s
        for lease in self.open.values():
            if lease.is_deferred and lease.channel in BEGINNING and lease.at < late:
                lease.doubt()

    def judge(self, activity: Activity) -> tuple[list[str], list[str]]:
        """The calls whose messages were read, and those whose messages are not in the context."""
        if not self.open or not self.is_ready:
            return [], []
        read: list[str] = []
        absent: list[str] = []
        for lease in list(self.open.values()):
            verdict = _verdict(lease)
            if verdict is Verdict.READ:
                read.append(lease.call)
                if lease.path:
                    self.worked[lease.path] = self._clock()
            elif verdict is Verdict.ABSENT or self._is_over(lease, activity):
                absent.append(lease.call)
            else:
                continue
            self.judged[lease.call] = self.open.pop(lease.call)
        return read, absent

    def _is_over(self, lease: Lease, activity: Activity) -> bool:
        """Its turn has ended, the client is idle, and its transcript has settled without the text."""
        now = self._clock()
        if lease.reader is not self.reader:
            is_due = lease.channel in BEGINNING or not lease.is_deferred
            wait_s = self._times.settled_s if is_due else self._times.left_s
            return now - self.changed_at > wait_s and lease.is_lost(left=True)
        quiet_s = now - max(activity.rested_at, activity.heard_at, lease.at)
        if activity.state not in RESTING or quiet_s <= self._times.settled_s:
            return False
        begins = lease.channel in BEGINNING
        unbegun = quiet_s > self._times.unbegun_s
        is_due = unbegun if begins else activity.rested_at > lease.at and not lease.is_deferred
        return is_due and lease.is_lost(
            unbegun=begins and activity.begun_at < lease.at,
            stopped=activity.interrupted_at > lease.at,
        )

    @property
    def places(self) -> set[Place]:
        """All conversations in which something may still be found."""
        return {self.place, *(lease.place for lease in self.open.values())}

    @property
    def readers(self) -> list[Reader]:
        """The readers of all these conversations."""
        found = [self.reader, *(lease.reader for lease in self.open.values())]
        return [reader for number, reader in enumerate(found) if reader and reader not in found[:number]]

    @property
    def held(self) -> dict[str, Lease]:
        """Everything that the broker may still count as leased, by call."""
        return {**self.judged, **self.open}

    def drop_settled(self, leased: Container[str]) -> None:
        """Forget what is not leased any more: because of evidence, a reply, or the session's end."""
        self.open = {call: lease for call, lease in self.open.items() if call in leased}
        self.judged = {call: lease for call, lease in self.judged.items() if call in leased}

    @property
    def evidence(self) -> str:
        """The kind of evidence that the reader finds."""
        return self._transcripts.evidence if self.reader is None else self.reader.evidence


class Wakes:
    """How one agent's client was woken, and what came of it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._recent: list[Wake] = []
        self.is_woken, self.woken_at = False, 0.0
        """Whether a wake caused the current or the next turn, and when that wake was."""
        self.failures, self.failed_at = 0, 0.0
        """Woken turns in a row that failed, and when the last of them did (WAKE-3)."""
        self.continuations = 0
        """Ends of turns in a row that mail has kept from being ends."""
        self.is_waiting, self.news = False, asyncio.Event()
        """Whether a task waits until the client may be woken, and what has it look again."""
        self.is_over = False
        """The session has ended: nobody is to be woken any more."""
        self.glimpse = ""
        """Of the last wake: who wrote, and the first words, for the human's screen."""

    def count(self, now: float, senders: frozenset[str]) -> None:
        """The client is being woken for the mail of these agents."""
        self._recent = [*recent(self._recent, now), Wake(now, senders)]

    def note_woken(self) -> None:
        """Note that a wake has reached the client."""
        self.is_woken, self.woken_at = True, self._clock()

    def note_human(self) -> None:
        """Note that its human has begun a turn."""
        self.is_woken, self.failures = False, 0

    def note_end(self, outcome: Outcome, endings: list[Ending]) -> None:
        """A turn is over: failures of turns that no human began are counted."""
        if endings and outcome == "ended":
            self.failures = 0
        is_ours = self.is_woken or any(not ending.turn.human for ending in endings)
        if outcome == "errored" and is_ours:
            self.failures += 1
            self.failed_at = self._clock()
        self.is_woken = False

    def take_glimpse(self) -> str:
        """What the human is shown of the last wake, once."""
        line, self.glimpse = self.glimpse, ""
        return line

    def standing(self, state: str, *, interrupted_at: float, has_ended: bool) -> Standing:
        """What decides whether the client may be woken."""
        return Standing(
            state,
            failures=self.failures,
            failed_at=self.failed_at,
            interrupted_at=interrupted_at,
            woken_at=self.woken_at if self.is_woken else 0.0,
            wakes=self._recent,
            has_ended=has_ended,
        )


class ClientSession:
    """One agent's client, as its hooks show it: its conversation, what it does, its turns."""

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
        self._clock = clock = clock or time.time
        self.agent = agent
        self.client = client
        self.turns = TurnLog(name, wake_line=wake_line, clock=clock)
        self.leases = Leases(client, clock, times or EvidenceTimes())
        self.wakes = Wakes(clock)
        self.state = ""
        self.heard = 0
        """Events of the main conversation so far."""
        self.heard_at = 0.0
        """When the last one was, in seconds of the wall clock."""
        self.rested_at = 0.0
        """When the last turn ended."""
        self.begun_at = 0.0
        """When a hook last showed that a turn was in progress."""
        self.interrupted_at = 0.0
        """When its human stopped it, if they have said nothing since; else 0."""
        self.has_ended = False
        """The conversation is over, and no other has begun: there is nothing to wake."""
        self.delegations = 0
        """Sub-agents at work whose hooks look like the main conversation's."""

    @property
    def conversation(self) -> str:
        """The client's id of the conversation; empty if no hook has reported it."""
        return self.leases.place[0]

    @property
    def transcript(self) -> str:
        """The file in which the client writes that conversation down."""
        return self.leases.place[1]

    @property
    def open(self) -> dict[str, Lease]:
        """What it was given, without evidence yet."""
        return self.leases.open

    def note(self, event: HookEvent) -> list[Ending]:
        """The main conversation goes on; the turns that this ends. One that ends with it is `close`'s."""
        if event.what == "session_ended" and self.conversation not in ("", event.session):
            return []  # one that its human has left before
        self.heard += 1
        self.heard_at = self._clock()
        place = (event.session, event.transcript)
        if place != self.leases.place or self.leases.reader is None:
            self.leases.move_to(place)
        if event.what == "interrupted":
            self.interrupt()
        elif event.what == "prompt":
            self.interrupted_at = 0.0
        endings = self.turns.see(event)
        turn = self.turns.current
        if event.what == "prompt" and turn is not None and turn.human:
            self.wakes.note_human()
            self.leases.doubt_wakes()
        if event.what == "idle" and self.state in ("busy", "waiting"):
            endings += self.turns.end("interrupted")
        # A client that reports its start with the first prompt may have been resumed since.
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

    def _count(self, event: HookEvent) -> None:
        if event.what in ("tool_used", "prompt"):
            self.wakes.continuations = 0
        if event.delegation:
            self.delegations = max(0, self.delegations + event.delegation)
        elif event.what not in ("tool_wanted", "tool_used", "waiting", "other"):
            self.delegations = 0  # a sub-agent that died reported no end

    def interrupt(self) -> None:
        """Note that its human stopped the turn."""
        self.interrupted_at = self._clock()

    @property
    def was_interrupted(self) -> bool:
        """Its human stopped it, and has said nothing since."""
        return self.interrupted_at > 0.0

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

    def keep_going(self) -> None:
        """Note that mail keeps the turn from ending."""
        self.state = "busy"
        self.turns.keep_going()

    def finish(self, outcome: Outcome, text: str = "", ending: str = "") -> list[Ending]:
        """End the turn, whatever reported it; `ending` is the client's id of the end, if it has one."""
        endings = self.turns.end(outcome, text, ending)
        self.state = "errored" if outcome == "errored" else "idle"
        self.rested_at = self._clock()
        self.wakes.note_end(outcome, endings)
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
        line = self.wakes.take_glimpse()
        return "" if event.typed else line

    def current_turn(self, pid: int) -> OpenTurn:
        """The turn in progress, for a look into the client's own files."""
        turn = self.turns.current
        return OpenTurn(
            pid=pid,
            session=self.conversation,
            transcript=self.transcript,
            since=self.heard_at,
            began_at=self.heard_at if turn is None else turn.began_at,
            client_id="" if turn is None else turn.client_id,
        )

    def judge(self) -> tuple[list[str], list[str]]:
        """The calls whose messages were read, and those whose messages are not in the context."""
        return self.leases.judge(
            Activity(self.state, self.heard_at, self.rested_at, self.begun_at, self.interrupted_at)
        )

    @property
    def is_wakeable(self) -> bool:
        """Whether a wake could begin a turn."""
        return self.state in WAKEABLE

    @property
    def standing(self) -> Standing:
        """What decides whether it may be woken."""
        return self.wakes.standing(self.state, interrupted_at=self.interrupted_at, has_ended=self.has_ended)


def _verdict(lease: Lease) -> Verdict:
    if lease.reader is None or not lease.marks:
        return Verdict.OPEN
    seen = set(lease.reader.judge(lease.marks).values())
    if Verdict.OPEN in seen:
        return Verdict.OPEN
    # One of them may be known from an earlier hand-over; that proves nothing of this text.
    return Verdict.ABSENT if Verdict.ABSENT in seen else Verdict.READ


def mark_of(message: str, *, notice: bool) -> str:
    """What a message's frame has in it, and nothing else does; a notice of the broker has another."""
    return f"tellwire: notice id={message} " if notice else f"peer-message id={message} from="
