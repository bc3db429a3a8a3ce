"""A running session of a client: what its wakers and threads may ask, and what is asked of them."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tellwire.broker.ports import Source
from tellwire.clients.events import HookEvent
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.system.processes import pid_in

NAMED = "daemon"
"""How the id of a hand-over begins that goes into a client's queue under a name of its own."""
PROBE = "tellwire/thread"
"""In the metadata of a call that tellwire itself has a client make, to learn whose thread this is."""
QUEUE_NAME = "tellwire.queue:"
"""How that name begins."""


class FetchedText(NamedTuple):
    """Mail as text for a model, and the call that it was leased to."""

    text: str = ""
    call: str = ""
    line: str = ""
    """For the human: the sender and the beginning of the text."""


class OpenLease(Protocol):
    """Messages that were handed over, without evidence yet."""

    @property
    def channel(self) -> str:
        """What carries them into the client."""
        ...

    @property
    def at(self) -> float:
        """Since when, in seconds of the wall clock."""
        ...


class WakeableSession(Protocol):
    """A client's session, as far as waking it needs to know."""

    @property
    def agent(self) -> str:
        """The id of the agent whose session it is."""
        ...

    @property
    def conversation(self) -> str:
        """The client's id of the conversation; empty if none is known."""
        ...

    @property
    def was_interrupted(self) -> bool:
        """Whether its human stopped the last turn."""
        ...

    @property
    def interrupted_at(self) -> float:
        """When its human stopped the last turn; 0 if not."""
        ...

    @property
    def is_wakeable(self) -> bool:
        """Whether no turn is running, so that a wake can start one."""
        ...

    @property
    def open(self) -> Mapping[str, OpenLease]:
        """What it was given and has not shown yet, by the call."""
        ...


class McpSession(Protocol):
    """An MCP session of a client: it is the agent."""

    @property
    def source(self) -> Source:
        """Its connection, by which it asks the engine."""
        ...

    @property
    def agent(self) -> Agent | None:
        """The agent that it is now."""
        ...

    @property
    def owner(self) -> str:
        """The client's process."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether its connection has ended."""
        ...

    def ensure(self) -> Awaitable[Agent]:
        """Be an agent: the one it was, or a new one."""
        ...


class SessionPort(Protocol):
    """What the sessions of a client may ask of those who serve them."""

    def agents(self) -> Iterable[Agent]:
        """The agents of the mesh."""
        ...

    def activity(self, agent: str, /) -> str:
        """What an agent is doing, as far as its client reports."""
        ...

    def run(self, work: Coroutine[Any, Any, None], /) -> None:
        """Run something in the background."""
        ...

    def joined(self, agent: str, /) -> None:
        """Handle that an agent has joined."""
        ...

    def mail(self, agent: str, /) -> None:
        """Handle that mail waits for an agent."""
        ...

    async def place(self, agent: Agent, conversation: str, pane: str, /) -> Agent:
        """A session is this conversation, in this pane."""
        ...

    def pane_of_socket(self, inode: str, /) -> str:
        """The pane of the process that holds a socket; empty if it has none. Blocks for a moment."""
        ...

    def meet(self, client: str, payload: Mapping[str, Any], processes: list[str], since: float, /) -> None:
        """A session is open, as a hook would have reported it."""
        ...

    async def settle(self, agent: str, /) -> None:
        """A session is over: judge for the last time what it was given."""
        ...

    def end_session(self, shim: McpSession, agent: Agent, /) -> None:
        """The terminal of a session is gone: end the session."""
        ...

    def session_of(self, agent: str, /) -> WakeableSession | None:
        """The session of an agent, if one is known."""
        ...

    async def fetch_to_wake(self, session: Any, channel: str, path: str, /) -> FetchedText:
        """What waits for an agent that is idle, on a lease, as text for its model."""
        ...

    def give_back(self, session: Any, call: str, /) -> None:
        """Return a lease whose text did not reach the client."""
        ...

    def seek_marks(self, session: Any, call: str, /) -> None:
        """The client does not tell the name of a hand-over: look for its text."""
        ...


class Waker(Protocol):
    """Wakes clients of one kind by one path."""

    async def wake(self, session: Any, agent: Agent, /) -> bool:
        """Start a turn that delivers waiting mail; False if that is not possible now."""
        ...

    def path_of(self, agent: Agent, /) -> PathRecord | None:
        """Whether it is open now, for people; None if this agent's client has no such path."""
        ...


@runtime_checkable
class Queue(Protocol):
    """A waker that puts texts into a client's queue, and can look into it."""

    async def look_after(self, session: Any, /) -> None:
        """See to it that what was queued is taken up, or is given back."""
        ...


class Doors(NamedTuple):
    """Wakers that serve every kind of client."""

    waiter: Waker
    """A program that waits in the background for mail."""
    plugin: Waker
    """The poll of a plugin of ours."""
    typing: Waker
    """A line typed into its terminal."""


class ClientThreads(Protocol):
    """Of a client whose process runs the sessions of several terminals: whose each of them is."""

    def joined(self, shim: McpSession, /) -> None:
        """A session has joined."""
        ...

    def bind_thread(self, shim: McpSession, thread: str, /) -> None:
        """Note that a session serves this conversation."""
        ...

    def agent_of(self, thread: str, /) -> Agent | None:
        """The agent that a conversation is, if that is known for certain."""
        ...

    async def expect(self, event: HookEvent, processes: list[str], /) -> None:
        """A hook has come, with these processes above it: know whose it is, and have its agent be there."""
        ...


def runs_one(pid: int) -> bool:
    """Of a client whose process is one session."""
    del pid
    return False


def by_typing(port: SessionPort, doors: Doors, threads: ClientThreads | None) -> list[Waker]:
    """Of a client that can only be typed to."""
    del port, threads
    return [doors.typing]


def by_plugin(port: SessionPort, doors: Doors, threads: ClientThreads | None) -> list[Waker]:
    """Of a client with a plugin of ours."""
    del port, threads
    return [doors.plugin, doors.typing]


def name_of(agent: Agent, call: str) -> str:
    """The name under which a hand-over goes into its client, if it has one: no other ever has the same."""
    return f"{QUEUE_NAME}{agent.session}:{call}" if call.startswith(f"{NAMED}:") else ""


def pid_of(agent: Agent) -> int:
    """The number of the process that is the agent; 0 if none is known."""
    return pid_in(agent.owner)
