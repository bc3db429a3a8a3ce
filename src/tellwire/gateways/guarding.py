"""Who asks before it writes is told from the state whether it may; the rule is `core.scopes.may_write`.

A client's sub-agents write as the client's main conversation does. Reads are never asked about, and neither
are shell commands: what those write cannot be told from their text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.core.context import Caller
from tellwire.core.guards import is_guarded
from tellwire.core.scopes import Verdict, by_depth, is_scoped, may_write
from tellwire.core.state import Agent
from tellwire.gateways.guards import Guards
from tellwire.gateways.hooks import Hooks
from tellwire.gateways.listening import Listens, always
from tellwire.integrations.hooks import HookEvent, Integration
from tellwire.protocol.errors import TellwireError
from tellwire.relay.guard import TOO_LONG, in_words
from tellwire.relay.writes import targets, written_paths

NOTE_S = 1.0
"""So long a write waits for what else its hook tells."""
FEW = 32
"""So many paths are looked at in one go: nobody else's call waits for a long patch."""
WRITE = "write"
"""What was refused, as the record has it."""


class Guarding:
    """Before the hooks of all clients: answers those that ask for leave to write, lets the others through."""

    def __init__(
        self,
        engine: Engine,
        server: Server,
        hooks: Hooks,
        integrations: Mapping[str, Integration],
        folder: Path,
    ) -> None:
        self._engine = engine
        self._server = server
        self._hooks = hooks
        self._integrations = integrations
        self._guards = Guards(engine, folder)

    async def handle(
        self,
        client: str,
        payload: Mapping[str, Any],
        words: list[str] | None,
        listens: Listens = always,
    ) -> dict[str, Any] | None:
        """What a hook is answered; `{}` to a write that may go on. One that does not listen takes no mail."""
        paths = written_paths(client, payload)
        if paths == []:
            if words is not None:
                self._note_process(words)
            return await self._hooks.handle(client, payload, words, listens)
        with suppress(TimeoutError):
            async with asyncio.timeout(NOTE_S):  # it binds the session to its agent, and is worth no more
                await self._hooks.handle(client, payload, words)
        integration = self._integrations[client]
        event = integration.parse(payload)
        agent = self._agent_of(client, event, words)
        reason = "" if agent is None else await self._reason(client, agent, paths, event.cwd)
        return integration.deny(event, reason) if reason else {}

    async def _reason(self, client: str, agent: Agent, paths: list[str] | None, cwd: str) -> str:
        """Why an agent may not write all of this; empty if it may."""
        if not is_guarded(self._engine.state, agent.id):
            return ""
        if paths is None:
            scoped = is_scoped(self._engine.state, agent.id)
            refused = [Verdict(allowed=False, reason=TOO_LONG)] if scoped else []
        else:
            found = partial(targets, client, paths, cwd)  # looks at the disk
            real = await asyncio.to_thread(found) if len(paths) > FEW else found()
            verdicts = await self._judge(agent, real)
            refused = [verdict for verdict in verdicts if not verdict.allowed]
        for verdict in refused:
            code = "scope_conflict" if verdict.owner else "scope_outside"
            error = TellwireError(code, verdict.reason)
            caller = Caller(kind="agent", agent=agent.id)
            self._engine.refusals.note(caller, WRITE, error, self._engine.clock.now)
        return in_words([verdict.reason for verdict in refused])

    async def _judge(self, agent: Agent, paths: list[str]) -> list[Verdict]:
        state = self._engine.state
        claims = by_depth(state)
        verdicts: list[Verdict] = []
        for number, path in enumerate(paths, 1):
            if number % FEW == 0:
                await asyncio.sleep(0)  # others have their turn
            try:
                verdicts.append(may_write(state, agent.id, path, claims))
            except TellwireError as error:  # no path at all: the tool will say so itself
                verdicts.append(Verdict(not is_scoped(state, agent.id), error.message))
        return verdicts

    # -- who asks -------------------------------------------------------------------------------------

    def _agent_of(self, client: str, event: HookEvent, words: list[str] | None) -> Agent | None:
        plain = msgspec.structs.replace(event, subagent=False)
        known = [(agent.id, self._hooks.book_of(agent.id)) for agent in self._hooks.agents()]
        bound = {agent: book.session for agent, book in known if book is not None and book.session}
        agent = self._hooks.recognition.agent_of(client, plain, bound)
        return agent or (None if words is None else self._above(words))

    def _above(self, words: list[str]) -> Agent | None:
        """The agent whose process is among these, also a child that has not said a word yet."""
        agents = self._engine.state.agents
        nearest = agents.get(self._server.above(words))
        if nearest is None or sum(agent.owner == nearest.owner for agent in agents.values()) > 1:
            return None  # none rather than a wrong one
        return nearest

    def _note_process(self, words: list[str]) -> None:
        """The processes above a hook: the hook itself, then who ran it."""
        if len(words) > 1 and self._engine.state.children:
            agent = self._above(words)
            if agent is not None:
                self._guards.note(agent, words[1])
