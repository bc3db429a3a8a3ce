"""Ties exchange, seal and carriers together for all paired machines.

`after_commit` is called when the broker has saved something, `poll` when a time has come, `receive` with each
blob. Between two ticks the state is what is on disk, so what leaves here is durable, and what is acknowledged
too. Nothing here waits, and everything here can be thrown away: the state has all that must last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tellwire.core.context import (
    BeginIncarnation,
    NoteAcked,
    NoteMachine,
    NoteParcels,
    TakeItems,
    TellRoster,
    Way,
)
from tellwire.core.state import Machine
from tellwire.federation.exchange import Exchange, Heard
from tellwire.federation.ports import BLOB_BYTES_MAX, Broker, Carrier, Seal
from tellwire.protocol.events.machines import ParcelsRefused
from tellwire.protocol.parcels import (
    FOLLOWS,
    WINDOW_ITEMS_MAX,
    Message,
    Parcel,
    Receipts,
    format_item,
    format_parcel,
    next_mark,
    parse_item,
    parse_parcel,
)

log = logging.getLogger("tellwire.machines")

OFFLINE_AFTER_S = 90.0
ROSTER_EVERY_S = 2.0
"""Comings and goings are told together, at most this often."""
PARCELS_AT_ONCE = 8
REFUSED_EVERY_S = 1.0
ROOM_EVERY_S = 0.25
"""What is unread here is counted at most this often."""
UNREAD_MAX = {"own": 10_000, "team": 1_000}
"""Messages of one machine that may be unread here before it is asked to wait."""


class Pair:
    """One paired machine: its exchange, and the carriers to it."""

    def __init__(self, machine: Machine, now: float, random: Callable[[], float]) -> None:
        self.id = machine.id
        self.exchange = Exchange(machine, now, random)
        self.carriers: list[Carrier] = []
        self.up: dict[int, bool] = {}
        """By the place of a carrier."""
        self.problems: dict[int, str] = {}
        self.heard_awake = -1.0
        """When it was last heard, on the awake clock; below 0 if it was not in this life."""
        self.heard_at = 0.0
        self.is_told_online = False
        self.submitted_ack = 0
        self.room = self.counted = WINDOW_ITEMS_MAX
        """What it was told, and what was counted last: how many items it may send."""
        self.counted_at = -ROOM_EVERY_S

    def carrier(self) -> Carrier | None:
        """The first that is up."""
        return next((each for place, each in enumerate(self.carriers) if self.up.get(place)), None)


class Sync:
    """All pairs of this machine."""

    def __init__(self, broker: Broker, seal: Seal, random: Callable[[], float]) -> None:
        self._broker = broker
        self._seal = seal
        self._random = random
        self._pairs: dict[str, Pair] = {}
        self._refused: dict[str, int] = {}
        self._refused_since = self._refused_at = 0.0
        self._roster_at = 0.0
        self._roster_waits = False
        self.follow()

    @property
    def pairs(self) -> dict[str, Pair]:
        return self._pairs

    # -- who is paired --------------------------------------------------------------------------------

    def follow(self) -> list[str]:
        """Go by the state: machines that are new or changed; those that are gone are returned.

        Raises:
            OSError: the seal cannot save its keys.
        """
        now = self._broker.monotonic()
        paired = {each.id: each for each in self._broker.state.machines.values() if each.is_paired}
        gone = [each for each in self._pairs if each not in paired]
        for each in gone:
            del self._pairs[each]
        for each, machine in paired.items():
            if each not in self._pairs:
                self._pairs[each] = Pair(machine, now, self._random)
        for each, machine in paired.items():
            self._seal.learn(each, machine.sign_key, machine.boxes)
        for each in gone:
            self._seal.forget(each)
        return gone

    def use(self, machine: str, carriers: Sequence[Carrier]) -> None:
        """These are the carriers to a machine, the preferred one first."""
        pair = self._pairs[machine]
        pair.carriers, pair.up, pair.problems = list(carriers), {}, {}

    def way(self, machine: str) -> Way:
        """What is known now of the way to a machine."""
        pair = self._pairs.get(machine)
        if pair is None:
            return Way()
        carrier = pair.carrier()
        problems = [f"{pair.carriers[place].name}: {text}" for place, text in pair.problems.items() if text]
        problem = "" if carrier is not None else " ".join(problems)
        name = "" if carrier is None else carrier.name
        return Way(name, problem, pair.heard_at, pair.exchange.round_trip_s)

    # -- coming in ------------------------------------------------------------------------------------

    def note_up(self, machine: str, place: int, *, up: bool, why: str = "") -> None:
        """A carrier is connected from now on, or is not."""
        pair = self._pairs.get(machine)
        known = self._broker.state.machines.get(machine)
        if pair is None or known is None or place >= len(pair.carriers):
            return
        before = pair.carrier()
        pair.up[place], pair.problems[place] = up, why
        if pair.carrier() is not before or up:
            pair.exchange.reconnect(known, self._broker.monotonic())
            self._flush(pair, known, speak=True)

    def receive(self, blob: bytes) -> None:
        """One blob, from whatever carrier."""
        opened = self._seal.open(blob) if len(blob) <= BLOB_BYTES_MAX else None
        if opened is None:
            self._refuse("not sealed by a paired machine")
            return
        machine_id, plain = opened
        pair, machine = self._pairs.get(machine_id), self._broker.state.machines.get(machine_id)
        if pair is None or machine is None or not machine.is_paired:
            self._refuse("of a machine that is not paired")
            return
        parcel = parse_parcel(plain)
        items = None if parcel is None else [parse_item(each) for each in parcel.items]
        if parcel is None or items is None or None in items:
            self._refuse(f"malformed, from {machine.label}")
            return
        self._note_heard(pair, machine)
        known = [item for item in items if item is not None]
        heard = pair.exchange.hear(machine, parcel, known, self._broker.monotonic())
        if heard.acked > pair.submitted_ack:
            pair.submitted_ack = heard.acked
            self._broker.submit(NoteAcked(machine.id, machine.inc, heard.acked))
        if heard.begin:
            log.warning("the store here or on %s was put back to an older copy", machine.label)
            self._broker.submit(BeginIncarnation(machine.id, heard.begin))
        if heard.items:
            self._hand_on(machine, parcel, heard)
        elif heard.answer or pair.exchange.has_to_speak(machine):
            self._flush(pair, machine, speak=True)

    def _hand_on(self, machine: Machine, parcel: Parcel, heard: Heard) -> None:
        """Submit items in runs: each kind that the next ones may depend on is decided by itself."""
        items, start, mark = heard.items, 0, heard.base
        follows = bool(parcel.flags & FOLLOWS)
        while start < len(items):
            stop = start + 1
            if isinstance(items[start], Message | Receipts):
                kind = type(items[start])
                while stop < len(items) and type(items[stop]) is kind:
                    stop += 1
            run = list(items[start:stop])
            self._broker.submit(
                TakeItems(machine.id, parcel.inc, heard.first + start, mark, run, follows=follows)
            )
            for item in run:
                mark = next_mark(mark, item.tag)
            start = stop

    def _note_heard(self, pair: Pair, machine: Machine) -> None:
        pair.heard_awake, pair.heard_at = self._broker.awake(), self._broker.state.now
        if not machine.online and not pair.is_told_online:
            pair.is_told_online = True
            self._broker.submit(NoteMachine(machine.id, online=True))

    def _refuse(self, reason: str) -> None:
        """Count it: a hostile carrier must not fill the disk."""
        if not self._refused:
            self._refused_since = self._broker.state.now
        if reason in self._refused or len(self._refused) < 100:
            self._refused[reason] = self._refused.get(reason, 0) + 1

    # -- going out ------------------------------------------------------------------------------------

    def after_commit(self) -> None:
        """Something is on disk: tell what there is to tell."""
        machines = self._broker.state.machines
        for pair in self._pairs.values():
            machine = machines.get(pair.id)
            if machine is None or not machine.is_paired:
                continue
            pair.exchange.settle(machine)
            pair.submitted_ack = machine.acked
            pair.is_told_online = machine.online
            self._flush(pair, machine)

    def note_roster(self) -> None:
        """Who is here has changed: tell the others soon."""
        self._roster_waits = True

    def poll(self) -> float:
        """Do what is due, and say when to come again, on the monotonic clock."""
        now = self._broker.monotonic()
        self._tell_roster(now)
        self._tell_refused(now)
        next_at = now + ROSTER_EVERY_S if self._roster_waits or self._refused else now + OFFLINE_AFTER_S
        for pair in list(self._pairs.values()):
            machine = self._broker.state.machines.get(pair.id)
            if machine is None or not machine.is_paired:
                continue
            self._look_after(pair, machine, now)
            next_at = min(next_at, pair.exchange.next_at(machine))
            if not pair.room:
                next_at = min(next_at, now + ROOM_EVERY_S)
        return max(next_at, now + 0.01)

    def _look_after(self, pair: Pair, machine: Machine, now: float) -> None:
        silent = self._broker.awake() - max(0.0, pair.heard_awake)
        if machine.online and pair.heard_awake >= 0 and silent >= OFFLINE_AFTER_S:
            self._broker.submit(NoteMachine(machine.id, online=False, heard_at=pair.heard_at))
        pair.exchange.settle(machine)
        beat = pair.exchange.is_beat_due(now)
        if beat:
            pair.exchange.note_beat(now)
        self._flush(pair, machine, speak=beat, beat=beat)

    def _tell_roster(self, now: float) -> None:
        if self._roster_waits and now >= self._roster_at:
            self._roster_waits, self._roster_at = False, now + ROSTER_EVERY_S
            self._broker.submit(TellRoster(list(self._pairs)))

    def _tell_refused(self, now: float) -> None:
        if self._refused and now >= self._refused_at:
            self._refused_at = now + REFUSED_EVERY_S
            rows = [ParcelsRefused(why, count, self._refused_since) for why, count in self._refused.items()]
            self._refused = {}
            self._broker.submit(NoteParcels(rows))

    def _flush(self, pair: Pair, machine: Machine, *, speak: bool = False, beat: bool = False) -> None:
        """Send what may be sent now; with `speak` at least one parcel."""
        carrier = pair.carrier()
        if carrier is None:
            return
        exchange, now = pair.exchange, self._broker.monotonic()
        carrier.forget(token(machine.inc, machine.acked))
        room = self._room(pair, machine, now)
        speak = speak or exchange.has_to_speak(machine) or (room > 0) != (pair.room > 0)
        for _ in range(PARCELS_AT_ONCE):
            numbers = exchange.plan(machine, now)
            if not numbers and not speak:
                return
            pair.room = room
            items = [format_item(item) for item in self._broker.load(machine, numbers)] if numbers else []
            parcel = exchange.parcel(machine, numbers, room=pair.room, beat=beat)
            blob = self._seal.seal(machine.id, format_parcel(replace(parcel, items=items)))
            if not carrier.send(blob, token(machine.inc, numbers.stop - 1) if numbers else 0):
                return
            exchange.note_sent(machine, numbers, now)
            speak = beat = False

    def _room(self, pair: Pair, machine: Machine, now: float) -> int:
        """How many items a machine may send beyond what was taken: none while too much is unread here."""
        if now < pair.counted_at + ROOM_EVERY_S:
            return pair.counted
        pair.counted_at = now
        mine = set(machine.agents.values())
        unread = sum(
            receipt.origin > 0 and receipt.sender in mine
            for agent in self._broker.state.agents.values()
            if not agent.machine
            for box in (agent.pending, agent.leased)
            for receipt in box.values()
        )
        pair.counted = max(0, min(WINDOW_ITEMS_MAX, UNREAD_MAX.get(machine.trust, 0) - unread))
        return pair.counted


def token(inc: int, number: int) -> int:
    """A number that grows with what was sent, over all incarnations."""
    return (inc << 48) + number
