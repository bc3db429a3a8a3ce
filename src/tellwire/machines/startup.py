"""Federation as a part of the broker: asleep until there is a machine, then loaded off the loop.

Owns the key file of this home: it gives the machine its identity with the first pairing, hands out its card,
and has its session keys rotate.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwire.broker.calls import LateAnswers, call_for
from tellwire.broker.ports import Journal, SessionMesh, Source
from tellwire.broker.registrations import Commits, Connections
from tellwire.core.context import NameMachine, TellOperator, Way
from tellwire.core.kernel import check_caller
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.machines import MachinePaired, MachineRemoved
from tellwire.protocol.machines import parse_label, propose_label
from tellwire.protocol.operations.machines import MachineCard, MachineIdentity, RenewMachine
from tellwire.system.tasks import Tasks

if TYPE_CHECKING:
    from tellwire.federation.seal import Keyring
    from tellwire.machines.bridge import Bridge
    from tellwire.machines.connector import Carriers

log = logging.getLogger("tellwire.machines")

SEAL_MODULE = "tellwire.federation.seal"
REDIS_MODULE = "tellwire.federation.carriers.redis_streams"
PARTS = ("tellwire.machines.bridge", "tellwire.machines.connector", "tellwire.machines.door")
REDIS = "redis"
ROTATE_S = 24 * 3_600.0
"""How long a session key is used, in seconds that this machine is awake."""
LOOK_S = 600.0
PAIRING = frozenset({MachinePaired, MachineRemoved})


class Machines:
    """Everything about other machines, for the broker that it is a part of."""

    def __init__(
        self,
        mesh: SessionMesh,
        journal: Journal,
        commits: Commits,
        late: LateAnswers,
        *,
        connections: Connections,
        add_door: Callable[[str, Any], None],
        home: Path,
        version: str,
    ) -> None:
        self._mesh = mesh
        self._journal = journal
        self._commits = commits
        self._late = late
        self._home = home
        self._version = version
        self._connections = connections
        self._add_door = add_door
        self._tasks = Tasks()
        self._ring: Keyring | None = None
        self._lock = asyncio.Lock()
        self._bridge: Bridge | None = None
        self._carriers: Carriers | None = None
        self._problem = ""
        self._rotated = mesh.clock.awake
        mesh.facts.tell_ways(self.way)
        commits.observe(self._after_commit)
        if self._has_machines():
            self._tasks.run(self._begin())

    def way(self, machine: str) -> Way:
        """What is known now of the way to a machine."""
        return Way(problem=self._problem) if self._bridge is None else self._bridge.way(machine)

    async def close(self) -> None:
        """Stop all carriers, because the broker stops."""
        self._tasks.cancel()
        if self._carriers is not None:
            await self._carriers.close()

    # -- beginning ------------------------------------------------------------------------------------

    def _has_machines(self) -> bool:
        return any(machine.is_paired for machine in self._mesh.state.machines.values())

    def _after_commit(self) -> None:
        for event in self._commits.events:
            if type(event) not in PAIRING:
                continue
            if isinstance(event, MachinePaired):
                self._tell_paired(event)
                if self._bridge is None:
                    self._tasks.run(self._begin())
            elif isinstance(event, MachineRemoved) and self._ring is not None:
                self._ring.forget(event.id)

    def _tell_paired(self, event: MachinePaired) -> None:
        how = ", ".join(dict.fromkeys(word.partition(" ")[0] for word in event.carriers)) or "no carrier"
        words = f"The machine {event.label} is paired with this one ({event.trust}, by {how})."
        advice = f"If you did not want that: `tellwire machine remove {event.label}`."
        self._mesh.submit_own(TellOperator(f"{words} {advice}"))

    async def _begin(self) -> None:
        """Load keys and carriers in a thread, then connect."""
        async with self._lock:
            if self._bridge is not None:
                return
            try:
                ring = await self._load(create=False)
                words = [word for each in self._mesh.state.machines.values() for word in each.carriers]
                for name in (*PARTS, *([REDIS_MODULE] if any(REDIS in word for word in words) else [])):
                    await asyncio.to_thread(import_module, name)
            except (TellwireError, ImportError, OSError) as error:
                self._problem = str(error)
                log.warning("other machines cannot be reached: %s", error)
                return
            self._problem = ""
            self._connect(ring)

    def _connect(self, ring: Keyring) -> None:
        # A thread has imported them: who has one machine does not pay for them.
        from tellwire.machines.bridge import Bridge, BrokerSide  # noqa: PLC0415
        from tellwire.machines.connector import Carriers  # noqa: PLC0415
        from tellwire.machines.door import WireDoor  # noqa: PLC0415

        door = WireDoor(self._connections)
        self._add_door("wire", door)
        self._carriers = Carriers(ring.id, door, ring)
        loop = asyncio.get_running_loop()
        self._bridge = Bridge(
            BrokerSide(self._mesh, self._journal, loop.time),
            self._commits,
            self._carriers,
            seal=ring,
            random=random.random,
            call_at=loop.call_at,
        )
        loop.call_later(LOOK_S, self._look)

    async def _load(self, *, create: bool) -> Keyring:
        """The keys of this home; PyNaCl is imported in a thread.

        Raises:
            TellwireError: `identity_copied`, or `not_paired` if there are none and none are to be made.
            OSError: the key file cannot be used.
        """
        if self._ring is None:
            here = self._mesh.state.here

            def load() -> Keyring | None:
                keyring = import_module(SEAL_MODULE).Keyring
                found = keyring.load(self._home, here=here)
                return keyring.create(self._home) if found is None and create else found

            try:
                self._ring = await asyncio.to_thread(load)
            except ImportError as error:
                raise TellwireError(
                    "not_paired", f"{error}.", "Install tellwire with the extra `machines`."
                ) from error
        if self._ring is None:
            raise TellwireError("not_paired", "This machine has no identity yet.")
        return self._ring

    def _look(self) -> None:
        """Have the session keys rotate."""
        self._mesh.clock.read()
        if self._ring is not None and self._mesh.clock.awake - self._rotated >= ROTATE_S:
            self._rotated = self._mesh.clock.awake
            try:
                self._ring.rotate()
            except OSError as error:
                log.warning("a new session key cannot be saved: %s", error)
        asyncio.get_running_loop().call_later(LOOK_S, self._look)

    # -- operations -----------------------------------------------------------------------------------

    def begin_card(self, source: Source, n: int, operation: MachineCard) -> None:
        """Answer with this machine's card."""
        self._tasks.run(self._late.answer(source, n, operation, self._card(source, operation)))

    async def _card(self, source: Source, operation: MachineCard) -> MachineIdentity:
        check_caller(operation, source.caller)
        async with self._lock:
            ring = await self._load(create=True)
        shown = ""
        if operation.carrier_url:
            redis: Any = await asyncio.to_thread(import_module, REDIS_MODULE)
            address = redis.check_url(operation.carrier_url)
            shown = redis.hide_password(address)
            ring.keep_carrier(shown, address)
        return self._identity(ring, operation.label, shown)

    def _identity(self, ring: Keyring, label: str = "", shown: str = "") -> MachineIdentity:
        state = self._mesh.state
        name = parse_label(label) if label else state.here_label or propose_label(socket.gethostname())
        kept = ring.carriers
        return MachineIdentity(
            id=ring.id,
            label=name,
            words=ring.words,
            card=ring.card(name, version=self._version, body_bytes_max=self._mesh.limits.body_bytes_max),
            labels={**state.labels, name.lower(): ring.id},
            carrier=f"{REDIS} {shown}" if shown else "",
            carrier_url=kept[shown] if shown else next(reversed(kept.values()), ""),
        )

    def begin_renewal(self, source: Source, n: int, operation: RenewMachine) -> None:
        """Answer when this home has another identity, or has kept the one that it came with."""
        self._tasks.run(self._late.answer(source, n, operation, self._renew(source, operation)))

    async def _renew(self, source: Source, operation: RenewMachine) -> MachineIdentity:
        check_caller(operation, source.caller)
        async with self._lock:
            keyring: Any = (await asyncio.to_thread(import_module, SEAL_MODULE)).Keyring
            make: Callable[[Path], Keyring] = keyring.move if operation.moved else keyring.create
            if self._ring is not None:
                self._ring.retire()
            ring = await asyncio.to_thread(make, self._home)
            if self._carriers is not None:
                await self._carriers.close()
            self._ring, self._bridge, self._carriers = ring, None, None
            if self._mesh.state.here and self._mesh.state.here != ring.id:
                await call_for(self._mesh, source.caller, source.group, NameMachine(ring.id))
        if operation.moved and self._has_machines():
            self._tasks.run(self._begin())
        return self._identity(ring)
