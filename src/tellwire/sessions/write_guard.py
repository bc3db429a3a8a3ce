"""Tells clients that ask before they write whether they may, by a table of `core/children/scopes`.

A client's sub-agents write as the client's main conversation does. Reads are never asked about, and neither
are shell commands: what those write cannot be told from their text. A call whose target cannot be
determined is refused to every agent that may not write everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from tellwire.broker.ports import MeshView
from tellwire.broker.refusals import Refusals
from tellwire.clients.client import Client
from tellwire.clients.events import HookEvent
from tellwire.core.children.write_rules import WRITE, guard_of, is_guarded
from tellwire.core.context import Caller
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.relay.guard import INVALID, UNREADABLE, in_words, judge
from tellwire.relay.writes import written_paths
from tellwire.sessions.gate_files import WRITES, GuardFiles
from tellwire.sessions.listening import Listens, always
from tellwire.sessions.tracker import SessionTracker


class GuardTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a write is held up at most; its hook waits a little longer."""

    note_s: float = 1.0
    """For everything else that its hook reports."""
    look_s: float = 0.4
    """For the search for other names of a file; then the call is refused."""
    decide_s: float = 1.3
    """For all of it; then the call is refused."""


class Guarding:
    """Before the hooks of all clients: answers those that ask for leave to write, lets the others through."""

    def __init__(
        self,
        mesh: MeshView,
        refusals: Refusals,
        tracker: SessionTracker,
        guards: GuardFiles,
        clients: Mapping[str, Client],
        *,
        owner_above: Callable[[list[str]], str],
        times: GuardTimes | None = None,
    ) -> None:
        self._times = times or GuardTimes()
        self._mesh = mesh
        self._refusals = refusals
        self._tracker = tracker
        self._guards = guards
        self._clients = clients
        self._owner_above = owner_above

    async def handle(
        self,
        client: str,
        payload: Mapping[str, Any],
        processes: list[str] | None,
        listens: Listens = always,
    ) -> dict[str, Any] | None:
        """What a hook is answered; `{}` to a write that may go on. One that does not listen takes no mail."""
        if not may_write(client, payload):
            if processes is not None:
                self._note_process(processes)
            return await self._tracker.handle(client, payload, processes, listens)
        until = asyncio.get_running_loop().time() + self._times.decide_s
        await self._note(client, payload, processes)
        asked = HookEvent(what="tool_wanted", name=WRITES[client]["event"], session="")
        agent = self._agent_of(client, self._parsed(client, payload), processes)
        reason = "" if agent is None else await self._reason(client, agent, payload, until)
        return self._clients[client].hooks.deny(asked, reason) if reason else {}

    async def _note(self, client: str, payload: Mapping[str, Any], processes: list[str] | None) -> None:
        """Have the hook bind its session to its agent; that is worth no more than a moment."""
        try:
            async with asyncio.timeout(self._times.note_s):
                await self._tracker.handle(client, payload, processes)
        except TimeoutError:
            pass
        except ValueError as error:  # the write is judged all the same
            self._tracker.faults.note(client, error)

    async def _reason(self, client: str, agent: Agent, payload: Mapping[str, Any], until: float) -> str:
        """Why an agent may not write all of this; empty if it may."""
        if not is_guarded(self._mesh.state, agent.id):
            return ""
        guard = msgspec.to_builtins(guard_of(self._mesh.state, agent.id))
        judged = partial(judge, guard, WRITES[client], payload, within_s=self._times.look_s)
        try:
            async with asyncio.timeout_at(until):
                refused = await asyncio.to_thread(judged)  # it looks at the disk
        except TimeoutError:
            refused = [(INVALID, UNREADABLE)]
        caller = Caller(kind="agent", agent=agent.id)
        for code, reason in refused:
            self._refusals.note(caller, WRITE, TellwireError(code, reason), self._mesh.clock.now)
        return in_words([reason for _, reason in refused])

    # -- who asks -------------------------------------------------------------------------------------

    def _parsed(self, client: str, payload: Mapping[str, Any]) -> HookEvent | None:
        try:
            return self._clients[client].hooks.parse(payload)
        except ValueError:
            return None

    def _agent_of(self, client: str, event: HookEvent | None, processes: list[str] | None) -> Agent | None:
        agent = None
        if event is not None:
            plain = msgspec.structs.replace(event, subagent=False)
            agent = self._tracker.owners.agent_of(client, plain, self._tracker.sessions.bound())
        return agent or (None if processes is None else self._above(processes))

    def _above(self, processes: list[str]) -> Agent | None:
        """The agent whose process is among these, also a child that has not said a word yet."""
        agents = self._mesh.state.agents
        nearest = agents.get(self._owner_above(processes))
        if nearest is None or sum(agent.owner == nearest.owner for agent in agents.values()) > 1:
            return None  # none rather than a wrong one
        return nearest

    def _note_process(self, processes: list[str]) -> None:
        """The processes above a hook: the hook itself, then who ran it."""
        if len(processes) > 1 and self._mesh.state.children:
            agent = self._above(processes)
            if agent is not None:
                self._guards.note(agent, processes[1])


def may_write(client: str, payload: Mapping[str, Any]) -> bool:
    """Whether a hook asks for permission to write, or does not say what for."""
    return client in WRITES and written_paths(WRITES[client], payload) != []
