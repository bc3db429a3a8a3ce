"""Whose hook it is: by the processes above it, by the client's session, or by the folder it works in.

And who that session is from then on: `Placement`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec.structs import astuple

from tellwire.broker.ports import Deliveries, MeshView
from tellwire.clients import runs_many
from tellwire.clients.client import Client
from tellwire.clients.events import HookEvent
from tellwire.clients.ports import ClientThreads, McpSession, SessionPort, pid_of
from tellwire.core.agents.seats import is_seated
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import Registered
from tellwire.protocol.operations.base import Reply
from tellwire.system.processes import is_alive, pid_in, started_at

log = logging.getLogger("tellwire.hooks")

SESSIONS_MAX = 10_000
CHARS_MAX = 16 << 20
"""Of all that hooks have reported of sessions; a prompt or an answer may have a million."""
EARLY_S = 0.5
"""A shim that started this much earlier than a conversation does not serve it; the slack covers clock
differences.
"""
_BOUNDS = ("session_started", "turn_ended", "errored", "interrupted", "session_ended")
"""Events after which no turn is in progress."""


class Seen(NamedTuple):
    """What is known of one session of a client."""

    processes: list[str]
    """The processes above its hooks."""
    event: HookEvent
    """The last hook."""
    prompt: HookEvent | None
    """What began the turn under way."""

    @property
    def chars(self) -> int:
        """The length of all its texts."""
        events = (self.event,) if self.prompt is None else (self.event, self.prompt)
        return sum(len(part) for event in events for part in astuple(event) if isinstance(part, str))


class AllThreads:
    """The threads of all clients whose process may run many sessions."""

    def __init__(self, clients: Mapping[str, Client], port: SessionPort) -> None:
        self._port = port
        self._all: dict[str, ClientThreads] = {
            kind: client.threads(port) for kind, client in clients.items() if client.threads is not None
        }

    def of(self, kind: str) -> ClientThreads | None:
        """Those of one client; None if each of its processes is one session."""
        return self._all.get(kind)

    def joined(self, session: McpSession) -> None:
        """A session has joined: its agent is there, and may be a thread of its client."""
        if session.agent is not None:
            self._port.joined(session.agent.id)
        for threads in self._all.values():
            threads.joined(session)

    def bind_thread(self, session: McpSession, thread: str) -> None:
        """A session serves this conversation."""
        for threads in self._all.values():
            threads.bind_thread(session, thread)

    def agent_of(self, thread: str) -> Agent | None:
        """The agent that a conversation is, if that is known for certain."""
        found = (threads.agent_of(thread) for threads in self._all.values())
        return next((agent for agent in found if agent is not None), None)


class HookOwners:
    """The sessions of all clients, and the processes above their hooks."""

    def __init__(
        self,
        mesh: MeshView,
        clients: Mapping[str, Client],
        port: SessionPort,
        *,
        owner_above: Callable[[list[str]], str],
    ) -> None:
        self._mesh = mesh
        self._owner_above = owner_above
        self._clients = clients
        self._sessions: OrderedDict[tuple[str, str], Seen] = OrderedDict()
        """Ordered by the last hook, newest last."""
        self._chars = 0
        self.threads = AllThreads(clients, port)

    def note(self, client: str, event: HookEvent, processes: list[str] | None) -> None:
        """A hook came, with these processes above it if they are known."""
        if not event.session or event.subagent:
            return
        before = self._drop((client, event.session)) or Seen([], event, None)
        prompt = None if event.what in _BOUNDS else before.prompt
        if event.what == "prompt":
            prompt = event
        seen = Seen(before.processes if processes is None else processes, event, prompt)
        self._sessions[client, event.session] = seen
        self._chars += seen.chars
        while len(self._sessions) > SESSIONS_MAX or (self._chars > CHARS_MAX and len(self._sessions) > 1):
            _, oldest = self._sessions.popitem(last=False)
            self._chars -= oldest.chars

    def _drop(self, key: tuple[str, str]) -> Seen | None:
        """Forget a session; its next hook makes it known again."""
        seen = self._sessions.pop(key, None)
        if seen is not None:
            self._chars -= seen.chars
        return seen

    def meet(self, client: str, event: HookEvent, processes: list[str]) -> None:
        """A process says which session is its own, and what began there; hooks count for more."""
        known = self._sessions.get((client, event.session))
        if known is None:
            self.note(client, event, processes)
        elif not known.processes:
            self._sessions[client, event.session] = known._replace(processes=processes)

    def missed(self, client: str, event: HookEvent) -> HookEvent | None:
        """The prompt of the turn that an event belongs to, if it came before the agent was known."""
        seen = self._sessions.get((client, event.session))
        return None if seen is None or event.what == "prompt" else seen.prompt

    async def find(self, client: str, event: HookEvent, bound: Mapping[str, str]) -> Agent | None:
        """As `agent_of`; a process that has many sessions is asked first whose this one is."""
        seen = self._sessions.get((client, event.session))
        threads = self.threads.of(client)
        if threads is not None and seen is not None and not event.subagent:
            await threads.expect(event, seen.processes)
        return self.agent_of(client, event, bound)

    def agent_of(self, client: str, event: HookEvent, bound: Mapping[str, str]) -> Agent | None:
        """The agent that a hook's session belongs to; `bound` are the agents whose session is known."""
        threads = self.threads.of(client)
        seen = self._sessions.get((client, event.session))
        processes = [] if seen is None else seen.processes
        above = self._above(processes)
        if threads is not None and (certain := threads.agent_of(event.session)) is not None:
            return certain if _may_have(certain, processes) else None
        if threads is None and len(above) == 1:
            return above[0]  # a process is certain; a session may have been taken for a neighbour's
        for name, session in bound.items():
            agent = self._mesh.state.agents.get(name)
            if session == event.session and agent is not None:
                return agent if _may_have(agent, processes) else None
        for agent in self._mesh.state.agents.values():
            if agent.online and event.session and is_seated(agent, event.session):
                return agent if _may_have(agent, processes) else None
        if above:
            return _choose(above, event, bound)
        if any(runs_many(pid_in(process)) for process in processes):
            return None  # of a session whose agent has left; others that are near are not it
        # After a restart of the broker the client's start hook does not come again.
        kind = self._clients[client].kind
        near = [
            agent
            for agent in self._mesh.state.agents.values()
            if agent.online and agent.kind == kind and event.cwd and agent.metadata.get("cwd") == event.cwd
        ]
        if len(near) != 1 or not self._may_be(near[0], event, processes, bound):
            return None
        return near[0]

    def _may_be(self, agent: Agent, event: HookEvent, processes: list[str], bound: Mapping[str, str]) -> bool:
        """Whether the only agent near a hook can be its owner: other programs may work there too.

        Who has another session, or a process that is not above the hook, is not it. A child's first hook
        tells its process; a hook that tells none is not the one to be given a child's task and scope.
        """
        if bound.get(agent.id, event.session) != event.session:
            return False
        return not agent.owner or (len(processes) < 2 and agent.id not in self._mesh.state.children)

    def _above(self, processes: list[str]) -> list[Agent]:
        """The agents of the nearest process that is one; a client's sub-agents join after it."""
        agents = self._mesh.state.agents
        nearest = agents.get(self._owner_above(processes))
        if nearest is None:
            return []
        return [agent for agent in agents.values() if agent.owner == nearest.owner]

    def last_of(self, agent: Agent, bound: Mapping[str, str]) -> tuple[str, HookEvent] | None:
        """The client of an agent that joined after its first hook, and the last hook of its main session."""
        for (client, session), seen in reversed(self._sessions.items()):
            if not agent.owner or agent.owner not in seen.processes or session in bound.values():
                continue
            if self.agent_of(client, seen.event, bound) is agent:
                return client, seen.event
        return None


@runtime_checkable
class Placeable(Protocol):
    """A session whose place becomes known after it has joined: a shim's."""

    async def place(self, conversation: str, pane: str) -> Reply:
        """Say which conversation it serves, and in which pane."""
        ...


class Placement:
    """Corrects the names of sessions once their conversation is known.

    A shim joins before any hook tells which conversation of the client it serves, so the name it got may
    belong to another. That is corrected before anything is handed over; `core/agents/seats` decides.
    """

    def __init__(self, mesh: MeshView, delivery: Deliveries) -> None:
        self._mesh = mesh
        self._delivery = delivery
        self.notes: dict[str, str] = {}
        """By agent: what its model has to be told about its name, until that was delivered."""

    async def place(self, agent: Agent, conversation: str, pane: str = "") -> Agent:
        """The agent that a session is, now that its conversation is known."""
        if not conversation or (not pane and is_seated(agent, conversation)):
            return agent
        source = self._delivery.client_of(agent.id)
        if not isinstance(source, Placeable):
            return agent
        try:
            reply = await source.place(conversation, pane)
        except TellwireError as error:
            log.warning("the session of %s could not be placed: %s", agent.name, error)
            return agent
        if not isinstance(reply, Registered):
            return agent
        if reply.note:
            log.info("a session of %s: %s", agent.name, reply.note)
            self.notes.pop(agent.id, None)
            self.notes[reply.id] = reply.note
        return self._mesh.state.agents.get(reply.id, agent)

    def take_note(self, agent: str) -> str:
        """What its model should hear of its name, once."""
        note = self.notes.pop(agent, "")
        return f"tellwire: {note}" if note else ""


def _may_have(agent: Agent, processes: list[str]) -> bool:
    """Whether a hook with these processes above it can be an agent's: not if its client runs elsewhere."""
    return len(processes) < 2 or not agent.owner or agent.owner in processes or not is_alive(agent.owner)


def _choose(agents: list[Agent], event: HookEvent, bound: Mapping[str, str]) -> Agent | None:
    """Of the agents of one process the one whose session it is; none rather than a wrong one."""
    here = [agent for agent in agents if agent.metadata.get("cwd") == event.cwd]
    if len(agents) == 1 or len({agent.metadata.get("cwd") for agent in agents}) == 1:
        here = agents
    if here and runs_many(pid_of(here[0])):
        began = began_at(event.session)
        here = [
            agent for agent in here if agent.id not in bound and started_at(agent.process) > began - EARLY_S
        ]
        return here[0] if len(here) == 1 else None
    return here[0] if here else None


def began_at(session: str) -> float:
    """When a session began, where its id tells: UUIDs of version 7 begin with the time; else 0."""
    digits = session.replace("-", "")
    try:
        return int(digits[:12], 16) / 1_000 if len(digits) == 32 and digits[12] == "7" else 0.0
    except ValueError:
        return 0.0
