"""A tmux server of a test's own, and a person before it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.integration.world import ROOT

COMMAND_S = 60.0


class Tmux:
    """One server on a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._people: list[tuple[subprocess.Popen[bytes], int]] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, *words: str, environment: Mapping[str, str] | None = None) -> AsyncGenerator[Tmux]:
        """A server whose first pane runs a program; all of it ends with the block."""
        tmux = cls(Path(tempfile.mkdtemp(prefix="tlw-tmux-")))
        try:
            (tmux.folder / "conf").write_text("set -g remain-on-exit on\nset -s escape-time 0\n")
            pairs = [
                f"{name}={value}" for name, value in (environment or {"PATH": os.environ["PATH"]}).items()
            ]
            await tmux.run(
                *("-f", str(tmux.folder / "conf"), "new-session", "-d", "-x", "120", "-y", "30"),
                *("-c", str(ROOT), "env", "-i", *pairs, *words),
            )
            yield tmux
        finally:
            tmux.leave()
            with suppress(AssertionError):
                await tmux.run("kill-server")
            shutil.rmtree(tmux.folder, ignore_errors=True)

    async def run(self, *words: str) -> str:
        """One command."""
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-u", "-S", str(self.folder / "socket"), *words),
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(COMMAND_S):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def pid(self) -> int:
        """The program of the first pane."""
        return int(await self.run("display-message", "-p", "-t", "0.0", "#{pane_pid}"))

    async def server(self) -> int:
        """The server itself."""
        return int(await self.run("display-message", "-p", "#{pid}"))

    async def screen(self) -> str:
        """What the first pane shows."""
        return await self.run("capture-pane", "-p", "-t", "0.0")

    def attach(self) -> int:
        """A person's terminal; what is written to the descriptor is typed."""
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("4H", 30, 120, 0, 0))
        words = ["tmux", "-u", "-S", str(self.folder / "socket"), "attach"]
        person = subprocess.Popen(
            words,
            stdin=there,
            stdout=there,
            stderr=there,
            env=self._environment(),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
        )
        os.close(there)
        self._people.append((person, here))
        return here

    def leave(self) -> None:
        """The people go."""
        for person, terminal in self._people:
            person.send_signal(signal.SIGKILL)
            person.wait()
            os.close(terminal)
        self._people.clear()

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.folder), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
