"""Waking an idle Codex: its own command `queue` puts a prompt before the session, which takes it up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from palaver.core.state import Agent
from palaver.gateways.books import Book
from palaver.gateways.doors import is_headless
from palaver.gateways.hooks import Hooks

log = logging.getLogger("palaver.hooks")

QUEUE_S = 10.0
KEPT = ("HOME", "CODEX_HOME", "PATH", "LANG", "TMPDIR")
"""Of the client's environment: where its files are, and no keys."""


def queue_waker(hooks: Hooks) -> Callable[[Book, Agent], Awaitable[bool]]:
    """How a Codex session is woken."""

    async def wake(book: Book, agent: Agent) -> bool:
        if book.was_interrupted:
            return False  # Codex does not look into its queue then; the next prompt takes the mail along
        pid = agent.owner.partition(".")[0]
        if not pid.isdigit() or not book.session or is_headless(int(pid)):
            return False
        program = program_of(int(pid))
        if program is None:
            return False
        text = await hooks.fetch(book, "queue")
        if not text:
            return False
        if not await _queue(program, environment_of(int(pid)), book.session, text):
            hooks.give_back(book)
            return False
        return True

    return wake


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
