"""Waking an idle client by typing one line into its tmux pane: the last way, where there is no better one.

The line only starts a turn; the mail itself comes with the client's prompt hook. What is in the way of typing
is told in the listing. After a line that started nothing, none is typed until the client has shown life.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from tellwire.core.state import Agent
from tellwire.gateways.books import Book
from tellwire.gateways.doors import is_headless
from tellwire.gateways.hooks import Hooks
from tellwire.protocol.operations.agents import PathRecord
from tellwire.spawn.bounded import in_thread
from tellwire.spawn.panes import WAKE_LINE, ObstacleError, capture, type_line
from tellwire.spawn.processes import ancestry, find_tmux, read_word
from tellwire.spawn.prompts import PROMPTS

log = logging.getLogger("tellwire.typing")

NAME = "typing"
READY = ("idle", "errored")
"""States in which the client waits for a prompt, and is known to."""
TYPED_S = 15.0
CAPTURED_S = 5.0
STARTED_S = 10.0
"""A prompt that was typed shows by a hook within this."""
LOOK_S = 0.05
AGAIN_S = (10.0, 20.0, 40.0, 60.0)
"""When to try again after something passing was in the way; from then on, the last."""
KNOWN_MAX = 10_000
UNKNOWN = "no hook has told what it is doing"
SILENT = "a line was typed, and no turn began"


class Tries:
    """What came of typing to one agent."""

    def __init__(self) -> None:
        self.note = ""
        """What was in the way at the last try."""
        self.count = 0
        """How often something was, one after another."""
        self.unsure: int | None = None
        """How much had been heard of the client when a line was typed that started nothing."""
        self.worked_at: float | None = None
        self.is_typing = False
        """A thread types, or is stuck with it."""
        self.waits = False
        """It will be tried again."""

    def settle(self) -> None:
        """Nothing is in the way any more."""
        self.note, self.count, self.unsure = "", 0, None


class Typist:
    """Types for all clients; one try at a time for each agent."""

    def __init__(self, hooks: Hooks, *, enabled: bool = True) -> None:
        self._hooks = hooks
        self.enabled = enabled
        self._tries: dict[str, Tries] = {}
        """By agent."""
        self._in_tmux: dict[str, bool] = {}
        """By the client's process: it stays where it is."""

    # -- what the listing says ------------------------------------------------------------------------

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether an agent could be woken by typing, as far as can be told without looking at its screen."""
        tries = self._tries.get(agent.id) or Tries()
        book = self._hooks.book_of(agent.id)
        if tries.unsure is not None and book is not None and book.heard != tries.unsure:
            tries.settle()  # it has shown life
        note = self._standing(agent) or tries.note
        if not note and (book is None or not book.session or not book.state):
            note = UNKNOWN
        return PathRecord(name=NAME, works=not note, note=note, last_at=tries.worked_at, wakes=True)

    def _standing(self, agent: Agent) -> str:
        """What does not pass."""
        if not self.enabled:
            return "switched off in the settings"
        if agent.kind not in PROMPTS:
            return "its input line is not known"
        return "" if self._is_in_tmux(agent.owner) else "it does not run in tmux"

    def _is_in_tmux(self, owner: str) -> bool:
        known = self._in_tmux.get(owner)
        if known is None:
            process = read_word(owner)
            # A daemon that a client in tmux has started is beneath it, but has no terminal.
            known = process is not None and bool(process.terminal and find_tmux(ancestry(process)))
            if len(self._in_tmux) >= KNOWN_MAX:
                self._in_tmux.clear()
            self._in_tmux[owner] = known
        return known

    async def capture(self, agent: Agent) -> str:
        """The text on an agent's terminal; empty if it has none that we can see."""
        if not self._is_in_tmux(agent.owner):
            return ""
        try:
            return await in_thread(partial(capture, agent.owner), within_s=CAPTURED_S)
        except (ObstacleError, TimeoutError) as error:
            log.info("the screen of %s cannot be read: %s", agent.name, error)
            return ""

    # -- waking ---------------------------------------------------------------------------------------

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Type, and see a turn begin."""
        if book.state not in READY or self._standing(agent):
            return False
        if is_headless(int(agent.owner.partition(".")[0])):
            return False
        tries, heard = self._tries_of(agent), book.heard
        if tries.unsure == heard:
            return False
        try:
            await self._type(book, agent, tries)
        except ObstacleError as obstacle:
            self._note(agent, tries, obstacle)
            return False
        if await _began(book, heard):
            tries.settle()
            tries.worked_at = time.time()
            return True
        tries.unsure, tries.note = heard, SILENT
        log.warning("%s: %r was typed into its pane, and no turn began", agent.name, WAKE_LINE)
        return False

    def _tries_of(self, agent: Agent) -> Tries:
        if agent.id not in self._tries and len(self._tries) >= KNOWN_MAX:
            del self._tries[next(iter(self._tries))]
        return self._tries.setdefault(agent.id, Tries())

    async def _type(self, book: Book, agent: Agent, tries: Tries) -> None:
        if tries.is_typing:
            raise ObstacleError("tmux does not answer")
        heard, is_wanted = book.heard, True

        def work() -> None:
            try:
                type_line(
                    agent.owner,
                    agent.kind,
                    lambda: is_wanted and book.heard == heard and book.state in READY,
                )
            finally:
                tries.is_typing = False

        tries.is_typing = True
        try:
            await in_thread(work, within_s=TYPED_S)
        except TimeoutError:
            is_wanted = False  # a thread that comes to itself much later types nothing
            raise ObstacleError("tmux does not answer") from None

    def _note(self, agent: Agent, tries: Tries, obstacle: ObstacleError) -> None:
        if tries.note != obstacle.reason:
            log.info("%s is not typed to: %s", agent.name, obstacle.reason)
        tries.note = obstacle.reason
        if obstacle.passing and not tries.waits:
            delay_s = AGAIN_S[min(tries.count, len(AGAIN_S) - 1)]
            tries.count += 1
            tries.waits = True
            self._hooks.run(self._again(agent.id, tries, delay_s))

    async def _again(self, agent: str, tries: Tries, delay_s: float) -> None:
        """What was in the way may have passed, and nobody tells: have all ways tried again."""
        try:
            await asyncio.sleep(delay_s)
        finally:
            tries.waits = False
        known = next((each for each in self._hooks.agents() if each.id == agent), None)
        if known is not None and known.online and self._hooks.has_reason(known):
            self._hooks.mail(agent)
        else:
            tries.settle()


async def _began(book: Book, heard: int) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STARTED_S
    while book.heard == heard:
        if loop.time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
