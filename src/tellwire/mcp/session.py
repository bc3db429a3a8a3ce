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
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from tellwire.broker.labels import Labels
from tellwire.broker.origins import Origins, needs_tmux
from tellwire.broker.ports import SessionMesh
from tellwire.broker.server import Visit
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
from tellwire.system.terminals import pane_of
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
    """How long a broker that stops waits for calls under way to be answered."""
    farewell_s: float = 3.0
    """How long what is open may take to be answered when the client ends."""
    fresh_s: float = 5.0
    """A client that said nothing for so long is looked at."""
    judge_s: float = 2.0
    """How long tmux is waited for when it has to tell who looks at a client."""
    beat_s: float = 5.0
    """Between two signs of progress of a call that is held."""
    request_s: float = 45.0
    """How long the deprecated blocking request is held; some clients give a call up after a minute."""


class Fetched(NamedTuple):
    """One call that handed messages out, until there is evidence."""

    call: str
    ids: list[str]
    conversation: str | None
    """None: not known any more, any call will do."""


class Judge(Protocol):
    """Who looks at the transcripts of clients that have hooks."""

    labels: Labels

    def adopt(self, agent: str, call: str, ids: list[str]) -> bool:
        """Whether it judges what a call hands out."""
        ...

    def brings(self, agent: str) -> bool:
        """Whether hooks bring mail into the turn that an agent is in."""
        ...

    def mail(self, agent: str) -> None:
        """Mail waits for an agent."""
        ...

    async def settle(self, agent: str) -> None:
        """Judge for the last time what an agent's session was given."""
        ...


class ShimSession(asyncio.Protocol):
    """One shim; a `Source` of commands for the engine. It holds no rules, only what it has seen."""

    def __init__(
        self,
        mesh: SessionMesh,
        origins: Origins,
        hello: ShimHello,
        visit: Visit,
        *,
        judge: Judge,
        times: ShimTimes,
        on_lost: Callable[[ShimSession], None],
    ) -> None:
        self._mesh = mesh
        self._origins, limits = origins, mesh.limits
        self.judge = judge
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = visit.transport
        self._decoder = LineDecoder(LINE_BYTES_MAX)
        self._numbers = 0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._bucket = Bucket(limits.sends_per_s_max, limits.sends_per_s_max, 0.0)
        self._last_seen = time.monotonic()
        self._mails = 0
        self.waiters: set[asyncio.Future[None]] = set()
        self._open = set(hello.open)
        self._written: set[int] = set()
        self._fetched: dict[int, Fetched] = {}
        self.recalled: dict[str, tuple[int, str]] = {}
        """Of calls on an earlier connection: from the client's id to the number and the call's word."""
        self.hello = hello
        self.limits = limits
        self.times = times
        self.instance = hello.instance
        self.lines: deque[ShimLine] = deque()
        self.arrived = asyncio.Event()
        """Set when there are lines, or there will be none any more."""
        self.leaving = False  # the client has closed its end: answer what is open and go
        self.said_goodbye = False
        self.read_at: float | None = None  # when a later call last proved that mail was read
        chain = ancestry(visit.pid)
        self._client = client = client_of(chain)
        self.process = chain[0].key if chain else ""
        self.group = group_of(hello.cwd)
        self.writable = True
        above, owner = child_above(mesh.state, chain), "" if client is None else client.key
        self._usual = ""  # the name to bear if no other belongs to it
        self._chain = chain
        self.caller = self._nobody = Caller(kind=SCRIPT, process=self.process, owner=owner, above=above)

    async def sit(self, usual: str, variable: str, *, named: bool, chosen: bool) -> None:
        """Find out where the client is, before it joins; `variable` tells which conversation, if it does."""
        self._usual = usual
        owner = self._nobody.owner
        pid = pid_in(self.process)
        seat = Seat(
            folder=self.hello.cwd,
            pane=UNKNOWN_PANE if self._client and runs_many(self._client.pid) else pane_of(owner),
            conversation=read_variable(pid, variable) if variable else "",
            beneath=await self._is_beneath(named=named),
            named=named,
            chosen=chosen,
        )
        self._nobody = msgspec.structs.replace(self._nobody, seat=seat)
        self.caller = msgspec.structs.replace(self.caller, seat=seat)

    async def _is_beneath(self, *, named: bool) -> bool:
        """Whether an agent began the client, may have, or runs this as a second shim of its own."""
        client, known = self._client, self._origins.known()
        over = self._chain[self._chain.index(client) + 1 :] if client is not None else self._chain[1:]
        if any(each.key in known.owners or each.key in known.disowned for each in over):
            return True
        if client is not None and runs_many(client.pid):
            return False  # it is nobody's child, and has many conversations
        if self.first_of_client() is not None:
            return True
        if not needs_tmux(self._chain):
            return self._origins.is_adrift(self._chain, known)
        if not named:
            return False  # who is in a pane goes on as who was there, whether or not a person looks
        try:
            look = partial(self._origins.is_adrift, self._chain, known)
            return await in_thread(look, within_s=self.times.judge_s)
        except TimeoutError:
            return True

    async def place(self, conversation: str, pane: str = "") -> Registered | Done:
        """The session is this conversation of its client, in this pane: be who that is.

        Raises:
            TellwireError: it cannot be noted now.
        """
        if self._transport is None:
            raise TellwireError("stopping", "The connection is closing.")
        return await self._submit(PlaceSession(conversation, self._usual, pane))

    def begin(self, data: bytes) -> None:
        """Greet, and take what came behind the shim's greeting."""
        self._mesh.clock.read()
        self._write(format_shim_welcome(self._mesh.clock.awake))
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if data:
            self.data_received(data)

    # -- the connection -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Cut the bytes into lines; they are served in order."""
        self._last_seen = time.monotonic()
        try:
            for line in self._decoder.feed(data):
                self.lines.append(parse_shim_line(line.rstrip(b"\n")))
        except TellwireError as error:
            self.dismiss(error)
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
        for future in self._asked.values():
            future.cancel()
        self._asked.clear()
        self.leave()
        self._on_lost(self)

    def leave(self) -> None:
        """No more lines: answer what is open, held calls at once."""
        self.leaving = True
        self._wake()
        self.arrived.set()

    def _wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read."""
        self.writable = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
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
        self._written.update(line.written)
        return line

    def say(self, number: int, text: bytes = b"", *, keep: bool = False, ends: bool = False) -> None:
        """Answer line `number`, or with 0 say something of our own; it may be the last thing that is said."""
        self._write(format_shim_answer(number, text, END if ends else KEEP if keep else DONE))
        fetched = self._fetched.get(number)
        if fetched is not None and self.caller.holds:
            self._mesh.delivery.claim(self._mesh.state, self.caller.agent, fetched.ids)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def drop(self) -> None:
        """Close the connection; a shim that lives comes back."""
        if self._transport is not None:
            self._transport.close()

    # -- asking the broker ----------------------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent this session is, once it has joined."""
        return self._mesh.state.agents.get(self.caller.agent) if self.caller.holds else None

    def tell_label(self, *, shown: bool) -> str:
        """The word that ends peers' messages in this session, for its instructions; empty if there is none.

        `shown`: the client puts them before its model, so that the rule is known from now on.
        """
        agent = self.agent
        if agent is None:
            return ""
        if self.hello.alone:
            self.judge.labels.forget(agent.id)  # what is told here reaches nobody
        elif shown:
            self.judge.labels.tell(agent)
        return self.judge.labels.word(agent)

    @property
    def gets_mail_by_itself(self) -> bool:
        """Whether nobody has to fetch: hooks of the client bring what comes into this very turn."""
        return self.caller.holds and self.judge.brings(self.caller.agent)

    @property
    def dialect(self) -> str:
        """The set of tool names that its client uses."""
        return self.hello.dialect

    @property
    def spoken_for(self) -> Agent | None:
        """The agent in whose name this session speaks, its own or not."""
        return self._mesh.state.agents.get(self.caller.agent)

    def known(self) -> Agent | None:
        """The agent that this instance was before its connection broke."""
        return next(
            (each for each in self._mesh.state.agents.values() if each.session == self.instance), None
        )

    def first_of_client(self) -> Agent | None:
        """The agent of the client's process that joined first, if that process has one main conversation."""
        owner, agents = self._nobody.owner, self._mesh.state.agents.values()
        if self._client is None or runs_many(self._client.pid):
            return None
        own = self.caller.agent if self.caller.holds else ""
        others = (each for each in agents if each.owner == owner and each.online and each.id != own)
        return min(others, key=lambda each: each.connected_at, default=None) if owner else None

    def id_of(self, name: str) -> str:
        """An agent's address by its id, for records that show ids where we use names."""
        found = self._mesh.state.reach(name)
        return name if found is None else f"{ID}{found.id}"

    @property
    def awake(self) -> float:
        """The clock of a line's birth, in seconds."""
        return self._mesh.clock.awake

    @property
    def now(self) -> float:
        """The broker's time."""
        return self._mesh.state.now

    async def ask(self, operation: Operation[Any]) -> Any:
        """Have an operation carried out.

        Raises:
            TellwireError: it was refused.
        """
        if self._transport is None:
            raise TellwireError("stopping", "The connection is closing.")
        if isinstance(operation, SendMessage) and not self._bucket.take(time.monotonic()):
            raise TellwireError("rate_limited", "Too many sends in one second.")
        return await self._submit(operation)  # pyright: ignore[reportArgumentType]  # of the table

    def _submit(self, command: Command) -> asyncio.Future[Any]:
        self._numbers += 1
        future = self._asked[self._numbers] = asyncio.get_running_loop().create_future()
        self._mesh.submit(self, self._numbers, command)
        return future

    @property
    def mails(self) -> int:
        """How often mail has been told of: what `news` compares with."""
        return self._mails

    async def news(self, mails: int, timeout_s: float) -> bool:
        """Wait until mail has come since the count was `mails`; False when the time is up."""
        if self._mails == mails and not self.leaving:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.add(waiter)
            try:
                async with asyncio.timeout(timeout_s):
                    await waiter
            except TimeoutError:
                return False
            finally:
                self.waiters.discard(waiter)
        return not self.leaving

    # -- evidence -------------------------------------------------------------------------------------

    def recall(self, agent: Agent) -> None:
        """Take up what this session had fetched before its connection broke."""
        for word in agent.calls:
            head, _, asked = word.partition(":")
            if not head.isdigit():
                continue  # a hook's, which the transcript judges
            number = int(head)
            self.recalled[asked] = number, word
            if number not in self._open:
                self._fetched[number] = Fetched(word, [], None)
                if number not in self.hello.unwritten:
                    self._written.add(number)

    def note_fetch(self, number: int, call: str, ids: list[str], conversation: str) -> None:
        """Call `number` hands these messages out."""
        framed = self.hello.dialect == "tellwire"
        if framed and self.judge.adopt(self.caller.agent, call, ids):
            return  # the client's transcript is better evidence than its next call
        self._fetched[number] = Fetched(call, ids, conversation)

    def note_call(self, number: int, conversation: str) -> None:
        """A tool call came: what was written before it, in the same conversation, has been read."""
        if number in self._open:
            return  # sent again: it may be older than what it would prove
        read = [
            done
            for done, fetched in self._fetched.items()
            if done in self._written and fetched.conversation in (None, conversation)
        ]
        calls = [self._fetched.pop(done).call for done in read]
        self._written.intersection_update(self._fetched)
        if calls and self.caller.holds:
            self.read_at = time.time()
            self._mesh.submit_own(NoteEvidence(self.caller.agent, self.instance, calls, "next_call"))

    def give_back(self, number: int, call: str) -> asyncio.Future[Any] | None:
        """The client will not look at the answer to `number`: what it fetched waits again, once on disk."""
        # At once, not in a task: the next line may be a call, and would pass for evidence.
        self._fetched.pop(number, None)
        lease = ReturnLease(self.caller.agent, self.instance, call)
        return self._submit(lease) if self.caller.holds else None

    # -- a source of commands -------------------------------------------------------------------------

    @property
    def last_seen(self) -> float:
        """When the client last showed life: that it runs and is not stopped is enough."""
        now = time.monotonic()
        if now - self._last_seen > self.times.fresh_s and self._transport is not None:
            client = None if self._client is None else read_process(self._client.pid)
            if (
                client is not None
                and client.start == self._client_start()
                and client.state not in ("T", "t", "Z")
            ):
                self._last_seen = now
        return self._last_seen

    def _client_start(self) -> str:
        return "" if self._client is None else self._client.start

    def answer(self, n: int, reply: Reply) -> None:
        """The engine's answer to one of our questions."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """The engine's refusal."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Nothing is pushed to a session that fetches."""

    def mail(self, waiting: int) -> None:
        """Wake the calls that are waiting for mail."""
        del waiting
        self._mails += 1
        self._wake()
        self.judge.mail(self.caller.agent)

    def flush(self) -> None:
        """Answers go to those who wait for them; nothing is written here."""

    def attach(self, agent: str, *, holds: bool) -> None:
        """From now on this session is `agent`."""
        self.caller = self._nobody.speaking_as(agent, holds=holds)
        if holds:
            self._origins.note(agent)

    def detach(self) -> None:
        """Detach from the agent until the session joins again."""
        self.caller = self._nobody

    def dismiss(self, error: TellwireError) -> None:
        """Close; for a broker that stops, tell the shim to wait for the next one."""
        if error.code == "stopping":
            self._write(STOPPING)
            self.leave()
        else:
            self.drop()


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
