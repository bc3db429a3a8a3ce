"""The Unix socket: greetings, calls in, frames out. It parses, and decides nothing.

A connection costs bounded memory whatever its other end does: an unfinished line, the calls of one tick, the
window of offers, and what the kernel's buffer did not take. A client that does not read is not read from.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Protocol, TypeAlias, cast

from tellwire.broker.engine import Engine
from tellwire.broker.origins import Attached, Origins, needs_tmux, nobody_attached
from tellwire.broker.ports import NOBODY
from tellwire.broker.registrations import Connections, Visit
from tellwire.core.agents.speaking import Identity
from tellwire.core.context import Caller, EndSession
from tellwire.core.limits import Bucket, Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import (
    FRAME_BYTES_MAX,
    PROTOCOL,
    CallError,
    Hello,
    LineDecoder,
    Welcome,
    format_error,
    format_frame,
    format_offer,
    format_ok,
    parse_call,
    parse_hello,
)
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.base import AGENT, OPERATOR, SCRIPT, Reply
from tellwire.protocol.operations.messages import SendMessage
from tellwire.system.processes import Process, ancestry, peer_credentials
from tellwire.system.projects import group_of

log = logging.getLogger("tellwire.server")

CALLS_PER_TICK_MAX = 64
"""Of one connection; further calls wait for the next tick."""
WRITE_BUFFER_BYTES = 256 * 1024
CONSOLES = frozenset({"cli", "tui", "web"})
"""Our own programs that show a person their mail."""


Judged: TypeAlias = "Callable[[Identity | None], None]"
RunInBackground: TypeAlias = "Callable[[Callable[[], Identity], Judged], None]"


def _at_once(work: Callable[[], Identity], then: Judged) -> None:
    then(work())


def _caller(verdict: Identity, chain: list[Process], program: str) -> Caller:
    said = program.partition(" ")[0]
    return Caller(
        console=said if said in CONSOLES else "program",
        kind=AGENT if verdict.adrift else verdict.kind,  # it may see no more than an agent
        agent=verdict.agent,
        ancestor=verdict.agent,
        process=chain[0].key if chain else "",
        adrift=verdict.adrift,
    )


class Door(Protocol):
    """Takes connections over from the server."""

    def admit(self, visit: Visit) -> None:
        """Serve it from here on, as the transport's new protocol and one of the server's connections."""
        ...


class Server:
    """The connections of one broker, and the doors that serve those of other kinds."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        version: str,
        heartbeat_s: float,
        greeting_s: float,
        connections_max: int,
        attached: Attached = nobody_attached,
        run_in_background: RunInBackground = _at_once,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.version = version
        self.heartbeat_s = heartbeat_s
        self.greeting_s = greeting_s
        self.connections_max = connections_max
        self.connections = Connections()
        self._doors: dict[str, Door] = {}
        self.strangers = Strangers()
        self.origins = Origins(lambda: engine.state, attached)
        self.run_in_background = run_in_background
        """Runs work that asks other programs, off the event loop."""

    def add_door(self, name: str, door: Door) -> None:
        """Hand connections that greet with this name, such as `shim`, to this door."""
        self._doors[name] = door

    def door_for(self, name: str) -> Door | None:
        """The door for connections that greet with a name."""
        return self._doors.get(name)

    def welcome(self) -> bytes:
        """The broker's greeting, with the times as of now."""
        self.engine.clock.read()
        return format_frame(
            Welcome(
                tellwire=PROTOCOL,
                version=self.version,
                awake=self.engine.clock.awake,
                heartbeat_s=self.heartbeat_s,
                pid=os.getpid(),
                clock=time.monotonic(),
            )
        )

    def sweep(self) -> None:
        """Close connections that missed their deadline, and log who was turned away."""
        self.connections.sweep(time.monotonic() - self.greeting_s)
        self.strangers.log_counts()

    def dismiss_all(self) -> None:
        """Say that the broker stops, and close everything."""
        self.connections.stopping = True
        for connection in self.connections:
            connection.dismiss(TellwireError("stopping", "The broker is stopping."))
        self.strangers.log_counts(last=True)

    def agent_owning(self, keys: list[str]) -> str:
        """The agent whose own process is among these ancestors; empty if none."""
        owners = self.origins.known().owners
        return next((owners[key] for key in keys if key in owners), "")


class CallerLookup:
    """Finds out who is at the other end of one connection; if tmux has to be asked, in the background."""

    __slots__ = ("_found", "_server", "pid", "program", "running")

    def __init__(self, server: Server) -> None:
        self._server = server
        self._found: Caller | None = None
        self.pid = 0
        self.program = ""
        self.running = False
        """tmux is being asked; calls wait until it has answered."""

    def find(self, before: Caller, then: Callable[[], None]) -> Caller | None:
        """Who calls, given who it was before; None if tmux has to be asked: `then` is called afterwards."""
        if self._found is not None:
            found, self._found = self._found, None
            return found
        above = self._server.engine.state.agents.get(before.ancestor)
        if above is not None and above.owner:
            return before  # it ran below an agent when it was last looked at, wherever it is now
        chain, known = ancestry(self.pid), self._server.origins.known()
        judged = partial(self._server.origins.judge, chain, known)
        if not needs_tmux(chain) or any(each.key in known.owners for each in chain):
            return _caller(judged(), chain, self.program)
        self.running = True
        self._server.run_in_background(judged, partial(self._note, chain, then))
        return None

    def _note(self, chain: list[Process], then: Callable[[], None], verdict: Identity | None) -> None:
        """Keep the verdict for the call that waits; None: tmux did not answer."""
        self.running = False
        self._found = _caller(verdict or Identity(SCRIPT, adrift=True), chain, self.program)
        then()


class Phase(Enum):
    """How far a connection has got."""

    GREETING = auto()
    OPEN = auto()
    CLOSING = auto()
    """Dismissed, lost, or handed to another door: nothing more is read or written here."""


class Connection(asyncio.Protocol):
    """One client's connection; a `Source` of commands for the engine."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._engine = server.engine
        self._transport: asyncio.Transport | None = None
        self._decoder = LineDecoder(FRAME_BYTES_MAX)
        self._out: list[bytes] = []
        self._backlog: deque[bytes] = deque()
        self._queued = 0
        self._phase = Phase.GREETING
        self._lookup = CallerLookup(server)
        self._bucket = Bucket(server.limits.sends_per_s_max, server.limits.sends_per_s_max, 0.0)
        self.caller: Caller = NOBODY
        self.group = ""
        self.writable = True
        self.last_seen = self.since = time.monotonic()

    # -- the transport --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept connections of our own user only."""
        # uvloop's transports have the methods of asyncio's, but are not of its class
        self._transport = transport = cast("asyncio.Transport", transport)
        server = self._server
        server.connections.add(self)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        try:
            peer = peer_credentials(transport.get_extra_info("socket").fileno())
        except OSError:
            transport.abort()
            return
        self._lookup.pid = peer.pid
        server.connections.start_deadline(self)
        if peer.uid != os.getuid():
            server.strangers.note("of other users")
            self.dismiss(TellwireError("forbidden", "This broker belongs to another user."))
        elif len(server.connections) > server.connections_max:
            self.dismiss(TellwireError("too_many_connections", "The broker has too many connections."))

    def data_received(self, data: bytes) -> None:
        """Split the bytes into lines: the greeting first, then calls."""
        self.last_seen = time.monotonic()
        if self._phase is Phase.CLOSING:
            return
        try:
            lines = self._decoder.feed(data)
            if self._phase is Phase.OPEN and len(lines) == 1 and self.writable and not self._backlog:
                self._call(lines[0])  # the usual case
                return
            if self._phase is Phase.GREETING and lines:
                hello = parse_hello(lines.pop(0))
                if hello.door:
                    self._hand_on(hello, lines)
                    return
                self._lookup.program = hello.program
                self._greet()
            self._read(lines)
        except TellwireError as error:
            self._engine.refusals.note(self.caller, None, error, self._engine.clock.now)
            self.dismiss(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end is gone; if it was an agent's client, that session is over."""
        del exc
        self.writable = False
        self._phase = Phase.CLOSING
        self._transport = None
        self._backlog.clear()
        self._server.connections.discard(self)
        self._server.connections.clear_deadline(self)
        self._engine.feed.forget(self)
        self._engine.consoles.leave(self)
        self._engine.attendance.leave(self)
        if self.caller.is_own_client and not self._server.connections.stopping:
            session = self._engine.delivery.sessions.get(self.caller.agent)
            if session is not None and session.source is self:
                self._engine.submit(self, 0, EndSession(self.caller.agent, session.id))

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read, and send it no more offers."""
        self.writable = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume writing: the peer reads again."""
        self.writable = True
        if self.caller.is_own_client:
            self._engine.delivery.dirty.add(self.caller.agent)
            self._engine.wake()
        elif self in self._engine.consoles or self in self._engine.feed.followers:
            self._engine.wake()
        self._go_on()

    # -- calls in -------------------------------------------------------------------------------------

    def _greet(self) -> None:
        self._phase = Phase.OPEN
        self._server.connections.clear_deadline(self)
        self._write(self._server.welcome())

    def _hand_on(self, hello: Hello, lines: list[bytes]) -> None:
        """Hand this connection to the door that its greeting names."""
        door, transport = self._server.door_for(hello.door), self._transport
        if door is None or transport is None:
            raise TellwireError(
                "wrong_version", f"This broker does not accept connections of kind {hello.door!r}."
            )
        self._phase = Phase.CLOSING
        self._server.connections.discard(self)
        self._server.connections.clear_deadline(self)
        data = b"".join(line + b"\n" for line in lines) + self._decoder.rest
        door.admit(Visit(transport, self._lookup.pid, hello, data))

    def _read(self, lines: list[bytes]) -> None:
        """Carry out calls until the bound of a tick; keep the rest and stop reading from the socket."""
        for position, line in enumerate(lines):
            if (
                self._queued >= CALLS_PER_TICK_MAX
                or not self.writable
                or self._backlog
                or self._lookup.running
            ):
                self._backlog.extend(lines[position:])
                if self._transport is not None:
                    self._transport.pause_reading()
                if self._queued == 0 and self.writable and not self._lookup.running:
                    self._engine.wake()
                return
            if line:
                self._call(line)

    def _call(self, line: bytes) -> None:
        """Parse a call; answer it at once if it only reads and nothing waits, else put it into a tick."""
        try:
            call = parse_call(line)
        except CallError as bad:
            self._submit(bad.n, bad.error)
            return
        operation = call.do
        unsure = self.caller is NOBODY or (type(operation) is RegisterAgent and not self.caller.is_own_client)
        if unsure and not self._is_identified(line):
            return
        if type(operation) is SendMessage:
            if not self._bucket.take(self.last_seen):
                self._submit(call.n, TellwireError("rate_limited", "Too many sends in one second."))
                return
        elif type(operation) is RegisterAgent:
            self.group = group_of(operation.cwd)
        # Before a crowded tick an answer waits, to join its one write per connection.
        if operation.reads and not self._queued and not self._engine.queue.crowded:
            self._engine.answer_now(self, call.n, operation)
        else:
            self._queued += 1
            self._engine.submit(self, call.n, operation)

    def _submit(self, n: int, command: AnyOperation | TellwireError) -> None:
        self._queued += 1
        self._engine.submit(self, n, command)

    def _is_identified(self, line: bytes) -> bool:
        """Find out who calls; if tmux has to be asked, the call and all behind it wait for the answer."""
        caller = self._lookup.find(self.caller, self._go_on_identified)
        if caller is not None:
            self.caller = caller
            return True
        self._backlog.appendleft(line)
        if self._transport is not None:
            self._transport.pause_reading()
        return False

    def _go_on_identified(self) -> None:
        if self._phase is not Phase.CLOSING:
            self._go_on()

    # -- frames out -----------------------------------------------------------------------------------

    def answer(self, n: int, reply: Reply) -> None:
        """Put an answer into the outgoing bytes."""
        unread = self._unread() if self.caller.kind == OPERATOR else 0
        self._out.append(format_ok(n, reply, unread))

    def refuse(self, n: int, error: TellwireError) -> None:
        """Put a refusal into the outgoing bytes."""
        if n:
            unread = self._unread() if self.caller.kind == OPERATOR else 0
            self._out.append(format_error(n, error, unread))

    def _unread(self) -> int:
        """How much of the operator's mail is unread."""
        return self._engine.consoles.unread(self._engine.state)

    def offer(self, frame: bytes) -> None:
        """Put an offer into the outgoing bytes."""
        self._out.append(frame)

    def mail(self, waiting: int) -> None:
        """Put an offer of nothing but a count into the outgoing bytes."""
        self._out.append(format_offer([], waiting))

    def flush(self) -> None:
        """Send everything in one write, then continue with calls that had to wait."""
        out, self._out = self._out, []
        self._queued = 0
        if out and self._transport is not None and self._phase is not Phase.CLOSING:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self._backlog and not self._lookup.running:
            self._go_on()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and self._phase is not Phase.CLOSING:
            self._transport.write(data)

    def _go_on(self) -> None:
        """Handle calls that waited; resume reading once there are none."""
        while self._backlog and self.writable and not self._queued and not self._lookup.running:
            rest, self._backlog = self._backlog, deque()
            lines = [rest.popleft() for _ in range(min(len(rest), CALLS_PER_TICK_MAX))]
            try:
                self._read(lines)
            except TellwireError as error:
                self.dismiss(error)
                return
            self._backlog.extend(rest)
        if not self._backlog and self._transport is not None and self._phase is not Phase.CLOSING:
            self._transport.resume_reading()

    # -- identity -------------------------------------------------------------------------------------

    def attach(self, agent: str, *, is_own_client: bool) -> None:
        """From now on this connection speaks as `agent`."""
        self.caller = self.caller.speaking_as(agent, is_own_client=is_own_client)
        if is_own_client:
            self._server.origins.note(agent)

    def detach(self) -> None:
        """Detach the connection from its agent."""
        self.caller = NOBODY

    def dismiss(self, error: TellwireError) -> None:
        """Say why, and close; what is not read within the buffer is dropped."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._phase = Phase.CLOSING
        out, self._out = self._out, []
        transport.write(b"".join([*out, format_error(0, error)]))
        if self.writable:
            transport.close()
            self.since = time.monotonic()
            self._server.connections.start_deadline(self)
        else:
            transport.abort()

    def expire(self) -> None:
        """The deadline passed: no greeting came, or the last frame is not read."""
        if self._phase is Phase.CLOSING and self._transport is not None:
            self._transport.abort()
        else:
            self.dismiss(TellwireError("greeting_missing", "No greeting arrived in time."))


def connection_factory(server: Server) -> Callable[[], Connection]:
    """What the event loop calls for each new connection."""
    return lambda: Connection(server)


LOG_EVERY_S = 60.0
"""The first are logged at the next beat, the others at most this often."""


class Strangers:
    """Counts connections that were turned away since the last log line, by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._logged_at = -LOG_EVERY_S

    def note(self, reason: str) -> None:
        """Count one; the reasons are our own few constants, never text from outside."""
        self._counts[reason] += 1

    def log_counts(self, *, last: bool = False) -> None:
        """Log the counts, at most once in `LOG_EVERY_S`; with `last`, in any case."""
        now = time.monotonic()
        if not self._counts or (now - self._logged_at < LOG_EVERY_S and not last):
            return
        reasons = ", ".join(f"{count} {reason}" for reason, count in self._counts.most_common())
        log.warning("turned %d connections away: %s", self._counts.total(), reasons)
        self._counts.clear()
        self._logged_at = now
