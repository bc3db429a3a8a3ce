"""A client in a terminal: tmux with a server of its own, on which a test types and reads."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.end_to_end.clients import Client
from tests.integration.world import pass_time, until

SIZE = ("-x", "140", "-y", "50")
SETTINGS = """\
set -g remain-on-exit on
set -s escape-time 0
set -g history-limit 5000
"""
SHOWN_S = 90.0
COMMAND_S = 10.0
HAND_S = 0.3
"""Between two keys of a person. Clients take what comes faster for pasted text, or for one key."""


class Terminal:
    """One client on a screen."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self._folder = folder
        self.pid = 0
        """The program that tmux started."""

    @classmethod
    @asynccontextmanager
    async def open(cls, client: Client, *arguments: str) -> AsyncGenerator[Terminal]:
        """Start a client; it and its tmux end with the block."""
        folder = Path(tempfile.mkdtemp(prefix="tlw-tmux-"))
        terminal = cls(client, folder)
        try:
            await terminal._start(arguments)
            yield terminal
        finally:
            await terminal.end()
            shutil.rmtree(folder, ignore_errors=True)

    async def _start(self, arguments: tuple[str, ...]) -> None:
        settings = self._folder / "tmux.conf"
        settings.write_text(SETTINGS, encoding="utf-8")
        words = [
            word for name, value in self.client.environment().items() for word in ("-e", f"{name}={value}")
        ]
        program = [*self.client.program(), *self.client.interactive(), *arguments]
        where = ("-c", str(self.client.project))
        # Several words: tmux starts the program itself, without a shell.
        await self._tmux("-f", str(settings), "new-session", "-d", *SIZE, *where, *words, *program)
        self.pid = int(await self._tmux("display-message", "-p", "#{pane_pid}"))

    async def again(self, *arguments: str) -> None:
        """Start the client anew in the same pane, after it has ended."""
        words = [
            word for name, value in self.client.environment().items() for word in ("-e", f"{name}={value}")
        ]
        program = [*self.client.program(), *self.client.interactive(), *arguments]
        await self._tmux("clear-history")
        await self._tmux("respawn-pane", "-c", str(self.client.project), *words, *program)
        self.pid = int(await self._tmux("display-message", "-p", "#{pane_pid}"))

    async def visible(self) -> str:
        """What it shows now."""
        return await self._tmux("capture-pane", "-p", "-J")

    async def screen(self) -> str:
        """What it shows, and what has scrolled away."""
        return await self._tmux("capture-pane", "-p", "-J", "-S", "-")

    async def shows(self, text: str, *, within_s: float = SHOWN_S) -> str:
        """Wait for a text on the screen; the whole screen."""
        seen = ""

        async def look() -> bool:
            nonlocal seen
            seen = await self.screen()
            return text in seen

        try:
            await until(look, within_s=within_s, what=text)
        except AssertionError:
            raise AssertionError(f"no {text!r} within {within_s} s on\n{seen}") from None
        return seen

    async def type(self, text: str) -> None:
        """Type a line, see it arrive, and send it off."""
        await self.draft(text)
        await pass_time(HAND_S)
        await self.press("Enter")

    async def draft(self, text: str) -> None:
        """Type a text, see it arrive, and leave it."""
        await self._tmux("send-keys", "-l", text)
        await self.shows(text)

    async def press(self, key: str) -> None:
        """Press a key, by tmux's name for it."""
        await self._tmux("send-keys", key)

    async def busy(self) -> None:
        """Wait until the model works."""

        async def look() -> bool:
            return bool(re.search(self.client.busy_mark, await self.visible()))

        await until(look, within_s=SHOWN_S, what=f"{self.client.kind} busy")

    async def idle(self) -> None:
        """Wait until it takes the next prompt."""

        async def look() -> bool:
            return not re.search(self.client.busy_mark, await self.visible())

        await until(look, within_s=SHOWN_S, what=f"{self.client.kind} idle")

    async def interrupt(self) -> None:
        """Interrupt the model, as a user does."""
        await self.busy()
        for key in self.client.interrupt_keys:
            await self.press(key)
            await pass_time(HAND_S)
        await self.idle()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the client and all that it has in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def ended(self) -> None:
        """Wait until the client is gone."""

        async def dead() -> bool:
            return (await self._tmux("display-message", "-p", "#{pane_dead}")).strip() == "1"

        await until(dead, within_s=SHOWN_S, what="the end of the client")

    async def end(self) -> None:
        """End the client and its tmux."""
        if self.pid:
            self.kill()
        with suppress(AssertionError):
            await self._tmux("kill-server")

    async def _tmux(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "tmux",
            "-u",
            "-S",
            str(self._folder / "socket"),
            *arguments,
            env={
                "PATH": self.client.environment()["PATH"],  # tmux gives its own to what it starts
                "HOME": str(self._folder),
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(COMMAND_S):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()
