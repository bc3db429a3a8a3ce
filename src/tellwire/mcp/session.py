"""One shim's session: its lines, the agent it speaks as, and what is known of what its model has read.

Handing messages out by a tool's result is a lease of that call. The shim tells which answers it has written
into the client's pipe; a tool call that comes after that, in the same conversation, shows that the model had
the result before it. A cancelled call gives its lease back; so does the session's end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import msgspec

from tellwire.broker.labels import Labels
from tellwire.broker.origins import Origins, needs_tmux
from tellwire.broker.ports import SessionMesh
from tellwire.broker.registrations import Visit
from tellwire.clients import runs_many
from tellwire.core.agents.seats import UNKNOWN_PANE
from tellwire.core.agents.speaking import REAPERS
from tellwire.core.children.lifecycle import child_above
from tellwire.core.context import Caller, NoteEvidence, PlaceSession, ReturnLease, Seat
from tellwire.core.kernel import Command
from tellwire.core.limits import Bucket
from tellwire.core.state import Agent
from tellwire.protocol.addresses import ID
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import LineDecoder
from tellwire.protocol.operations.agents import Done, Registered
from tellwire.protocol.operations.base import SCRIPT, Operation, Reply
from tellwire.protocol.operations.messages import SendMessage
from tellwire.protocol.relay import (
    DONE,
    END,
    KEEP,
    LINE_BYTES_MAX,
    STOPPING,
    ShimHello,
    ShimLine,
    format_shim_answer,
    format_shim_welcome,
    parse_shim_line,
)
from tellwire.system.processes import INIT, Process, ancestry, cmdline, pid_in, read_process, read_variable
from tellwire.system.projects import group_of
from tellwire.system.terminals import pane_in
from tellwire.system.threads import in_thread

WRITE_BUFFER_BYTES = 1 << 20
LINES_MAX = 256
"""Lines of one shim that wait to be served; beyond that it is not read from."""
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "env"})


class ShimTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long shims and their clients are waited for."""

    return_s: float = 5.0
    """A shim whose connection broke, and whose process lives, comes back within this."""
    look_s: float = 0.02
    """Between two looks whether it has."""
    stop_s: float = 2.0
    """How long a broker that stops waits for open calls to be answered."""
    farewell_s: float = 3.0
    """How long what is open may take to be answered when the client ends."""
    fresh_s: float = 5.0
    """After this long without a line, the client's process is checked."""
    judge_s: float = 2.0
    """How long tmux is waited for when it has to tell who looks at a client."""
    beat_s: float = 5.0
    """Between two signs of progress of a call that is held."""
    request_s: float = 45.0
    """How long the deprecated blocking request is held; some clients give a call up after a minute."""


class FetchedCall(NamedTuple):
    """One call that handed messages out, until there is evidence."""

    call: str
    ids: list[str]
    conversation: str | None
    """None: not known any more, any call will do."""


class EvidenceJudge(Protocol):
    """Follows the transcripts of clients that have hooks."""

    @property
    def labels(self) -> Labels:
        """The secret labels that end peers' messages in each session."""
        ...

    def adopt(self, agent: str, call: str, ids: list[str]) -> bool:
        """Whether it judges what a call hands out."""
        ...

    def brings(self, agent: str) -> bool:
        """Whether hooks bring mail into the turn that an agent is in."""
        ...

    def mail(self, agent: str) -> None:
        """Handle that mail waits for an agent."""
        ...

    async def settle(self, agent: str) -> None:
        """Judge for the last time what an agent's session was given."""
        ...


class ShimConnection(asyncio.Protocol):
    """The connection of one shim: its lines in order, and how much of them is read and written at a time."""

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        on_leave: Callable[[], None],
        on_lost: Callable[[], None],
        on_garbage: Callable[[TellwireError], None],
    ) -> None:
        self._transport: asyncio.Transport | None = transport
        self._decoder = LineDecoder(LINE_BYTES_MAX)
        self._on_leave = on_leave
        self._on_lost = on_lost
        self._on_garbage = on_garbage
        self.lines: deque[ShimLine] = deque()
        self.arrived = asyncio.Event()
        """Set when there are lines, or there will be none any more."""
        self.leaving = False
        """The client has closed its end: answer what is open and go."""
        self.said_goodbye = False
        self.writable = True
        self.seen_at = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether something that is written can still reach the shim."""
        return self._transport is not None

    def begin(self, welcome: bytes, data: bytes) -> None:
        """Greet, and take what came behind the shim's greeting."""
        self.write(welcome)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Cut the bytes into lines; they are served in order."""
        self.seen_at = time.monotonic()
        try:
            for line in self._decoder.feed(data):
                self.lines.append(parse_shim_line(line.rstrip(b"\n")))
        except TellwireError as error:
            self._on_garbage(error)
            return
        if len(self.lines) > LINES_MAX and self._transport is not None:
            self._transport.pause_reading()
        self.arrived.set()

    def eof_received(self) -> bool:
        """The client is going: what it asked is still answered."""
        self.said_goodbye = True
        self.leave()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The shim is gone, or its connection is."""
        del exc
        self._transport, self.writable = None, False
        self._on_lost()

    def leave(self) -> None:
        """No more lines: answer what is open, held calls at once."""
        self.leaving = True
        self._on_leave()
        self.arrived.set()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read."""
        self.writable = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again: read from it, too."""
        self.writable = True
        self._go_on()

    def _go_on(self) -> None:
        if self._transport is not None and self.writable and len(self.lines) <= LINES_MAX:
            self._transport.resume_reading()

    async def next_line(self) -> ShimLine | None:
        """The next line of the client; None at its end."""
        while not self.lines:
            if self.leaving:
                return None
            self.arrived.clear()
            await self.arrived.wait()
        line = self.lines.popleft()
        if len(self.lines) == LINES_MAX:
            self._go_on()
        return line

    def write(self, data: bytes) -> None:
        """Send bytes, if the connection is still there."""
        if self._transport is not None:
            self._transport.write(data)

    def drop(self) -> None:
        """Close the connection; a shim that lives comes back."""
        if self._transport is not None:
            self._transport.close()


class ShimOrigin:
    """Where a shim runs: the client that started it, and whether an agent is behind that."""

    def __init__(self, mesh: SessionMesh, origins: Origins, pid: int, times: ShimTimes) -> None:
        self._mesh = mesh
        self._origins = origins
        self._times = times
        self._chain = ancestry(pid)
        self.client = client_of(self._chain)
        self.process = self._chain[0].key if self._chain else ""
        self.owner = "" if self.client is None else self.client.key
        """The client's process."""

    @cached_property
    def _runs_many(self) -> bool:
        """Whether the client has many conversations in one process."""
        return self.client is not None and runs_many(self.client.pid)

    @property
    def _from_client(self) -> list[Process]:
        """The client and the processes above it; empty if it is unknown."""
        return [] if self.client is None else self._chain[self._chain.index(self.client) :]

    def caller(self) -> Caller:
        """Who speaks here before the session has joined."""
        above = child_above(self._mesh.state, self._chain)
        return Caller(kind=SCRIPT, process=self.process, owner=self.owner, ancestor=above)

    def note(self, agent: str) -> None:
        """The client is this agent from now on."""
        self._origins.note(agent)

    def find_seat(self, folder: str, variable: str) -> Seat:
        """Where the client is; `variable` is the environment variable that tells which conversation."""
        return Seat(
            folder=folder,
            pane=UNKNOWN_PANE if self._runs_many else pane_in(self._from_client),
            conversation=read_variable(pid_in(self.process), variable) if variable else "",
        )

    async def is_beneath(self, own: str, *, named: bool) -> bool:
        """Whether an agent began the client, may have, or runs this as a second shim of its own."""
        known = self._origins.known()
        over = self._from_client[1:] if self.client is not None else self._chain[1:]
        if any(each.key in known.owners or each.key in known.disowned for each in over):
            return True
        if self._runs_many:
            return False  # it is nobody's child, and has many conversations
        if self.first_agent(own) is not None:
            return True
        if not needs_tmux(self._chain):
            return self._origins.is_adrift(self._chain, known)
        if not named:
            return False  # who is in a pane goes on as who was there, whether or not a person looks
        try:
            look = partial(self._origins.is_adrift, self._chain, known)
            return await in_thread(look, within_s=self._times.judge_s)
        except TimeoutError:
            return True

    def first_agent(self, own: str) -> Agent | None:
        """The agent of the client that joined first, but not our `own`; None if it has many conversations."""
        if self.client is None or self._runs_many:
            return None
        agents = self._mesh.state.agents.values()
        others = (each for each in agents if each.owner == self.owner and each.online and each.id != own)
        return min(others, key=lambda each: each.connected_at, default=None)

    def is_running(self) -> bool:
        """Whether the client's process runs, and is not stopped."""
        if self.client is None:
            return False
        now = read_process(self.client.pid)
        return now is not None and now.start == self.client.start and now.state not in ("T", "t", "Z")


class FetchEvidence:
    """What one session's calls handed out, and what its later calls prove that the model has read."""

    def __init__(self, hello: ShimHello) -> None:
        self._open = set(hello.open)
        self._unwritten = hello.unwritten
        self._fetched: dict[int, FetchedCall] = {}
        self.written: set[int] = set()
        """The lines whose answers the shim has written into the client's pipe."""
        self.recalled: dict[str, tuple[int, str]] = {}
        """Of calls on an earlier connection: from the client's id to the number and the id of the lease."""
        self.read_at: float | None = None
        """When a later call last proved that mail was read."""

    def recall(self, agent: Agent) -> None:
        """Take up what this session had fetched before its connection broke."""
        for call in agent.calls:
            head, _, asked = call.partition(":")
            if not head.isdigit():
                continue  # a hook's, which the transcript judges
            number = int(head)
            self.recalled[asked] = number, call
            if number not in self._open:
                self._fetched[number] = FetchedCall(call, [], None)
                if number not in self._unwritten:
                    self.written.add(number)

    def add(self, number: int, fetched: FetchedCall) -> None:
        """Note that call `number` hands messages out."""
        self._fetched[number] = fetched

    def ids_of(self, number: int) -> list[str]:
        """The messages that a call handed out, if there is no evidence yet."""
        fetched = self._fetched.get(number)
        return [] if fetched is None else fetched.ids

    def proved_by(self, number: int, conversation: str) -> list[str]:
        """The calls that a tool call proves as read: those written before it, in the same conversation."""
        if number in self._open:
            return []  # sent again: it may be older than what it would prove
        read = [
            done
            for done, fetched in self._fetched.items()
            if done in self.written and fetched.conversation in (None, conversation)
        ]
        calls = [self._fetched.pop(done).call for done in read]
        self.written.intersection_update(self._fetched)
        return calls

    def drop(self, number: int) -> None:
        """The client will not look at the answer to call `number`."""
        self._fetched.pop(number, None)


class MailNews:
    """Wakes the calls of one session that are held until mail comes."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self.count = 0
        """How often mail was announced: what `wait` compares with."""

    def __bool__(self) -> bool:
        """Whether a call is held."""
        return bool(self._waiters)

    def announce(self) -> None:
        """Count new mail, and wake the held calls."""
        self.count += 1
        self.wake()

    def wake(self) -> None:
        """Wake the held calls, so that they check again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, count: int, timeout_s: float) -> bool:
        """Wait until mail has come since the count was `count`; False when the time is up."""
        if self.count != count:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True


class ShimSession:
    """One shim; a `Source` of commands for the engine. It holds no rules, only what it has seen."""

    def __init__(
        self,
        mesh: SessionMesh,
        origins: Origins,
        hello: ShimHello,
        visit: Visit,
        *,
        judge: EvidenceJudge,
        times: ShimTimes,
        on_lost: Callable[[ShimSession], None],
    ) -> None:
        self.mesh = mesh
        self.judge = judge
        self.hello = hello
        self.times = times
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = 0
        self._bucket = Bucket(mesh.limits.sends_per_s_max, mesh.limits.sends_per_s_max, 0.0)
        self._usual = ""  # the name to bear if no other belongs to it
        self.origin = ShimOrigin(mesh, origins, visit.pid, times)
        self.evidence = FetchEvidence(hello)
        self.news = MailNews()
        self.connection = ShimConnection(
            visit.transport,
            on_leave=self.news.wake,
            on_lost=partial(self._lost, on_lost),
            on_garbage=self.dismiss,
        )
        self.group = group_of(hello.cwd)
        self.caller = self._nobody = self.origin.caller()

    async def sit(self, usual: str, variable: str, *, named: bool, chosen: bool) -> None:
        """Find out where the client is, before it joins; `variable` tells which conversation, if it does."""
        self._usual = usual
        own = self.caller.agent if self.caller.is_own_client else ""
        beneath = await self.origin.is_beneath(own, named=named)
        seat = self.origin.find_seat(self.hello.cwd, variable)
        seat = msgspec.structs.replace(seat, beneath=beneath, named=named, chosen=chosen)
        self._nobody = msgspec.structs.replace(self._nobody, seat=seat)
        self.caller = msgspec.structs.replace(self.caller, seat=seat)

    async def place(self, conversation: str, pane: str = "") -> Registered | Done:
        """The session is this conversation of its client, in this pane: be who that is.

        Raises:
            TellwireError: it cannot be noted now.
        """
        if not self.connection.is_open:
            raise TellwireError("stopping", "The connection is closing.")
        return await self._submit(PlaceSession(conversation, self._usual, pane))

    def begin(self, data: bytes) -> None:
        """Greet, and take what came behind the shim's greeting."""
        self.mesh.clock.read()
        self.connection.begin(format_shim_welcome(self.mesh.clock.awake), data)

    def _lost(self, on_lost: Callable[[ShimSession], None]) -> None:
        for future in self._asked.values():
            future.cancel()
        self._asked.clear()
        self.connection.leave()
        on_lost(self)

    async def next_line(self) -> ShimLine | None:
        """The next line of the client; None at its end."""
        line = await self.connection.next_line()
        if line is not None:
            self.evidence.written.update(line.written)
        return line

    def say(self, number: int, text: bytes = b"", *, keep: bool = False, ends: bool = False) -> None:
        """Answer line `number`, or with 0 say something of our own; it may be the last thing that is said."""
        self.connection.write(format_shim_answer(number, text, END if ends else KEEP if keep else DONE))
        ids = self.evidence.ids_of(number)
        if ids and self.caller.is_own_client:
            self.mesh.delivery.claim(self.mesh.state, self.caller.agent, ids)

    # -- asking the broker ----------------------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent this session is, once it has joined."""
        return self.mesh.state.agents.get(self.caller.agent) if self.caller.is_own_client else None

    def known(self) -> Agent | None:
        """The agent that this instance was before its connection broke."""
        agents = self.mesh.state.agents.values()
        return next((each for each in agents if each.session == self.hello.instance), None)

    def id_of(self, name: str) -> str:
        """An agent's address by its id, for records that show ids where we use names."""
        found = self.mesh.state.reach(name)
        return name if found is None else f"{ID}{found.id}"

    async def ask(self, operation: Operation[Any]) -> Any:
        """Have an operation carried out.

        Raises:
            TellwireError: it was refused.
        """
        if not self.connection.is_open:
            raise TellwireError("stopping", "The connection is closing.")
        if isinstance(operation, SendMessage) and not self._bucket.take(time.monotonic()):
            raise TellwireError("rate_limited", "Too many sends in one second.")
        return await self._submit(operation)  # pyright: ignore[reportArgumentType]  # of the table

    def _submit(self, command: Command) -> asyncio.Future[Any]:
        self._numbers += 1
        future = self._asked[self._numbers] = asyncio.get_running_loop().create_future()
        self.mesh.submit(self, self._numbers, command)
        return future

    # -- evidence -------------------------------------------------------------------------------------

    def note_fetch(self, number: int, call: str, ids: list[str], conversation: str) -> None:
        """Call `number` hands these messages out."""
        framed = self.hello.dialect == "tellwire"
        if framed and self.judge.adopt(self.caller.agent, call, ids):
            return  # the client's transcript is better evidence than its next call
        self.evidence.add(number, FetchedCall(call, ids, conversation))

    def note_call(self, number: int, conversation: str) -> None:
        """A tool call came: what was written before it, in the same conversation, has been read."""
        calls = self.evidence.proved_by(number, conversation)
        if calls and self.caller.is_own_client:
            self.evidence.read_at = time.time()
            self.mesh.submit_own(NoteEvidence(self.caller.agent, self.hello.instance, calls, "next_call"))

    def give_back(self, number: int, call: str) -> asyncio.Future[Any] | None:
        """The client will not look at the answer to `number`: what it fetched waits again, once on disk."""
        # At once, not in a task: the next line may be a call, and would pass for evidence.
        self.evidence.drop(number)
        lease = ReturnLease(self.caller.agent, self.hello.instance, call)
        return self._submit(lease) if self.caller.is_own_client else None

    # -- a source of commands -------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether the client reads what it is sent."""
        return self.connection.writable

    @property
    def last_seen(self) -> float:
        """When the client last showed life: that it runs and is not stopped is enough."""
        connection, now = self.connection, time.monotonic()
        is_quiet = now - connection.seen_at > self.times.fresh_s
        if is_quiet and connection.is_open and self.origin.is_running():
            connection.seen_at = now
        return connection.seen_at

    def answer(self, n: int, reply: Reply) -> None:
        """The engine's answer to one of our questions."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """The engine's refusal of one of our questions."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Nothing is pushed to a session that fetches."""

    def mail(self, waiting: int) -> None:
        """Wake the calls that are waiting for mail."""
        del waiting
        self.news.announce()
        self.judge.mail(self.caller.agent)

    def flush(self) -> None:
        """Answers go to those who wait for them; nothing is written here."""

    def attach(self, agent: str, *, is_own_client: bool) -> None:
        """From now on this session is `agent`."""
        self.caller = self._nobody.speaking_as(agent, is_own_client=is_own_client)
        if is_own_client:
            self.origin.note(agent)

    def detach(self) -> None:
        """Detach from the agent until the session joins again."""
        self.caller = self._nobody

    def dismiss(self, error: TellwireError) -> None:
        """Close; for a broker that stops, tell the shim to wait for the next one."""
        if error.code == "stopping":
            self.connection.write(STOPPING)
            self.connection.leave()
        else:
            self.connection.drop()


def client_of(chain: list[Process]) -> Process | None:
    """The program that started the shim; a shell that only runs its command line is not it.

    Nor is `init`, or another that adopts, which a shim has for a parent when its client is gone: everybody is
    beneath that.
    """
    for process in chain[1:]:
        if process.pid == INIT or process.name in REAPERS:
            return None
        if not is_wrapper(process.pid):
            return process
    return None


def is_wrapper(pid: int) -> bool:
    """Whether this is a shell that runs one command for somebody else."""
    words = cmdline(pid)
    return bool(words) and words[0].rpartition("/")[2] in SHELLS and "-c" in words[1:3]
