"""Waking an idle client by typing one line into its tmux pane: the last resort, where no other path works.

The line only starts a turn; the mail itself comes with the client's prompt hook. What prevents typing
is shown in the listing. After a line that started nothing, none is typed until the client has shown life.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

import msgspec

from tellwire.clients import BY_KIND, is_headless
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.tracker import SessionAccess
from tellwire.system.bounded import BoundedDict
from tellwire.system.panes import HUMAN_S, WAKE_LINE, ObstacleError, capture, type_line
from tellwire.system.processes import ancestry_of, find_tmux, pid_in
from tellwire.system.threads import in_thread

log = logging.getLogger("tellwire.typing")

NAME = "typing"
READY = ("idle", "errored")
"""States in which the client waits for a prompt, and is known to."""
KNOWN_MAX = 10_000
UNKNOWN = "no hook has said what it is doing"
SILENT = "a line was typed, but no turn began"


class TypingTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts for typing."""

    look_s: float = 0.05
    human_s: float = HUMAN_S
    """A person who typed into the pane within this time is still there."""
    typed_s: float = 15.0
    captured_s: float = 5.0
    started_s: float = 10.0
    """A prompt that was typed shows by a hook within this."""
    again_s: tuple[float, ...] = (10.0, 20.0, 40.0, 60.0)
    """When to retry after a temporary obstacle; the last one repeats."""


class Tries:
    """The result of the last attempts to type to one agent."""

    def __init__(self) -> None:
        self.note = ""
        """Why the last attempt failed."""
        self.count = 0
        """Failed attempts in a row."""
        self.unsure: int | None = None
        """How much had been heard of the client when a line was typed that started nothing."""
        self.worked_at: float | None = None
        self.is_typing = False
        """A thread types, or is stuck with it."""
        self.waits = False
        """Another attempt is scheduled."""

    def settle(self) -> None:
        """Forget earlier failures."""
        self.note, self.count, self.unsure = "", 0, None


class Typist:
    """Types for all clients; one try at a time for each agent."""

    def __init__(
        self, access: SessionAccess, *, enabled: bool = True, times: TypingTimes | None = None
    ) -> None:
        self._access = access
        self._times = times or TypingTimes()
        self.enabled = enabled
        self._tries: BoundedDict[str, Tries] = BoundedDict(KNOWN_MAX)
        """By agent."""
        self._in_tmux: dict[str, bool] = {}
        """By the client's process: it stays where it is."""

    # -- what the listing says ------------------------------------------------------------------------

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether an agent could be woken by typing, as far as can be told without looking at its screen."""
        tries = self._tries.get(agent.id) or Tries()
        session = self._access.session_of(agent.id)
        if tries.unsure is not None and session is not None and session.heard != tries.unsure:
            tries.settle()  # it has shown life
        note = self._standing(agent) or tries.note
        if not note and (session is None or not session.conversation or not session.state):
            note = UNKNOWN
        return PathRecord(name=NAME, works=not note, note=note, last_at=tries.worked_at, wakes=True)

    def _standing(self, agent: Agent) -> str:
        """A permanent reason not to type, such as not running in tmux; empty if there is none."""
        if not self.enabled:
            return "switched off in the settings"
        if agent.kind not in BY_KIND:
            return "its input line is not recognised"
        return "" if self._is_in_tmux(agent.owner) else "it is not running in tmux"

    def _is_in_tmux(self, owner: str) -> bool:
        known = self._in_tmux.get(owner)
        if known is None:
            chain = ancestry_of(owner)
            # A daemon that a client in tmux has started is beneath it, but has no terminal.
            known = bool(chain and chain[0].terminal and find_tmux(chain))
            if len(self._in_tmux) >= KNOWN_MAX:
                self._in_tmux.clear()
            self._in_tmux[owner] = known
        return known

    async def capture(self, agent: Agent) -> str:
        """The text on an agent's terminal; empty if it has none that we can see."""
        if not self._is_in_tmux(agent.owner):
            return ""
        try:
            return await in_thread(partial(capture, agent.owner), within_s=self._times.captured_s)
        except (ObstacleError, TimeoutError) as error:
            log.info("the screen of %s cannot be read: %s", agent.name, error)
            return ""

    # -- waking ---------------------------------------------------------------------------------------

    async def wake(self, session: ClientSession, agent: Agent) -> bool:
        """Type the wake line and wait for a hook that shows that a turn began."""
        if session.state not in READY or self._standing(agent):
            return False
        if is_headless(pid_in(agent.owner)):
            return False
        tries, heard = self._tries.setdefault(agent.id, Tries()), session.heard
        if tries.unsure == heard:
            return False
        try:
            await self._type(session, agent, tries)
        except ObstacleError as obstacle:
            self._note(agent, tries, obstacle)
            return False
        if await self._began(session, heard):
            tries.settle()
            tries.worked_at = time.time()
            return True
        tries.unsure, tries.note = heard, SILENT
        log.warning("%s: %r was typed into its pane, and no turn began", agent.name, WAKE_LINE)
        return False

    async def _began(self, session: ClientSession, heard: int) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._times.started_s
        while session.heard == heard:
            if loop.time() > deadline:
                return False
            await asyncio.sleep(self._times.look_s)
        return True

    async def _type(self, session: ClientSession, agent: Agent, tries: Tries) -> None:
        """Type in a thread; if tmux hangs, give up, and have the thread type nothing later."""
        if tries.is_typing:
            raise ObstacleError("tmux does not respond")
        heard, is_wanted = session.heard, True

        def work() -> None:
            try:
                type_line(
                    agent.owner,
                    BY_KIND[agent.kind].screen.prompt,
                    lambda: is_wanted and session.heard == heard and session.state in READY,
                    human_s=self._times.human_s,
                )
            finally:
                tries.is_typing = False

        tries.is_typing = True
        try:
            await in_thread(work, within_s=self._times.typed_s)
        except TimeoutError:
            is_wanted = False  # a thread that comes to itself much later types nothing
            raise ObstacleError("tmux does not respond") from None

    def _note(self, agent: Agent, tries: Tries, obstacle: ObstacleError) -> None:
        if tries.note != obstacle.reason:
            log.info("%s is not typed to: %s", agent.name, obstacle.reason)
        tries.note = obstacle.reason
        if obstacle.passing and not tries.waits:
            again_s = self._times.again_s
            delay_s = again_s[min(tries.count, len(again_s) - 1)]
            tries.count += 1
            tries.waits = True
            self._access.run(self._again(agent.id, tries, delay_s))

    async def _again(self, agent: str, tries: Tries, delay_s: float) -> None:
        """The obstacle may have gone without any event: try all paths again."""
        try:
            await asyncio.sleep(delay_s)
        finally:
            tries.waits = False
        known = next((each for each in self._access.agents() if each.id == agent), None)
        if known is not None and known.online and self._access.has_reason(known):
            self._access.mail(agent)
        else:
            tries.settle()
