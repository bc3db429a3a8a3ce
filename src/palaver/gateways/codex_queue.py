"""Waking an idle Codex: its own command `queue` puts a prompt before the session, which takes it up."""

from __future__ import annotations

import asyncio
import logging
import os

from palaver.core.state import Agent
from palaver.gateways.books import Book
from palaver.gateways.doors import is_headless
from palaver.gateways.hooks import Hooks
from palaver.gateways.marks import pid_of
from palaver.protocol.operations.agents import PathRecord

log = logging.getLogger("palaver.hooks")

QUEUE = "queue"
QUEUE_S = 10.0
NO_SESSION = "it has begun no session yet"
INTERRUPTED = "after an interrupt it leaves its queue alone until its next prompt"
KEPT = ("HOME", "CODEX_HOME", "PATH", "LANG", "TMPDIR")
"""Of the client's environment: where its files are, and no keys."""


class CodexQueue:
    """Wakes sessions of Codex."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Put all that waits into the session's queue."""
        pid = pid_of(agent)
        program = program_of(pid)
        if program is None or self._fault(book, agent):
            return False
        fetched = await self._hooks.fetch(book, "queue", QUEUE)
        if not fetched.text:
            return False
        if not await _queue(program, environment_of(pid), book.session, fetched.text):
            self._hooks.give_back(book, fetched.call)
            return False
        return True

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether the agent's session would look into its queue."""
        book = self._hooks.book_of(agent.id)
        note = NO_SESSION if book is None else self._fault(book, agent)
        return PathRecord(name=QUEUE, works=not note, note=note, wakes=True)

    def _fault(self, book: Book, agent: Agent) -> str:
        pid = pid_of(agent)
        if not pid or not book.session:
            return NO_SESSION
        if is_headless(pid):
            return "a headless run has no queue"
        return INTERRUPTED if book.was_interrupted else ""


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


def program_of(pid: int) -> str | None:
    """The program that a process runs."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def environment_of(pid: int) -> dict[str, str]:
    """What a client's own commands need of its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.decode(errors="replace").partition("=")
        if name in KEPT:
            found[name] = value
    return found
