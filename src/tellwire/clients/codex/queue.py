"""Waking an idle Codex by its own command `queue`: where it has no daemon, or one that takes no texts.

Without a daemon a terminal looks into its queue every ten seconds; nothing makes it look sooner.
"""

from __future__ import annotations

import asyncio
import logging

from tellwire.clients.codex.app_server import (
    AppServer,
    AppServerError,
    environment_of,
    is_app_server,
    is_once,
)
from tellwire.clients.codex.threads import CodexThreads
from tellwire.clients.ports import SessionPort, WakeableSession, pid_of
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.system.processes import exe

log = logging.getLogger("tellwire.hooks")

QUEUE = "queue"
SLOW = "queue (up to 10 s)"
QUEUE_S = 10.0
NO_SESSION = "it has not started a session yet"
INTERRUPTED = "after an interrupt it ignores its queue until its next prompt"
GONE = "its terminal is closed"
ANEW = "its human has begun another session"


class CodexQueue:
    """Wakes sessions of Codex by `codex queue`."""

    def __init__(self, port: SessionPort, threads: CodexThreads) -> None:
        self._port = port
        self._threads = threads

    async def wake(self, session: WakeableSession, agent: Agent) -> bool:
        """Put all that waits into the session's queue."""
        pid = pid_of(agent)
        program = exe(pid)
        if not program or self._fault(session, agent):
            return False
        fetched = await self._port.fetch_to_wake(session, "queue", QUEUE if is_app_server(pid) else SLOW)
        if not fetched.text:
            return False
        if not await _queue(program, environment_of(pid), session.conversation, fetched.text):
            self._port.give_back(session, fetched.call)
            return False
        if session.was_interrupted:
            await _start(pid, session.conversation)
        return True

    def path_of(self, agent: Agent) -> PathRecord | None:
        """Whether the agent's session would look into its queue; None on a daemon: see `CodexDaemon`."""
        if is_app_server(pid_of(agent)):
            return None
        session = self._port.session_of(agent.id)
        note = NO_SESSION if session is None else self._fault(session, agent)
        return PathRecord(name=SLOW, works=not note, note=note, wakes=True)

    def _fault(self, session: WakeableSession, agent: Agent) -> str:
        pid = pid_of(agent)
        if not pid or not session.conversation:
            return NO_SESSION
        if is_once(pid):
            return "a headless run has no queue"
        if self._threads.is_left(session.conversation):
            return ANEW
        if not self._threads.is_shown(session.conversation):
            return GONE
        return INTERRUPTED if session.was_interrupted and not is_app_server(pid) else ""


async def _start(pid: int, session: str) -> None:
    """After an interrupt an app-server leaves the queue alone too, but can be asked to continue."""
    try:
        async with AppServer.open(pid) as server:
            await server.call("thread/queue/start", threadId=session)
    except AppServerError as error:
        log.warning("codex does not go on with its queue before its next prompt: %s", error)


async def _queue(program: str, environment: dict[str, str], session: str, text: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        program,
        "queue",
        "--thread",
        session,
        "--message",
        text,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(QUEUE_S):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        log.warning("codex queue did not end in time")
        return False
    if process.returncode:
        log.warning("codex queue failed: %s", said.decode(errors="replace")[-300:].strip())
    return process.returncode == 0
