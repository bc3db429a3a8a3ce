"""The carriers to each machine, as the state names them; they run as long as the machine is paired.

ssh DEST [PROGRAM]    call it           ssh       be called by it
redis ADDRESS         the address without its password, which is in the key file
off …                 not now
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from tellwire.core.state import Machine
from tellwire.federation.carriers.ssh import IncomingSsh, SshCarrier
from tellwire.federation.ports import Carrier, Receive
from tellwire.machines.door import WireDoor
from tellwire.protocol.errors import TellwireError
from tellwire.system.tasks import Tasks

OFF = "off "
REDIS = "redis"
SSH = "ssh"
REDIS_MODULE = "tellwire.federation.carriers.redis_streams"


class Addresses(Protocol):
    """Where addresses with their passwords are."""

    @property
    def carriers(self) -> Mapping[str, str]: ...


class Broken:
    """Stands for a carrier that cannot be used, and says why."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    async def run(self, receive: Receive, up: Callable[[bool, str], None]) -> None:
        """Say so, and wait."""
        del receive
        up(False, self._why)
        await asyncio.get_running_loop().create_future()

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Nothing can be sent."""
        del blob, last
        return False

    def forget(self, last: int) -> None:
        """Nothing is kept."""


class Carriers:
    """Starts and stops them (`machines.bridge.Connector`)."""

    def __init__(self, here: str, door: WireDoor, addresses: Addresses) -> None:
        self._here = here
        self._door = door
        self._addresses = addresses
        self._tasks = Tasks()
        self._running: dict[str, list[asyncio.Task[None]]] = {}
        self._is_closed = False

    def connect(
        self, machine: Machine, receive: Receive, up: Callable[[int, bool, str], None]
    ) -> Sequence[Carrier]:
        """Begin with the carriers that a machine has now."""
        self.disconnect(machine.id)
        if self._is_closed:
            return []
        made = [self._make(machine, word) for word in machine.carriers if not word.startswith(OFF)]
        carriers = [each for each in made if each is not None]
        works: list[Coroutine[Any, Any, None]] = [
            carrier.run(receive, partial(up, place)) for place, carrier in enumerate(carriers)
        ]
        self._running[machine.id] = [self._tasks.run(work) for work in works]
        return carriers

    def disconnect(self, machine: str) -> None:
        """Stop the carriers to a machine."""
        self._door.forget(machine)
        for task in self._running.pop(machine, []):
            task.cancel()

    async def close(self) -> None:
        """Stop all of them, and begin no more."""
        self._is_closed = True
        self._tasks.cancel()
        await self._tasks.drain(2.0)

    def _make(self, machine: Machine, words: str) -> Carrier | None:
        kind, _, rest = words.partition(" ")
        try:
            if kind == REDIS:
                module = import_module(
                    REDIS_MODULE
                )  # a thread has loaded it, if it was paired before we began
                address = self._addresses.carriers.get(rest, rest)
                return module.RedisCarrier(address, here=self._here, there=machine.id)
            if kind == SSH and rest:
                destination, _, program = rest.partition(" ")
                return SshCarrier(destination, here=self._here, there=machine.id, program=program)
            if kind == SSH:
                incoming = IncomingSsh(here=self._here, there=machine.id)
                self._door.expect(self._here, machine.id, incoming)
                return incoming
        except TellwireError as error:
            return Broken(kind, error.message)
        except ImportError as error:
            return Broken(kind, f"{error}. Install tellwire with the extra `machines`.")
        return Broken(kind, f"This version of tellwire has no carrier {kind!r}.")
