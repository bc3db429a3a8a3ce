"""A child with a scope whose client is a stand-in with hooks, as a test talks to it: through two pipes."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import tellwire
from tests.integration.hook_client import CODEX, Client
from tests.integration.world import ROOT, WITHIN_S, until


class Kid(Client):
    """The stand-in, as the child that somebody started."""

    def __init__(self, pid: int, reader: Any, writer: Any, rollout: Path) -> None:
        self.pid = pid
        self.rollout = rollout
        self._answers = 0
        self._stdin, self._stdout = writer, reader


class _Pipe:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)

    def close(self) -> None:
        os.close(self._fd)


@asynccontextmanager
async def open_kid(
    boss: tellwire.Agent, folder: Path, *scope: Path, name: str = "kid"
) -> AsyncGenerator[Kid]:
    """A child that may write in its scope, up and registered; ended with the block."""
    told, said = folder / f"{name}.in", folder / f"{name}.out"
    os.mkfifo(told)
    os.mkfifo(said)
    words = shlex.join([sys.executable, "-m", "tests.integration.stand_in", CODEX])
    script = f"cd {shlex.quote(str(ROOT))} && exec {words} <{told} >{said}"
    pipe = _Pipe(told)
    reader = asyncio.StreamReader()
    file = os.fdopen(os.open(said, os.O_RDWR), "rb", buffering=0)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
    try:
        starting = asyncio.ensure_future(
            boss.children.spawn(
                name,
                "command",
                "work",
                scope=[str(path) for path in scope],
                command=["/bin/sh", "-c", script],
                headless=True,
                cwd=str(folder),
            )
        )
        kid = Kid(0, reader, pipe, folder / f"{name}.jsonl")
        await kid.do("join", name=name)
        await starting
        kid.pid = (await kid.do("who"))["pid"]
        yield kid
    finally:
        with suppress(tellwire.TellwireError):  # it has ended by itself
            await boss.children.stop(name)

        async def gone() -> bool:
            return not any(each.name == name for each in await boss.children.all())

        await until(gone, within_s=WITHIN_S, what="the child's end")
        transport.close()
        pipe.close()
