"""The doors for hooks, which bring a payload, and for waiters, which run while a client is idle."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from tellwire.broker.registrations import Connections, Visit
from tellwire.clients import is_headless
from tellwire.core.agents.speaking import REAPERS
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import PathRecord
from tellwire.protocol.relay import HookHello
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.listening import listener, never
from tellwire.sessions.starts import read_payload
from tellwire.sessions.tracker import SessionTracker
from tellwire.sessions.write_guard import Guarding
from tellwire.system.processes import INIT, ancestry, started_at

log = logging.getLogger("tellwire.hooks")

ANSWER_S = 1.5
"""Later than this the hook has given up."""
WAITER = "waiter"


class HookDoor:
    """Hooks that come over our own socket."""

    def __init__(
        self,
        tracker: SessionTracker,
        guarding: Guarding,
        connections: Connections,
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._tracker = tracker
        self._guarding = guarding
        self._connections = connections
        self._answer_s = answer_s

    def admit(self, visit: Visit) -> None:
        """Serve a connection that greeted as a hook."""
        if visit.hello.hook is None:
            raise AssertionError("not a hook")
        connection = HookConnection(
            self._tracker,
            self._guarding,
            self._connections,
            visit,
            visit.hello.hook,
            answer_s=self._answer_s,
        )
        visit.transport.set_protocol(connection)
        connection.data_received(visit.data)


class HookConnection(asyncio.Protocol):
    """One hook: its payload in, one answer out."""

    def __init__(
        self,
        tracker: SessionTracker,
        guarding: Guarding,
        connections: Connections,
        visit: Visit,
        hello: HookHello,
        *,
        answer_s: float,
    ) -> None:
        self._answer_s = answer_s
        self._tracker = tracker
        self._guarding = guarding
        self._connections = connections
        self._transport = visit.transport
        self._hello = hello
        self._processes = [process.key for process in ancestry(visit.pid)]
        self._listens = hello.listens and bool(self._processes)  # a hook without a process gave up long ago
        self._data = bytearray()
        self._served = False
        self.since = time.monotonic()
        connections.add(self)
        connections.start_deadline(self)

    def data_received(self, data: bytes) -> None:
        """Collect the payload; anything after it is ignored."""
        if self._served:
            return
        self._data += data[: self._hello.bytes - len(self._data)]
        if len(self._data) == self._hello.bytes:
            self._served = True
            self._connections.clear_deadline(self)
            self._tracker.run(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        """The hook is gone; what it was given is judged by the transcript, not by that."""
        del exc
        self._connections.discard(self)
        self._connections.clear_deadline(self)
        self._tracker.go_on()  # if it gave up, it has left a file for later hooks; we answer again

    async def _serve(self) -> None:
        """Handle the payload within the time limit; a hook without an answer is harmless."""
        answer = None
        listens = listener(self._transport, self._hello.until) if self._listens else never
        try:
            payload = read_payload(bytes(self._data[: self._hello.bytes]), cut=self._hello.cut)
            async with asyncio.timeout(self._answer_s):
                answer = await self._guarding.handle(self._hello.client, payload, self._processes, listens)
        except (ValueError, TimeoutError) as error:
            self._tracker.faults.note(self._hello.client, error)
            log.warning("a hook of %s could not be served: %s", self._hello.client, str(error)[:200])
        except Exception:
            log.exception("a hook of %s failed", self._hello.client)
        if answer is not None:
            self._transport.write(msgspec.json.encode(answer))
        self._transport.close()
        self.since = time.monotonic()
        self._connections.start_deadline(self)

    def dismiss(self, error: TellwireError) -> None:
        """Close; a hook without an answer is harmless."""
        del error
        self._transport.close()

    def expire(self) -> None:
        """Its payload did not come in time, or its answer is not taken."""
        self._transport.abort()


class WaiterDoor:
    """The waiters of idle clients: one for each client process, none in headless runs."""

    def __init__(self, tracker: SessionTracker, connections: Connections) -> None:
        self._tracker = tracker
        self._connections = connections
        self._waiters: dict[str, WaiterConnection] = {}
        """By the client's process."""

    def admit(self, visit: Visit) -> None:
        """Serve a connection that greeted as a waiter, or tell it to exit."""
        chain = ancestry(visit.pid)
        connection = WaiterConnection(self, visit, [process.key for process in chain])
        visit.transport.set_protocol(connection)
        orphan = len(chain) < 2 or chain[1].pid == INIT or chain[1].name in REAPERS
        if orphan or is_headless(chain[1].pid) or self._has_younger(connection):
            connection.end(b"0\n")
            return
        if (older := self._waiters.get(connection.client)) is not None:
            older.end(b"0\n")
        self._waiters[connection.client] = connection
        self._connections.add(connection)
        connection.data_received(visit.data)
        self._tracker.wake_agents_of(connection.client)

    def _has_younger(self, connection: WaiterConnection) -> bool:
        """Whether a waiter of the same client began later: after /clear an older one's session is over."""
        there = self._waiters.get(connection.client)
        return there is not None and there.since > connection.since

    def bind(self, connection: WaiterConnection, data: bytes) -> None:
        """Read the payload that a waiter was started with: it names the session that it serves."""
        hello = connection.hello
        try:
            payload = read_payload(data, cut=hello.cut)
            self._tracker.meet(hello.client, payload, connection.processes, connection.since)
        except ValueError as error:
            self._tracker.faults.note(hello.client, error)

    def leave(self, connection: WaiterConnection) -> None:
        """Forget a waiter that has ended."""
        self._connections.discard(connection)
        if self._waiters.get(connection.client) is connection:
            del self._waiters[connection.client]

    async def wake(self, session: ClientSession, agent: Agent) -> bool:
        """Hand all that waits to the agent's waiter, if it has one."""
        connection = self._waiters.get(agent.owner)
        if connection is None or not connection.listens():
            return False
        fetched = await self._tracker.fetcher.fetch_to_wake(session, "wake", WAITER)
        if not fetched.text:
            return False
        connection = self._waiters.get(agent.owner)
        if connection is None or not connection.listens():  # it ended meanwhile
            self._tracker.fetcher.give_back(session, fetched.call)
            return False
        self.leave(connection)
        session.wakes.glimpse = fetched.line
        connection.end(b"2 " + fetched.text.encode())
        return True

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether the agent's client has a waiter."""
        works = agent.owner in self._waiters
        note = "" if works else "no waiter yet: it starts with the next prompt or at the end of a turn"
        return PathRecord(name=WAITER, works=works, note=note, wakes=True)


class WaiterConnection(asyncio.Protocol):
    """One waiter: it says which session it serves, and gets one answer."""

    def __init__(self, door: WaiterDoor, visit: Visit, processes: list[str]) -> None:
        if visit.hello.waiter is None:
            raise AssertionError("not a waiter")
        self._door = door
        self._transport = visit.transport
        self.listens = listener(visit.transport)
        self._data = bytearray()
        self._heard = False
        self.hello = visit.hello.waiter
        self.processes = processes
        self.client = processes[1] if len(processes) > 1 else ""
        """The client's process."""
        self.since = started_at(processes[0]) if processes else 0.0

    def data_received(self, data: bytes) -> None:
        """Gather its payload; those of earlier versions have none."""
        self._data += data[: self.hello.bytes - len(self._data)]
        if self.hello.bytes and len(self._data) == self.hello.bytes and not self._heard:
            self._heard = True
            self._door.bind(self, bytes(self._data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the waiter or of its client."""
        del exc
        self._door.leave(self)

    def end(self, data: bytes) -> None:
        """Tell the waiter to exit, and with what output."""
        self._transport.write(data)
        self._transport.close()

    def dismiss(self, error: TellwireError) -> None:
        """Close; it waits for the next broker."""
        del error
        self._transport.close()
