"""Starts federation when there is a machine to talk to, and gives this machine its identity.

The only holder of the key file: other programs ask for the card. What it needs — PyNaCl, and redis for those
who use it — is imported then, in a thread: a broker without machines never pays for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tellwire.broker.calls import LateAnswers
from tellwire.broker.ports import Journal, SessionMesh, Source
from tellwire.broker.registrations import Commits, Connections
from tellwire.core.context import Way
from tellwire.core.state import Machine
from tellwire.federation.carriers.ssh import IncomingSsh, SshCarrier
from tellwire.federation.ports import Carrier, Receive
from tellwire.federation.ports import Up as CarrierUp
from tellwire.machines.bridge import Bridge, BrokerSide, Up
from tellwire.machines.door import WireDoor
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.machines import parse_label, propose_label
from tellwire.protocol.operations.machines import MachineCard, SignedCard
from tellwire.system.tasks import Tasks
from tellwire.system.threads import in_thread
from tellwire.version import VERSION

if TYPE_CHECKING:
    from tellwire.federation.seal import Keyring

log = logging.getLogger("tellwire.machines")

LOAD_S = 60.0
ROTATE_S = 24 * 3_600.0
"""A session key of this machine is used for so much awake time."""
LOOK_S = 600.0
INSTALL = "Install it with its extra: `tellwire[machines]`."


class RedisLater:
    """A Redis carrier whose library is imported when it runs."""

    name = "redis"

    def __init__(self, url: str, *, here: str, there: str) -> None:
        self._url = url
        self._here, self._there = here, there
        self._inner: Carrier | None = None

    async def run(self, receive: Receive, up: CarrierUp) -> None:
        """Import, then serve until cancelled."""
        try:
            self._inner = await in_thread(self._make, within_s=LOAD_S)
        except (ImportError, TimeoutError) as error:
            up(False, f"The redis library cannot be loaded: {error}. {INSTALL}")
            return
        except TellwireError as error:
            up(False, error.message)
            return
        await self._inner.run(receive, up)

    def _make(self) -> Carrier:
        # In a thread: it takes a fifth of a second.
        from tellwire.federation.carriers.redis_streams import RedisCarrier  # noqa: PLC0415

        return RedisCarrier(self._url, here=self._here, there=self._there)

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Send one blob; False if it is not connected."""
        return self._inner is not None and self._inner.send(blob, last)

    def forget(self, last: int) -> None:
        """What was sent with at most this `last` has arrived."""
        if self._inner is not None:
            self._inner.forget(last)


class CarrierTasks:
    """Runs the carriers of all machines, each in a task of its own (`bridge.Connector`)."""

    def __init__(self, mesh: SessionMesh, door: WireDoor, tasks: Tasks) -> None:
        self._mesh = mesh
        self._door = door
        self._tasks = tasks
        self._running: dict[str, list[asyncio.Task[None]]] = {}

    def connect(self, machine: Machine, receive: Receive, up: Up) -> Sequence[Carrier]:
        """Begin with the carriers that a machine has now."""
        self._stop(machine.id)
        carriers = self._make(machine)
        self._running[machine.id] = [
            self._tasks.run(self._run(carrier, place, receive, up)) for place, carrier in enumerate(carriers)
        ]
        return carriers

    def disconnect(self, machine: str) -> None:
        """It was removed."""
        self._stop(machine)
        self._door.forget(machine)

    def _stop(self, machine: str) -> None:
        for task in self._running.pop(machine, []):
            task.cancel()

    def _make(self, machine: Machine) -> list[Carrier]:
        here, carriers = self._mesh.state.here, list[Carrier]()
        for spec in machine.carriers:
            kind, _, rest = spec.partition(" ")
            if kind == "ssh" and rest:
                destination, _, program = rest.partition(" ")
                carriers.append(SshCarrier(destination, here=here, there=machine.id, program=program))
            elif kind == "redis":
                carriers.append(RedisLater(rest, here=here, there=machine.id))
        if any(spec.partition(" ")[0] == "ssh" for spec in machine.carriers):
            incoming = IncomingSsh(here=here, there=machine.id)
            self._door.expect(here, machine.id, incoming)
            carriers.append(incoming)
        return carriers

    async def _run(self, carrier: Carrier, place: int, receive: Receive, up: Up) -> None:
        def told(is_up: bool, why: str) -> None:
            up(place, is_up, why)

        await asyncio.sleep(0)  # whoever connects it has to know it first
        await carrier.run(receive, told)


class Federation:
    """All that concerns other machines, beside one engine."""

    def __init__(
        self,
        mesh: SessionMesh,
        commits: Commits,
        journal: Journal,
        connections: Connections,
        late: LateAnswers,
        home: Path,
    ) -> None:
        self._mesh = mesh
        self._commits = commits
        self._journal = journal
        self._late = late
        self._home = home
        self._tasks = Tasks()
        self._ring: Keyring | None = None
        self._loading = asyncio.Lock()
        self._begun = False
        self._rotated = 0.0
        self.door = WireDoor(connections)
        commits.observe(self._look)

    def start(self) -> None:
        """Go on with the machines that are paired."""
        self._look()

    async def stop(self) -> None:
        """End all carriers."""
        self._tasks.cancel()
        await self._tasks.drain(2.0)

    def _look(self) -> None:
        if not self._begun and self._mesh.state.machines:
            self._begun = True
            self._tasks.run(self._begin())

    async def _begin(self) -> None:
        """Load the keys, and connect."""
        loop = asyncio.get_running_loop()
        try:
            ring = await self._keys(create=False)
        except (TellwireError, ImportError, OSError, TimeoutError) as error:
            log.error("other machines are not reached: %s", error)
            problem = error.message if isinstance(error, TellwireError) else f"{error}. {INSTALL}"
            self._mesh.facts.tell_ways(lambda _machine: Way(problem=problem))
            return
        bridge = Bridge(
            BrokerSide(self._mesh, self._journal, loop.time),
            self._commits,
            CarrierTasks(self._mesh, self.door, self._tasks),
            seal=ring,
            random=random.random,
            call_at=loop.call_at,
        )
        self._mesh.facts.tell_ways(bridge.way)
        self._rotated = self._mesh.clock.awake
        loop.call_later(LOOK_S, self._rotate)

    def _rotate(self) -> None:
        self._mesh.clock.read()
        if self._ring is not None and self._mesh.clock.awake - self._rotated >= ROTATE_S:
            self._rotated = self._mesh.clock.awake
            try:
                self._ring.rotate()
            except OSError as error:
                log.warning("the session key is not changed: %s", error)
        asyncio.get_running_loop().call_later(LOOK_S, self._rotate)

    async def _keys(self, *, create: bool) -> Keyring:
        """The keys of this machine.

        Raises:
            TellwireError: they are not this machine's, or there are none.
            ImportError: what they need is not installed.
        """
        async with self._loading:
            if self._ring is None:
                home, here = self._home, self._mesh.state.here
                self._ring = await in_thread(lambda: load_keys(home, here, create=create), within_s=LOAD_S)
            return self._ring

    # -- the card -------------------------------------------------------------------------------------

    def begin_card(self, source: Source, n: int, operation: MachineCard) -> None:
        """Answer with the card of this machine, once its keys are there."""
        self._tasks.run(self._late.answer(source, n, operation, self._card(source, operation)))

    async def _card(self, source: Source, operation: MachineCard) -> SignedCard:
        if source.caller.kind not in MachineCard.callers or source.caller.adrift:
            raise TellwireError("forbidden", "Only the operator pairs machines.")
        state = self._mesh.state
        label = parse_label(operation.label or state.here_label or propose_label(socket.gethostname()))
        try:
            ring = await self._keys(create=True)
            card = ring.card(label, version=VERSION, body_bytes_max=self._mesh.limits.body_bytes_max)
        except ImportError as error:
            raise TellwireError("not_paired", f"PyNaCl is not installed: {error}.", INSTALL) from error
        except OSError as error:
            raise TellwireError("storage_broken", f"The key file cannot be written: {error}.") from error
        return SignedCard(card=card, id=ring.id, label=label, words=ring.words)


def load_keys(home: Path, here: str, *, create: bool) -> Keyring:
    """The keys in a home folder; for the thread in which PyNaCl is imported.

    Raises:
        TellwireError: they are not this machine's, or there are none.
        ImportError: PyNaCl is not installed.
    """
    from tellwire.federation.seal import Keyring  # noqa: PLC0415 - see above

    ring = Keyring.load(home, here=here)
    if ring is None and not create:
        raise TellwireError("not_paired", "This machine has no identity.")
    return Keyring.create(home) if ring is None else ring
