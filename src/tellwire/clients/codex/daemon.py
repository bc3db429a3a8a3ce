"""Waking a Codex that runs on its daemon: a text goes into its thread's queue under a name of its own.

The rollout tells that name when the text is taken up, which is exact evidence. The queue can be looked into:
a text whose add was never answered, or that an interrupt left there, is found and started, or given back.
Each question has a short connection of its own (2 ms), so that a daemon may be replaced at any time.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from tellwire.clients.codex.app_server import (
    AppServer,
    AppServerError,
    AppServerRefusedError,
    is_app_server,
)
from tellwire.clients.codex.queue import ANEW, GONE, NO_SESSION, QUEUE
from tellwire.clients.codex.threads import CodexThreads
from tellwire.clients.ports import NAMED, SessionPort, WakeableSession, name_of, pid_of
from tellwire.clients.reader import listed, mapping, string
from tellwire.core.mail.waking import ESC_S
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord

log = logging.getLogger("tellwire.hooks")

SETTLED_S = 2.0
"""How long after it was added a text that is in no queue may still appear in the rollout."""
MISSES_MAX = 2
"""After this many checks that find a text neither in the queue nor in the rollout, it counts as lost."""
PAGE = 100
PAGES_MAX = 10
KNOWN_MAX = 1_000
UNKNOWN_METHOD = ("unknown variant", "-32601")


class CodexDaemon:
    """Wakes threads of Codex's daemon, and looks after what it has put into their queues."""

    def __init__(self, port: SessionPort, threads: CodexThreads) -> None:
        self._port = port
        self._threads = threads
        self._without: set[str] = set()
        """Daemons that do not know how to add to a queue."""
        self._misses: dict[str, int] = {}
        """By name of a text, how often it was found nowhere."""

    async def wake(self, session: WakeableSession, agent: Agent) -> bool:
        """Put all that waits into the thread's queue."""
        pid = pid_of(agent)
        if not is_app_server(pid) or agent.owner in self._without or self._fault(session):
            return False
        try:
            async with AppServer.open(pid) as server:
                if await self._threads.see_left(server, session.conversation):
                    return False
                return await self._give(server, session, agent)
        except AppServerError as error:
            log.warning("codex's daemon cannot be told of mail: %s", error)
            return False

    async def _give(self, server: AppServer, session: WakeableSession, agent: Agent) -> bool:
        fetched = await self._port.fetch_to_wake(session, NAMED, QUEUE)
        if not fetched.text:
            return False
        name = name_of(agent, fetched.call)
        try:
            added = await server.call(
                "thread/queue/add",
                threadId=session.conversation,
                input=[{"type": "text", "text": fetched.text}],
                clientUserMessageId=name,
            )
        except AppServerRefusedError as error:
            self._refuse(agent, error)
            self._port.give_back(session, fetched.call)
            return False
        except AppServerError as error:
            log.warning("codex's daemon has not said whether it took a text: %s", error)
            return True  # it may have; `look_after` finds out
        told = mapping(added.get("queuedSubmission"))
        if told.get("clientUserMessageId") != name:
            self._port.seek_marks(session, fetched.call)
        if session.was_interrupted and told.get("id"):
            await _start(server, session.conversation, string(told["id"]))
        return True

    def _refuse(self, agent: Agent, error: AppServerError) -> None:
        log.warning("codex's daemon does not take a text: %s", error)
        if any(word in str(error) for word in UNKNOWN_METHOD):
            if len(self._without) >= KNOWN_MAX:
                self._without.clear()
            self._without.add(agent.owner)

    def path_of(self, agent: Agent) -> PathRecord | None:
        """Whether a text would reach the agent's thread; None if it is not on a daemon."""
        if not is_app_server(pid_of(agent)):
            return None
        session = self._port.session_of(agent.id)
        note = NO_SESSION if session is None else self._fault(session)
        return PathRecord(name=QUEUE, works=not note, note=note, wakes=True)

    def _fault(self, session: WakeableSession) -> str:
        if not session.conversation:
            return NO_SESSION
        if self._threads.is_left(session.conversation):
            return ANEW
        return "" if self._threads.is_shown(session.conversation) else GONE

    # -- what became of it ----------------------------------------------------------------------------

    async def look_after(self, session: WakeableSession) -> None:
        """Start what lies in the queue of an idle thread, and give back what is neither there nor read."""
        agent = next((each for each in self._port.agents() if each.id == session.agent), None)
        now = time.time()
        late = now - SETTLED_S
        calls = [call for call, lease in session.open.items() if lease.channel == NAMED and lease.at < late]
        is_stopped = session.was_interrupted and 0 <= now - session.interrupted_at < ESC_S
        if agent is None or not calls or not session.is_wakeable or is_stopped:
            return
        try:
            async with AppServer.open(pid_of(agent)) as server:
                if await _is_idle(server, session.conversation):
                    await self._look(server, session, {name_of(agent, call): call for call in calls})
        except AppServerError as error:
            log.info("codex's daemon does not tell what became of a text: %s", error)

    async def _look(self, server: AppServer, session: WakeableSession, names: dict[str, str]) -> None:
        queued = await _queued(server, session.conversation)
        for name, call in names.items():
            if name in queued:
                self._misses.pop(name, None)
                await _start(server, session.conversation, queued[name])
                return  # a turn runs now
            self._misses[name] = self._misses.get(name, 0) + 1
            if self._misses[name] >= MISSES_MAX and call in session.open:
                del self._misses[name]
                log.info("codex has not taken %s; offered again", call)
                self._port.give_back(session, call)
        if len(self._misses) > KNOWN_MAX:
            self._misses.clear()


async def _is_idle(server: AppServer, thread: str) -> bool:
    told = await server.call("thread/read", threadId=thread, includeTurns=False)
    return mapping(mapping(told.get("thread")).get("status")).get("type") == "idle"


async def _queued(server: AppServer, thread: str) -> dict[str, str]:
    """What waits in a thread's queue: from the name it was given to the daemon's id of it."""
    found: dict[str, str] = {}
    cursor: Any = None
    for _ in range(PAGES_MAX):
        told = await server.call("thread/queue/list", threadId=thread, limit=PAGE, cursor=cursor)
        for each in map(mapping, listed(told.get("data"))):
            found[string(each.get("clientUserMessageId"))] = string(each.get("id"))
        cursor = told.get("nextCursor")
        if not cursor:
            break
    return found


async def _start(server: AppServer, thread: str, submission: str) -> None:
    """Start one text of a queue that the daemon leaves alone after an interrupt; the rest is its human's."""
    try:
        await server.call("thread/queue/start", threadId=thread, queuedSubmissionId=submission)
    except AppServerError as error:
        log.info("codex does not start what is queued: %s", error)  # a turn has begun meanwhile, or later
