"""Waking an idle agent whose mail waits: when, how often, and by which path.

A kind of client has several wakers, tried in order. Whether and when mail may begin a turn is the core's
to say (`core/mail/waking`); an agent that may be woken later is asked about again then, or when news come.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from tellwire.broker.ports import MeshView
from tellwire.clients.ports import Queue, Waker
from tellwire.core.mail.waking import (
    FAILED,
    LEFT,
    OFTEN,
    Leave,
    describe,
    hold_of,
    leave_to_wake,
    may_continue,
)
from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession

log = logging.getLogger("tellwire.hooks")


class Wakers:
    """How idle clients of each kind are woken.

    Wakers need the tracker, and the tracker needs the wakers: so this is built before both, and each waker is
    added when it has been built.
    """

    def __init__(self) -> None:
        self._wakers: dict[str, list[Waker]] = {}
        self._queues: dict[str, Queue] = {}

    def add(self, kind: str, wakers: list[Waker]) -> None:
        """These wake clients of a kind, the best first."""
        self._wakers[kind] = wakers
        self._queues.update((kind, waker) for waker in wakers if isinstance(waker, Queue))

    def of(self, kind: str) -> list[Waker] | None:
        """How clients of a kind are woken; None if it is no kind that we know."""
        return self._wakers.get(kind)

    def queue_of(self, kind: str) -> Queue | None:
        """Who can tell what became of a text in the queue of such a client."""
        return self._queues.get(kind)


class Waking:
    """Decides whom to wake, and when."""

    def __init__(self, mesh: MeshView, wakers: Wakers) -> None:
        self._mesh = mesh
        self._wakers = wakers

    async def wake(self, session: ClientSession) -> None:
        """Wake an agent, once that is wanted, if its mail still waits then; and again for what came later."""
        try:
            while (agent := await self._when_wanted(session)) is not None:
                heard = session.heard
                if not await self._wake(session, agent):
                    return
                if session.heard == heard or not session.is_wakeable:  # else that turn came and went
                    session.wakes.note_woken()
        finally:
            session.wakes.is_waiting = False

    def may_continue(self, session: ClientSession, agent: Agent) -> bool:
        """Whether what waits may keep a turn from ending; if so it counts."""
        may = may_continue(session.wakes.continuations, agent, time.time())
        session.wakes.continuations += may
        return may

    def leave(self, session: ClientSession, agent: Agent) -> Leave:
        """Whether an agent may be woken now; if not, why, and when it will be tried again."""
        # The engine reads its clock only when something comes.
        retry_s = self._mesh.limits.wake_retry_s
        return leave_to_wake(self._mesh.state, agent, session.standing, time.time(), retry_s=retry_s)

    def hold(self, session: ClientSession) -> Leave:
        """Why an agent may not be woken, regardless of the sender."""
        return hold_of(session.standing, time.time(), retry_s=self._mesh.limits.wake_retry_s)

    async def _wake(self, session: ClientSession, agent: Agent) -> bool:
        for waker in self._wakers.of(session.client.kind) or ():
            if await waker.wake(session, agent):
                return True
            if not session.is_wakeable:
                return False  # a turn has begun meanwhile, and its hooks take the mail along
        return False

    async def _when_wanted(self, session: ClientSession) -> Agent | None:
        """Wait until the agent may be woken; None if it is gone, or only new mail can change that."""
        told = ""
        while True:
            session.wakes.news.clear()
            agent = self._mesh.state.agents.get(session.agent)
            if agent is None or session.wakes.is_over:
                return None
            leave = self.leave(session, agent)
            if not leave.why_not:
                session.wakes.count(time.time(), leave.senders)
                return agent
            if leave.why_not != told and leave.why_not in (OFTEN, FAILED, LEFT):
                told = leave.why_not
                log.warning("%s: %s; its mail waits", agent.name, describe(leave))
            if not leave.again_s:
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(leave.again_s):
                    await session.wakes.news.wait()
