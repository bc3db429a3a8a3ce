"""The truth about a turn when no hook tells it: a busy agent does not stay busy for ever.

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

from tellwire.clients.events import HookEvent, Pulse
from tellwire.clients.ports import pid_of
from tellwire.core.state import Agent
from tellwire.sessions.client_session import Book
from tellwire.sessions.turns import Ending

log = logging.getLogger("tellwire.hooks")

LOOKS_APART = 5
"""Without mail only every n-th look is taken."""

Books = Callable[[], Iterable[tuple[Book, Agent]]]
Tell = Callable[[Book, list[Ending]], None]


class PulseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited between looks, and until silence means something."""

    look_s: float = 2.0
    settled_s: float = 10.0
    """So long after the last hook a client's word counts, even if it is older than that hook."""
    silent_s: float = 900.0


class Pulses:
    """Checks all busy sessions, for as long as there are any."""

    def __init__(self, books: Books, tell: Tell, times: PulseTimes | None = None) -> None:
        self._books = books
        self._tell = tell
        self._times = times or PulseTimes()
        self._is_running = False

    @property
    def is_wanted(self) -> bool:
        """Whether somebody has to begin looking."""
        return not self._is_running and any(_is_open(book) for book, _ in self._books())

    async def run(self) -> None:
        """Poll while any session is busy."""
        if self._is_running:
            return
        self._is_running = True
        number = 0
        try:
            while open_books := [(book, agent) for book, agent in self._books() if _is_open(book)]:
                for book, agent in open_books:
                    if agent.pending or book.open or number % LOOKS_APART == 0:
                        await self._look(book, agent)
                number += 1
                await asyncio.sleep(self._times.look_s)
        finally:
            self._is_running = False

    async def end_before(self, book: Book, event: HookEvent, agent: Agent) -> list[Ending]:
        """If an event begins another turn: how the one before it went, where the client's files tell."""
        if not book.turns.ends_before(event):
            return []
        pulse = await self._ask(book, agent)
        is_over = pulse is not None and pulse.state == "idle" and book.turns.ends_before(event)
        return book.finish(pulse.outcome, pulse.text) if pulse is not None and is_over else []

    async def _ask(self, book: Book, agent: Agent) -> Pulse | None:
        try:
            return await asyncio.to_thread(book.client.transcript.pulse, book.turning(pid_of(agent)))
        except Exception:
            log.exception("the files of %s could not be understood", book.client.kind)
            return None

    async def _look(self, book: Book, agent: Agent) -> None:
        heard = book.heard
        pulse = await self._ask(book, agent)
        if heard != book.heard or not _is_open(book):
            return  # a hook has told meanwhile
        state = book.state
        endings = self._take(book, pulse)
        if endings or book.state != state:
            self._tell(book, endings)

    def _take(self, book: Book, pulse: Pulse | None) -> list[Ending]:
        now = time.time()
        if pulse is None:
            if book.state == "busy" and now - max(book.heard_at, _written_at(book)) > self._times.silent_s:
                book.state = ""
            return []
        if pulse.at < book.heard_at and now - book.heard_at < self._times.settled_s:
            return []
        if pulse.state == "idle":
            if pulse.outcome == "interrupted":
                book.interrupt()
            return book.finish(pulse.outcome, pulse.text)
        if pulse.state == "waiting":
            book.state = pulse.state
            return book.turns.wait(pulse.text)
        if pulse.at >= book.heard_at:  # else it only says that the turn has begun
            book.state = pulse.state
            book.turns.is_waiting = False
        return []


def _is_open(book: Book) -> bool:
    return book.state in ("busy", "waiting") or (book.state == "" and book.turns.current is not None)


def _written_at(book: Book) -> float:
    try:
        return os.stat(book.transcript).st_mtime
    except (OSError, ValueError):
        return 0.0
