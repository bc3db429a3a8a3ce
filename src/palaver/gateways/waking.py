"""Waking an idle agent whose mail waits: when, how often, and by which way.

A kind of client has several ways, tried in order. An agent that is muted, that errored after a wake, or that
was woken too often is left alone: its mail waits for its next turn. So do weak notices; whether what waits
may begin a turn is the core's to say.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from palaver.broker.engine import Engine
from palaver.core.state import Agent
from palaver.core.waking import OFTEN, leave_to_wake, may_continue
from palaver.gateways.books import Book
from palaver.protocol.operations.agents import PathRecord

log = logging.getLogger("palaver.hooks")

JOIN_S = 0.15
"""What comes within this goes into one wake."""


class Waker(Protocol):
    """One way to wake the clients of a kind."""

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Begin a turn that brings what waits; False if this way is not open now."""
        ...

    def path_of(self, agent: Agent) -> PathRecord | None:
        """Whether it is open now, for people; None if it is no way of this agent's client at all."""
        ...


class Waking:
    """Who is to be woken."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.wakers: dict[str, list[Waker]] = {}
        """By the kind of client, the best first."""

    async def wake(self, book: Book) -> None:
        """Wake an agent, once that is wanted, if its mail still waits then."""
        try:
            await asyncio.sleep(JOIN_S)
            agent = await self._when_wanted(book)
            if agent is None:
                return
            for waker in self.wakers.get(book.integration.kind, ()):
                if await waker.wake(book, agent):
                    book.is_woken = True
                    return
                if not book.is_wakeable:
                    return  # a turn has begun meanwhile, and its hooks take the mail along
        finally:
            book.wake_waits = False

    def may_continue(self, book: Book, agent: Agent) -> bool:
        """Whether what waits may keep a turn from ending; if so it counts."""
        may = may_continue(book.continuations, agent, time.time())
        book.continuations += may
        return may

    async def _when_wanted(self, book: Book) -> Agent | None:
        while True:
            agent = self._engine.state.agents.get(book.agent)
            if agent is None:
                return None
            now = time.time()  # the engine reads its clock only when something comes
            leave = leave_to_wake(agent, book.standing, now)
            if not leave.why_not:
                book.count_wake(now)
                return agent
            if leave.why_not == OFTEN:
                log.warning("%s: %s; its mail waits", agent.name, OFTEN)
            if not leave.again_s:
                return None
            await asyncio.sleep(leave.again_s)
