"""A real redis-server on loopback, with a password and nothing on disk; killed as often as one likes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

from tests.integration import daemons
from tests.integration.world import until

PASSWORD = "s3cret"
PORTS_TRIED = 5


def missing() -> str:
    """Why there is no redis-server here; empty if there is one."""
    return "" if shutil.which("redis-server") else daemons.missing()


class RedisServer:
    """One server; `kill` and `start` give one that has forgotten everything, at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """How to reach it."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    async def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        for _ in range(PORTS_TRIED):
            self.port = self.port or _free_port()
            words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            words += ["--requirepass", PASSWORD, "--dir", str(self.folder), "--daemonize", "no", *options]
            if not shutil.which("redis-server"):
                words = daemons.inside(self.folder, *words)
            null = asyncio.subprocess.DEVNULL
            self._process = await asyncio.create_subprocess_exec(*words, stdin=null, stdout=null, stderr=null)
            await until(self._is_settled, what="redis-server listens")
            if self._process.returncode is None:
                return
            self.port = 0
        raise AssertionError("redis-server does not start")

    def _is_settled(self) -> bool:
        assert self._process is not None
        if self._process.returncode is not None:
            return True
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.port)) == 0

    async def kill(self) -> None:
        """End it without a word, as a crash does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
