"""Waking an idle agent whose mail waits: when, how often, and by which way.

A kind of client has several ways, tried in order. An agent that is muted, that errored after a wake, or that
was woken too often is left alone: its mail waits for its next turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from palaver.broker.engine import Engine
from palaver.core.state import Agent
from palaver.gateways.books import WAKEABLE, Book
from palaver.protocol.operations.agents import PathRecord

log = logging.getLogger("palaver.hooks")

JOIN_S = 0.15
"""What comes within this goes into one wake."""
MUTED_LOOK_S = 1.0
BUDGET_LOOK_S = 20.0
ESC_S = 4.0
"""After its human stopped it, an agent stays stopped for so long at least: the human may be typing."""


class Waker(Protocol):
    """One way to wake the clients of a kind."""

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Begin a turn that brings what waits; False if this way is not open now."""
        ...

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether it is open now, for people; when it last worked is filled in elsewhere."""
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
                if book.state not in WAKEABLE:
                    return  # a turn has begun meanwhile, and its hooks take the mail along
        finally:
            book.wake_waits = False

    async def _when_wanted(self, book: Book) -> Agent | None:
        while True:
            agent = self._engine.state.agents.get(book.agent)
            if agent is None or not agent.pending or book.state not in WAKEABLE or book.has_failed:
                return None
            pause_s = MUTED_LOOK_S if agent.is_muted(self._engine.clock.now) else 0.0
            if book.was_interrupted:
                pause_s = max(pause_s, book.interrupted_at + ESC_S - time.time())
            if pause_s <= 0 and not book.may_wake():
                log.warning("%s was woken often enough for now; its mail waits", agent.name)
                pause_s = BUDGET_LOOK_S
            if pause_s <= 0:
                return agent
            await asyncio.sleep(pause_s)
