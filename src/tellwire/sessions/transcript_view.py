"""The text of an agent's session: out of its client's record, else from the terminal it runs in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from tellwire.broker.ports import MeshView, Source
from tellwire.clients import BY_KIND
from tellwire.clients.said import Rendered, read_entries, render
from tellwire.core.agents.roster import find_session_agent
from tellwire.core.mail.framing import FRAME
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.sessions.tracker import SessionTracker

log = logging.getLogger("tellwire.hooks")

Capture = Callable[[Agent], Awaitable[str]]
"""The text on an agent's terminal; empty if it has none that we can see."""
Told = Callable[[Agent], Awaitable[list[dict[str, Any]] | None]]
"""The entries that a client's plugin hands over; None if it does not."""
READ_S = 10.0


class SessionReader:
    """Answers `get_session_data`, in a thread."""

    def __init__(
        self,
        mesh: MeshView,
        tracker: SessionTracker,
        *,
        told: Told,
        capture: Capture | None = None,
        within_s: float = READ_S,
    ) -> None:
        self._mesh = mesh
        self._within_s = within_s
        self._tracker = tracker
        self._told = told
        self._capture = capture

    def begin(self, source: Source, n: int, operation: GetSessionData) -> None:
        """Answer call `n` as soon as the text is there."""
        self._tracker.run(self._serve(source, n, operation))

    async def _serve(self, source: Source, n: int, operation: GetSessionData) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                source.answer(n, await self.read(operation, source.caller.agent))
        except TellwireError as error:
            source.refuse(n, error)
        except TimeoutError:
            source.refuse(n, TellwireError("timeout", "The session's transcript could not be read in time."))
        except Exception:
            log.exception("a session's record could not be read")
            source.refuse(n, TellwireError("internal", "The session's transcript could not be read."))
        source.flush()

    async def read(self, operation: GetSessionData, asker: str) -> SessionData:
        """The end of a session, for an agent or, if it has no id, for somebody else.

        Raises:
            TellwireError: the agent is not known, or the bounds make no sense.
        """
        agent = find_session_agent(self._mesh.state, operation, asker, self._mesh.limits)
        found = await self._rendered(agent, operation)
        if found is not None and found.text:
            return self._reply(agent, found, "transcript")
        text = "" if self._capture is None or not agent.online else await self._capture(agent)
        if text.strip():
            tail = text.rstrip()[-operation.tail :]
            return self._reply(agent, Rendered(tail, len(tail) < len(text.rstrip()), 0.0), "terminal")
        if found is not None:
            note = (
                "Nothing has been said in it since then."
                if operation.since
                else "Nothing has been said in it yet."
            )
            return self._reply(agent, found, "transcript", note)
        note = f"The transcript of {agent.name} is not known yet; its client has not reported a turn."
        return self._reply(agent, Rendered("", is_cut=False, last_at=0.0), "none", note)

    def _reply(
        self,
        agent: Agent,
        found: Rendered,
        source: Literal["transcript", "terminal", "none"],
        note: str = "",
    ) -> SessionData:
        return SessionData(
            agent=agent.name,
            kind=agent.kind,
            status="online" if agent.online else "offline",
            activity=self._tracker.access.activity(agent.id),
            source=source,
            text=self._without_label(agent, found.text),
            cut=found.is_cut,
            last_at=found.last_at,
            note=note,
        )

    def _without_label(self, agent: Agent, text: str) -> str:
        """The label that ends messages in that session is for its model only."""
        return text.replace(self._tracker.labels.label_of(agent), FRAME)

    async def _rendered(self, agent: Agent, operation: GetSessionData) -> Rendered | None:
        """The session as its client recorded it; None if there is no record, or it cannot be read."""
        kind, path = self._tracker.sessions.transcripts.get(agent.id, ("", ""))
        if kind not in BY_KIND:
            return None
        parse_entries = BY_KIND[kind].transcript.entries
        entries = None if path else await self._told(agent)
        if not path and entries is None:
            return None

        def work() -> Rendered:
            said = parse_entries(read_entries(path) if entries is None else entries)
            return render(said, agent=agent.name, since=operation.since, chars=operation.tail)

        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            log.info("the record of %s cannot be read: %s", agent.name, error)
            return None
