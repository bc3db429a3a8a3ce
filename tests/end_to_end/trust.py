"""Codex as its human starts it: hooks run once they were trusted in its own dialog, and a daemon runs them.

With the flag that passes the review by there is neither. tellwire never writes trust; here a hand answers.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.end_to_end.clients import Client
from tests.end_to_end.codex import Codex
from tests.end_to_end.mesh import statuses
from tests.end_to_end.stage import Stage, processes_of
from tests.end_to_end.terminal import HAND_S, SHOWN_S, Terminal
from tests.integration.world import Home, pass_time, until

DIALOG = "Hooks need review"
TRUST_ALL = "2"
CHOSEN = "› 2."
NO_DAEMON = "--no-daemon"
"""To answer, a daemon is not needed; it begins with a copy of the whole program."""


class Cautious(Codex):
    """Codex without what passes the review by."""

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """As usual, and hooks are reviewed."""
        return [word for word in super().headless(prompt, resume=resume) if "hook-trust" not in word]

    def interactive(self) -> list[str]:
        """Nothing to add."""
        return []


@asynccontextmanager
async def cautious(stage: Stage) -> AsyncGenerator[Cautious]:
    """Have such a Codex on a stage; its daemon ends with the block."""
    stage.client = client = Cautious(stage.client.home, stage.client.project, stage.client.model_url)
    try:
        yield client
    finally:
        end_daemon(client)
        clear(client)


@asynccontextmanager
async def trusted(stage: Stage) -> AsyncGenerator[None]:
    """If Codex is on the stage: as its human has it, with hooks that were trusted."""
    if stage.row != Codex.short:
        yield
        return
    async with cautious(stage) as client:
        await trust(stage.home, client, stage.agent)
        yield


async def trust(home: Home, client: Client, agent: str) -> None:
    """Answer the dialog, as the human does, and leave again."""
    async with Terminal.open(client, NO_DAEMON) as terminal:
        await terminal.shows(DIALOG)

        async def answered() -> bool:
            """It drops keys at first, and may take a number for an answer or for a choice."""
            await terminal.press(TRUST_ALL)
            await pass_time(HAND_S)
            if CHOSEN in await terminal.visible():
                await terminal.press("Enter")
                await pass_time(HAND_S)
            return DIALOG not in await terminal.visible()

        await until(answered, within_s=SHOWN_S, what="an answer to the dialog")
        await terminal.shows(client.ready_mark)
    await until(lambda: statuses(home).get(agent) != "online", what="the end of the session")


def end_daemon(client: Client) -> None:
    """End the daemon, and what looks after it."""
    for pid, words in processes_of(str(client.home).encode()).items():
        if b"app-server" in words:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def clear(client: Client) -> None:
    """Remove what the daemon leaves: its copy of the program, and sockets in a folder for all of them."""
    shutil.rmtree(client.home / ".codex/packages", ignore_errors=True)
    for link in client.home.glob(".codex/app-server-*/*.sock"):
        place = os.path.realpath(link)
        for path in (place, f"{place}.lock"):
            Path(path).unlink(missing_ok=True)
