"""Finds the end of turns that no hook reports, so that a busy agent does not stay busy for ever.

While an agent is busy or waits for its human, the client's own files are looked at: every ten seconds, and
every two while mail waits for it or is on its way. Where they say that the turn is over, it is, with what
they tell of its end. Where a client has no such file, a turn of which nothing was heard for fifteen minutes,
and in which the transcript did not grow, is `""`: nobody knows. It may be woken then, for that does no harm
to a turn that runs after all; but nobody types into it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable

import msgspec

from tellwire.clients.events import HookEvent, TurnState
from tellwire.clients.ports import pid_of
from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.turns import Ending

log = logging.getLogger("tellwire.hooks")

LOOKS_APART = 5
"""Without mail only every n-th look is taken."""

LiveSessions = Callable[[], Iterable[tuple[ClientSession, Agent]]]
SessionChanged = Callable[[ClientSession, list[Ending]], None]


class ProbeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals between polls, and how long a turn may be silent."""

    look_s: float = 2.0
    settled_s: float = 10.0
    """After this long without a hook, the client's files count even if they are older than the last hook."""
    silent_s: float = 900.0


class TurnProbe:
    """Checks all busy sessions, for as long as there are any."""

    def __init__(
        self, sessions: LiveSessions, session_changed: SessionChanged, times: ProbeTimes | None = None
    ) -> None:
        self._sessions = sessions
        self._session_changed = session_changed
        self._times = times or ProbeTimes()
        self._is_running = False

    @property
    def is_wanted(self) -> bool:
        """Whether polling has to start."""
        return not self._is_running and any(_is_open(session) for session, _ in self._sessions())

    async def run(self) -> None:
        """Poll while any session is busy."""
        if self._is_running:
            return
        self._is_running = True
        number = 0
        try:
            while open_sessions := [
                (session, agent) for session, agent in self._sessions() if _is_open(session)
            ]:
                for session, agent in open_sessions:
                    if agent.pending or session.open or number % LOOKS_APART == 0:
                        await self._look(session, agent)
                number += 1
                await asyncio.sleep(self._times.look_s)
        finally:
            self._is_running = False

    async def end_before(self, session: ClientSession, event: HookEvent, agent: Agent) -> list[Ending]:
        """If an event begins another turn: how the one before it went, where the client's files show it."""
        if not session.turns.ends_before(event):
            return []
        found = await self._ask(session, agent)
        is_over = found is not None and found.state == "idle" and session.turns.ends_before(event)
        return session.finish(found.outcome, found.text) if found is not None and is_over else []

    async def _ask(self, session: ClientSession, agent: Agent) -> TurnState | None:
        try:
            return await asyncio.to_thread(
                session.client.transcript.turn_state, session.current_turn(pid_of(agent))
            )
        except Exception:
            log.exception("the files of %s could not be understood", session.client.kind)
            return None

    async def _look(self, session: ClientSession, agent: Agent) -> None:
        heard = session.heard
        found = await self._ask(session, agent)
        if heard != session.heard or not _is_open(session):
            return  # a hook has told meanwhile
        state = session.state
        endings = self._apply(session, found)
        if endings or session.state != state:
            self._session_changed(session, endings)

    def _apply(self, session: ClientSession, found: TurnState | None) -> list[Ending]:
        """Believe what the client's files say, unless a hook has said something since."""
        now = time.time()
        if found is None:
            if (
                session.state == "busy"
                and now - max(session.heard_at, _written_at(session)) > self._times.silent_s
            ):
                session.state = ""
            return []
        if found.at < session.heard_at and now - session.heard_at < self._times.settled_s:
            return []
        if found.state == "idle":
            if found.outcome == "interrupted":
                session.interrupt()
            return session.finish(found.outcome, found.text)
        if found.state == "waiting":
            session.state = found.state
            return session.turns.wait(found.text)
        if found.at >= session.heard_at:  # else it only says that the turn has begun
            session.state = found.state
            session.turns.is_waiting = False
        return []


def _is_open(session: ClientSession) -> bool:
    return session.state in ("busy", "waiting") or (session.state == "" and session.turns.current is not None)


def _written_at(session: ClientSession) -> float:
    try:
        return os.stat(session.transcript).st_mtime
    except (OSError, ValueError):
        return 0.0
