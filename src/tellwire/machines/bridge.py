"""The bridge between the engine and federation: commits go out, what comes in is submitted as commands.

Built with the broker, idle until the first machine is paired: then the seal and the carriers are loaded, off
the loop, because most brokers never need them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tellwire.broker.ports import Journal, Mesh
from tellwire.broker.registrations import Commits
from tellwire.core.context import Way
from tellwire.core.kernel import OwnCommand
from tellwire.core.machines.loading import load_items
from tellwire.core.state import Machine, State
from tellwire.federation.ports import Carrier, Receive, Seal
from tellwire.federation.sync import Sync
from tellwire.protocol import events
from tellwire.protocol.events.children import PolicySet
from tellwire.protocol.events.machines import (
    MachineNamed,
    MachineOnline,
    MachinePaired,
    MachineRemoved,
    MachineUpdated,
)
from tellwire.protocol.parcels import Item

log = logging.getLogger("tellwire.machines")

PAIRING = (MachinePaired, MachineUpdated, MachineRemoved, MachineNamed)
ROSTER = (
    events.AgentRegistered,
    events.SessionStarted,
    events.AgentUpdated,
    events.AgentOnline,
    events.AgentOffline,
    events.AgentForgotten,
    events.BrokerStarted,
    PolicySet,
    MachineOnline,
)
"""What may change who is here, or who has to hear of it."""


class BrokerSide:
    """What federation needs of the broker (`federation.ports.Broker`)."""

    def __init__(self, mesh: Mesh, journal: Journal, monotonic: Callable[[], float]) -> None:
        self._mesh = mesh
        self._journal = journal
        self.monotonic = monotonic

    @property
    def state(self) -> State:
        """As of the last commit."""
        return self._mesh.state

    def awake(self) -> float:
        """Seconds on the clock that stops while the machine sleeps."""
        self._mesh.clock.read()
        return self._mesh.clock.awake

    def submit(self, command: OwnCommand) -> None:
        """Put a command into the next tick."""
        self._mesh.submit_own(command)

    def load(self, machine: Machine, numbers: Sequence[int]) -> list[Item]:
        """What these numbers of the outbox say now."""
        items = load_items(self.state, machine, numbers, messages=self._journal.messages, origin=self._origin)
        return list(items)

    def _origin(self, seq: int) -> tuple[str, int]:
        """The sender of a message that came from another machine, and its number there."""
        entries = self._journal.entries(0, seq + 1, 1)
        event = entries[0].event if entries and entries[0].seq == seq else None
        return (event.sender, event.origin) if isinstance(event, events.MessageQueued) else ("", 0)


Up: TypeAlias = Callable[[int, bool, str], None]
"""Hears which carrier, by its place, is connected from now on, or is not, and why."""


class Connector(Protocol):
    """Starts and stops the carriers to a machine."""

    def connect(self, machine: Machine, receive: Receive, up: Up) -> Sequence[Carrier]:
        """Begin with the carriers that a machine has now; those it had before are stopped."""
        ...

    def disconnect(self, machine: str) -> None:
        """It was removed."""
        ...


class Bridge:
    """Runs federation beside the engine, once there is a machine."""

    def __init__(
        self,
        side: BrokerSide,
        commits: Commits,
        connector: Connector,
        *,
        seal: Seal,
        random: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._side = side
        self._commits = commits
        self._connector = connector
        self._call_at = call_at
        self._sync = Sync(side, seal, random)
        self._due = float("inf")
        self._carriers: dict[str, list[str]] = {}
        self._follow()
        self._sync.note_roster()
        commits.observe(self._after_commit)
        self._poll()

    def way(self, machine: str) -> Way:
        """What is known now of the way to a machine."""
        return self._sync.way(machine)

    def _follow(self) -> None:
        """Go by the state: machines that are new, changed or gone."""
        gone = self._sync.follow()
        for machine_id in gone:
            self._carriers.pop(machine_id, None)
            self._connector.disconnect(machine_id)
        for machine_id in self._sync.pairs:
            machine = self._side.state.machines[machine_id]
            if self._carriers.get(machine_id) != machine.carriers:
                self._carriers[machine_id] = machine.carriers
                carriers = self._connector.connect(machine, self._receive, self._up_of(machine_id))
                self._sync.use(machine_id, carriers)

    def _up_of(self, machine: str) -> Up:
        def up(place: int, is_up: bool, why: str) -> None:
            self._sync.note_up(machine, place, up=is_up, why=why)
            self._arm()

        return up

    def _receive(self, blob: bytes) -> None:
        try:
            self._sync.receive(blob)
        except Exception:
            log.exception("a parcel could not be dealt with")

    def _after_commit(self) -> None:
        committed = self._commits.events
        if any(isinstance(event, PAIRING) for event in committed):
            try:
                self._follow()
            except OSError as error:
                log.warning("the keys of a machine cannot be saved: %s", error)
        if any(isinstance(event, ROSTER) for event in committed):
            self._sync.note_roster()
            self._arm(0.0)
        self._sync.after_commit()
        self._arm()

    def _arm(self, after_s: float = 1.0) -> None:
        """See that there is a look soon; what has to be done at once was done."""
        now = self._side.monotonic()
        if self._due > now + after_s:
            self._due = now + after_s
            self._call_at(self._due, self._poll)

    def _poll(self) -> None:
        now = self._side.monotonic()
        if now + 0.001 < self._due < float("inf"):
            return  # an earlier look has taken its place
        self._due = self._sync.poll()
        self._call_at(self._due, self._poll)
