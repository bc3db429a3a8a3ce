"""The exchange: two numbered lanes between two machines, over a carrier that may do anything but forge.

Each machine numbers what it says to the other: 1, 2, 3 and so on. The number is given when the event that the
item comes from is applied, so a replayed journal rebuilds the same outbox. The receiver takes only the next
number, and *number taken* and *effect* are one commit there: an item has its effect exactly once. What is on
the receiver's disk is acknowledged up to a number; what is not is sent again, all of it from the first
number that lacks (go-back-N: carriers keep the order while they live, so nothing finer would gain anything).
A carrier may therefore lose, repeat, reorder, delay or forget everything.

The durable half of both lanes stands in the state (`core.state.Machine`); this object is the volatile half
and can be thrown away at any time: what it would have remembered is only what to send next, and when.

**Stores that were put back.** A backup or a snapshot of a virtual machine may bring an older store back. Then
one side holds what the other never sent, or lacks what it had acknowledged. There is proof of it when
  * the other acknowledges more than was sent, or a newer incarnation than ours, or the marks differ: a mark
    is a running hash over the tags of all items of a lane, and each parcel says which mark its items follow,
    so that nobody ever takes the continuation of another history;
  * an acknowledgement goes *back*. But that may be an old word, replayed or delayed. Each life of a machine
    has a random number, and each parcel echoes the newest one that was heard of the other. So: take a new
    number, ask, and believe only an answer that echoes it, compared with what was acknowledged *when the
    number was taken*. If more was acknowledged meanwhile, the doubt begins anew.
With proof our lane begins a new incarnation: everything that is not acknowledged, or that nobody has read, is
numbered anew and offered again, marked as a repeat. The other side answers with a new incarnation of its own
lane, once: what it was told before may be what was lost. A lower incarnation is never taken again, but it is
answered: silence would leave both sides waiting.

**Time.** All times are of the clock that is passed in. What is not acknowledged is sent again after four
round trips, at least a second, doubling up to a minute; on every connection of the carrier; and when the
other says that something is missing, at most once a second, because that word may be replayed too. With
nothing else to say a beat goes every 30 seconds; while nobody answers, ever more rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from tellwire.core.state import Machine
from tellwire.protocol.parcels import (
    ANSWER,
    FOLLOWS,
    GO_BACK,
    ITEMS_MAX,
    PARCEL_BYTES_MAX,
    WINDOW_BYTES_MAX,
    WINDOW_ITEMS_MAX,
    ZERO,
    AnyItem,
    Parcel,
    Unknown,
    next_mark,
)

RESEND_S_MIN = 1.0
RESEND_S_MAX = 60.0
ROUND_TRIPS = 4.0
GO_BACK_EVERY_S = 1.0
BEAT_S = 30.0
BEAT_S_MAX = 600.0
ASK_EVERY_S = 1.0
"""A doubt is asked about, and an old word is answered, at most this often."""


class Verdict(Enum):
    """What a parcel's acknowledgement means."""

    FINE = "fine"
    OLD = "old"
    """It says less than was acknowledged before: an old word, or a store that was put back."""
    PROOF = "proof"
    """One of the two stores was put back to an older copy."""


class Heard(NamedTuple):
    """What one parcel comes to."""

    acked: int = 0
    """Our items up to this number are on the other disk; 0 if that is nothing new."""
    begin: int = 0
    """The incarnation that our lane has to begin; 0 if it goes on."""
    first: int = 0
    """The number of the first item to take; 0 if there is none."""
    base: bytes = ZERO
    items: Sequence[AnyItem | Unknown] = ()
    answer: bool = False
    """Send a parcel now, even if there is nothing to say."""


class Outgoing:
    """What of our lane to send next, and when."""

    def __init__(self, machine: Machine, now: float) -> None:
        self.inc = machine.inc
        self.next = machine.acked + 1
        self.limit = machine.acked + WINDOW_ITEMS_MAX
        """The other takes items up to this number now."""
        self.due = now
        """When what is not acknowledged is sent again."""
        self.patience = RESEND_S_MIN
        self.went_back = -RESEND_S_MAX
        self.sent_at: dict[int, float] = {}

    def note_acked(self, acked: int, round_trip_s: float, now: float) -> None:
        """The other has more of it: what is left has its time again."""
        self.sent_at = {number: at for number, at in self.sent_at.items() if number > acked}
        self.next = max(self.next, acked + 1)
        self.patience = max(RESEND_S_MIN, ROUND_TRIPS * round_trip_s)
        self.due = now + self.patience


class Life:
    """A number by which answers to what is asked now are known from all earlier words."""

    def __init__(self, machine: Machine, word: int) -> None:
        self.word = word
        self.inc, self.acked = machine.inc, machine.acked
        """What the other had acknowledged when the number was taken: an answer to it says no less."""

    def proves(self, parcel: Parcel) -> bool:
        """Whether this is an answer that says less than its sender had acknowledged before it was asked."""
        said = (parcel.ack_inc, parcel.ack)
        return parcel.echo == self.word and self.acked > 0 and said < (self.inc, self.acked)


class Exchange:
    """The volatile half of one pair's lanes."""

    def __init__(self, machine: Machine, now: float, random: Callable[[], float]) -> None:
        self._random = random
        self._life = Life(machine, self._word())
        self._out = Outgoing(machine, now)
        self._echo = 0
        """The newest life that was heard of the other."""
        self._asked = self._answered = -RESEND_S_MAX
        self._reach = (machine.peer_inc, machine.taken, machine.taken_mark)
        """How far the other's lane was handed on to be taken; what is on disk may be behind that."""
        self._told = (-1, 0)
        """The acknowledgement that was last sent."""
        self._is_missing = self._must_ask = False
        self._beat_at, self._beat_s = now, BEAT_S
        self.round_trip_s = 0.0

    def _word(self) -> int:
        return 1 + int(self._random() * (1 << 52))

    # -- what comes in --------------------------------------------------------------------------------

    def hear(self, machine: Machine, parcel: Parcel, items: Sequence[AnyItem | Unknown], now: float) -> Heard:
        """Judge one parcel of the other machine; nothing changes but what is volatile."""
        self._follow(machine, now)
        self._echo = parcel.life
        self._beat_s, self._beat_at = BEAT_S, min(self._beat_at, now + BEAT_S)
        verdict = self._judge(machine, parcel)
        answer = bool(parcel.flags & ANSWER)
        if verdict is Verdict.PROOF:
            inc = max(machine.inc, parcel.ack_inc) + 1
            first, base, taken, wants = self._take(machine, parcel, items, now)
            return Heard(0, inc, first, base, taken, answer or wants)
        acked = 0
        if verdict is Verdict.OLD:
            self._doubt(machine, now)
        elif parcel.ack_inc == machine.inc:
            self._out.limit = parcel.ack + parcel.room
            if parcel.ack > machine.acked:
                acked = parcel.ack
                self._note_acked(acked, now)
            if parcel.flags & GO_BACK and now - self._out.went_back >= GO_BACK_EVERY_S:
                self._out.went_back = now
                self.rewind(max(acked, machine.acked), now)
        first, base, taken, wants = self._take(machine, parcel, items, now)
        return Heard(acked, 0, first, base, taken, answer or wants)

    def _judge(self, machine: Machine, parcel: Parcel) -> Verdict:
        """What the acknowledgement in a parcel says of both stores."""
        if parcel.ack_inc > machine.inc:
            return Verdict.PROOF
        if parcel.ack_inc < machine.inc or parcel.ack < machine.acked:
            if machine.acked == 0:
                return Verdict.FINE  # it has not heard of this incarnation, and need not have
            return Verdict.PROOF if self._life.proves(parcel) else Verdict.OLD
        if parcel.ack > machine.sent:
            return Verdict.PROOF
        mark = machine.acked_mark
        for number in range(machine.acked + 1, parcel.ack + 1):
            mark = next_mark(mark, machine.out[number].tag)
        return Verdict.FINE if mark == parcel.mark else Verdict.PROOF

    def _doubt(self, machine: Machine, now: float) -> None:
        """Ask, under a new number: only an answer to that is believed."""
        if now - self._asked < ASK_EVERY_S:
            return
        self._asked = now
        self._life = Life(machine, self._word())
        self._must_ask = True

    def _note_acked(self, acked: int, now: float) -> None:
        if (sent_at := self._out.sent_at.get(acked)) is not None:
            self.round_trip_s = now - sent_at
        self._out.note_acked(acked, self.round_trip_s, now)

    def _take(
        self, machine: Machine, parcel: Parcel, items: Sequence[AnyItem | Unknown], now: float
    ) -> tuple[int, bytes, Sequence[AnyItem | Unknown], bool]:
        """The items that are the next of the other's lane, and whether it has to hear from us at once."""
        inc, taken, mark = self._reach
        if inc < machine.peer_inc or (inc == machine.peer_inc and taken < machine.taken):
            inc, taken, mark = machine.peer_inc, machine.taken, machine.taken_mark
        if parcel.inc < inc:  # it has to hear which incarnation we know; but both may be so
            wants = now - self._answered >= ASK_EVERY_S
            self._answered = now if wants else self._answered
            return 0, ZERO, (), wants
        if not parcel.first:
            return 0, ZERO, (), False
        if parcel.inc > inc:
            inc, taken, mark = parcel.inc, 0, ZERO
        if parcel.first > taken + 1:
            self._is_missing = True
            return 0, ZERO, (), True
        last = parcel.first + len(items) - 1
        if last <= taken:
            return 0, ZERO, (), True  # a repeat: acknowledged again
        base = parcel.base
        for item in items[: taken + 1 - parcel.first]:
            base = next_mark(base, item.tag)
        if base != mark:
            return 0, ZERO, (), True  # another history: what it acknowledges next tells us which
        fresh = items[taken + 1 - parcel.first :]
        for item in fresh:
            mark = next_mark(mark, item.tag)
        self._reach = (inc, last, mark)
        self._is_missing = False
        return taken + 1, base, fresh, False

    # -- what goes out --------------------------------------------------------------------------------

    def _follow(self, machine: Machine, now: float) -> None:
        """Begin at the beginning of a new incarnation."""
        if self._out.inc != machine.inc:
            self._out = Outgoing(machine, now)
            self._life = Life(machine, self._word())

    def rewind(self, acked: int, now: float) -> None:
        """Send again all that is not acknowledged: something was lost, or the carrier is another."""
        out = self._out
        out.next, out.sent_at = acked + 1, {}
        out.due = now + out.patience

    def reconnect(self, machine: Machine, now: float) -> None:
        """The carrier is connected, or is another one."""
        self._out.patience, self._beat_s = RESEND_S_MIN, BEAT_S
        self.rewind(machine.acked, now)

    def settle(self, machine: Machine) -> None:
        """What was handed on was taken by now, or never will be: go by what is on disk."""
        self._reach = (machine.peer_inc, machine.taken, machine.taken_mark)

    def plan(self, machine: Machine, now: float) -> range:
        """The numbers that may be sent now in one parcel; empty if there are none."""
        self._follow(machine, now)
        out = self._out
        if out.next > machine.acked + 1 and machine.sent > machine.acked and now >= out.due:
            out.patience = min(RESEND_S_MAX, 2 * out.patience) * (0.8 + 0.4 * self._random())
            self.rewind(machine.acked, now)
        first = out.next = max(out.next, machine.acked + 1)
        end = min(machine.sent, out.limit, machine.acked + WINDOW_ITEMS_MAX, first + ITEMS_MAX - 1)
        flying = sum(machine.out[number].size for number in range(machine.acked + 1, first))
        size, number = 0, first
        while number <= end:
            more = machine.out[number].size
            if number > first and size + more > PARCEL_BYTES_MAX:
                break
            if flying and flying + size + more > WINDOW_BYTES_MAX:
                break
            size += more
            number += 1
        return range(first, number)

    def note_sent(self, machine: Machine, numbers: range, now: float) -> None:
        """A parcel with these numbers, or with none, is on its way."""
        self._told = (machine.peer_inc, machine.taken)
        self._is_missing = self._must_ask = False
        self._beat_at = now + self._beat_s
        if not numbers:
            return
        out = self._out
        if out.next == machine.acked + 1:
            out.due = now + out.patience
        out.next = numbers.stop
        out.sent_at[numbers.stop - 1] = now

    def parcel(self, machine: Machine, numbers: range, *, room: int, beat: bool = False) -> Parcel:
        """The parcel with these numbers of our lane; its items are still to be put in."""
        mark = machine.acked_mark
        for number in range(machine.acked + 1, numbers.start if numbers else machine.acked + 1):
            mark = next_mark(mark, machine.out[number].tag)
        flags = FOLLOWS if machine.follows else 0
        flags |= (GO_BACK if self._is_missing else 0) | (ANSWER if beat or self._must_ask else 0)
        return Parcel(
            speaks=machine.speaks,
            inc=machine.inc,
            life=self._life.word,
            echo=self._echo,
            first=numbers.start if numbers else 0,
            ack_inc=machine.peer_inc,
            ack=machine.taken,
            mark=machine.taken_mark,
            room=room,
            flags=flags,
            base=mark if numbers else ZERO,
        )

    # -- time -----------------------------------------------------------------------------------------

    def has_to_speak(self, machine: Machine) -> bool:
        """Whether the other has to hear of what was taken, of a gap, or of a doubt."""
        return (machine.peer_inc, machine.taken) != self._told or self._is_missing or self._must_ask

    def is_beat_due(self, now: float) -> bool:
        """Whether it is time to ask the other whether it is there."""
        return now >= self._beat_at

    def note_beat(self, now: float) -> None:
        """A beat is out; while nobody answers, the next one is later."""
        self._beat_at = now + self._beat_s
        self._beat_s = min(BEAT_S_MAX, 2 * self._beat_s)

    def next_at(self, machine: Machine) -> float:
        """When something is to be done by itself."""
        flying = machine.sent > machine.acked and self._out.next > machine.acked + 1
        return min(self._beat_at, self._out.due) if flying else self._beat_at
