"""The doors for what runs beside a client's turn: hooks that bring a payload, and waiters."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import msgspec

from palaver.broker.identity import ancestry
from palaver.broker.server import Server, Visit
from palaver.core.state import Agent
from palaver.gateways.books import Book
from palaver.gateways.guarding import Guarding
from palaver.gateways.hooks import Hooks
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.agents import PathRecord
from palaver.protocol.relay import HookHello

log = logging.getLogger("palaver.hooks")

ANSWER_S = 1.5
"""Later than this the hook has given up."""
WAITER = "waiter"
HEADLESS = frozenset({"-p", "--print", "exec"})
"""Words on a client's command line that say: one run, then end."""
_FIELD = re.compile(rb'"(\w+)"\s*:\s*("(?:[^"\\]|\\.){0,4096}"|true|false|null|-?\d{1,18})')


def parse_payload(data: bytes, *, cut: bool) -> dict[str, Any]:
    """A hook's payload; of one that was too long, the plain fields of its beginning.

    Raises:
        ValueError: it is not JSON.
    """
    if cut:
        pairs = ((name.decode(), msgspec.json.decode(value)) for name, value in _FIELD.findall(data))
        fields: dict[str, Any] = {}
        for name, value in pairs:
            fields.setdefault(name, value)  # the first is the outermost
        return fields
    return msgspec.json.decode(data, type=dict[str, Any])


class HookDoor:
    """Hooks that come over our own socket."""

    def __init__(self, hooks: Hooks, guarding: Guarding, server: Server) -> None:
        self._hooks = hooks
        self._guarding = guarding
        self._server = server

    def admit(self, visit: Visit) -> None:
        """Take a hook's connection over."""
        if visit.hello.hook is None:
            raise AssertionError("not a hook")
        guest = HookGuest(self._hooks, self._guarding, self._server, visit, visit.hello.hook)
        visit.transport.set_protocol(guest)
        guest.data_received(visit.data)


class HookGuest(asyncio.Protocol):
    """One hook: its payload in, one answer out."""

    def __init__(
        self, hooks: Hooks, guarding: Guarding, server: Server, visit: Visit, hello: HookHello
    ) -> None:
        self._hooks = hooks
        self._guarding = guarding
        self._server = server
        self._transport = visit.transport
        self._hello = hello
        self._words = [process.word for process in ancestry(visit.pid)]
        self._data = bytearray()
        self._served = False
        server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Gather the payload."""
        self._data += data
        if len(self._data) >= self._hello.bytes and not self._served:
            self._served = True
            self._hooks.run(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        """The hook is gone; what it was given is judged by the transcript, not by that."""
        del exc
        self._server.connections.discard(self)

    async def _serve(self) -> None:
        answer = None
        try:
            payload = parse_payload(bytes(self._data[: self._hello.bytes]), cut=self._hello.cut)
            async with asyncio.timeout(ANSWER_S):
                answer = await self._guarding.handle(self._hello.client, payload, self._words)
        except (ValueError, TimeoutError) as error:
            self._hooks.fault(self._hello.client, error)
            log.warning("a hook of %s could not be served: %s", self._hello.client, str(error)[:200])
        except Exception:
            log.exception("a hook of %s failed", self._hello.client)
        if answer is not None:
            self._transport.write(msgspec.json.encode(answer))
        self._transport.close()

    def dismiss(self, error: PalaverError) -> None:
        """Close; a hook without an answer is harmless."""
        del error
        self._transport.close()


class WaiterDoor:
    """Waiters beside idle clients: one for each client process, none in headless runs."""

    def __init__(self, hooks: Hooks, server: Server) -> None:
        self._hooks = hooks
        self._server = server
        self._waiters: dict[str, WaiterGuest] = {}
        """By the client's process."""

    def admit(self, visit: Visit) -> None:
        """Take a waiter's connection over, or send it home."""
        chain = ancestry(visit.pid)
        client = chain[1] if len(chain) > 1 else None
        guest = WaiterGuest(self, visit)
        visit.transport.set_protocol(guest)
        if client is None or client.word in self._waiters or is_headless(client.pid):
            guest.end(b"0\n")
            return
        guest.client = client.word
        self._waiters[client.word] = guest
        self._server.connections.add(guest)
        for agent in self._hooks.agents():
            if agent.owner == client.word and agent.pending:
                self._hooks.mail(agent.id)

    def leave(self, guest: WaiterGuest) -> None:
        """A waiter is gone."""
        self._server.connections.discard(guest)
        if self._waiters.get(guest.client) is guest:
            del self._waiters[guest.client]

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Hand all that waits to the agent's waiter, if it has one."""
        guest = self._waiters.get(agent.owner)
        if guest is None:
            return False
        fetched = await self._hooks.fetch(book, "wake", WAITER)
        if not fetched.text:
            return False
        if self._waiters.get(agent.owner) is not guest:  # it ended meanwhile
            self._hooks.give_back(book, fetched.call)
            return False
        self.leave(guest)
        guest.end(b"2 " + fetched.text.encode())
        return True

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether a waiter stands beside the agent's client."""
        works = agent.owner in self._waiters
        note = "" if works else "no waiter: it comes with the next prompt or end of a turn"
        return PathRecord(name=WAITER, works=works, note=note, wakes=True)


class WaiterGuest(asyncio.Protocol):
    """One waiter; it says nothing and is told once."""

    def __init__(self, door: WaiterDoor, visit: Visit) -> None:
        self._door = door
        self._transport = visit.transport
        self.client = ""

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended, or its client did."""
        del exc
        self._door.leave(self)

    def end(self, data: bytes) -> None:
        """Tell it how to end."""
        self._transport.write(data)
        self._transport.close()

    def dismiss(self, error: PalaverError) -> None:
        """Close; it waits for the next broker."""
        del error
        self._transport.close()


def is_headless(pid: int) -> bool:
    """Whether a client does one run and ends: a waiter would keep it alive."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(65_536).split(b"\0")
    except OSError:
        return False
    return any(word.decode(errors="replace") in HEADLESS for word in words[1:])
