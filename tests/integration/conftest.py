"""Homes with real brokers; every process that belongs to one is ended, whatever the test does."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tests.integration import daemons, redis_server
from tests.integration.daemons import Sshd
from tests.integration.machines_world import Computer, computers
from tests.integration.program import Program, StartProgram
from tests.integration.redis_server import RedisServer
from tests.integration.world import Home, Join, OpenRaw, Raw

SHORT = {"HEARTBEAT_S": "0.2", "OFFLINE_AFTER_S": "1.0", "BEAT_S": "0.05"}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own, in a folder with a short name; its broker ends with the test."""
    here = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        yield here
    finally:
        here.end()
        shutil.rmtree(here.path, ignore_errors=True)


@pytest.fixture
def quick(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The same with presence times of a second instead of a minute and a half."""
    for name, value in SHORT.items():
        monkeypatch.setenv(f"TELLWIRE_{name}", value)
    return home


@pytest.fixture
async def join(home: Home) -> AsyncIterator[Join]:
    """Join the home's mesh under a name; left at the end of the test. Its first broker starts warm."""
    async with AsyncExitStack() as stack:

        async def enter(name: str, **options: Any) -> tellwire.Agent:
            await asyncio.to_thread(home.up_first)
            return await stack.enter_async_context(tellwire.connect(name, home=home.path, **options))

        yield enter


@pytest.fixture
async def join_cold(home: Home) -> AsyncIterator[Join]:
    """The same where the first who joins is to start the broker."""
    async with AsyncExitStack() as stack:

        async def enter(name: str, **options: Any) -> tellwire.Agent:
            return await stack.enter_async_context(tellwire.connect(name, home=home.path, **options))

        yield enter


@pytest.fixture
async def program(home: Home) -> AsyncIterator[StartProgram]:
    """Start an agent in a process of its own; killed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(name: str = "", **options: Any) -> Program:
            child = await Program.start(home)
            stack.push_async_callback(child.kill)
            if name:
                await asyncio.to_thread(home.up_first)
                await child.join(name, **options)
            return child

        yield start


@pytest.fixture
async def raw(home: Home) -> AsyncIterator[OpenRaw]:
    """Open a connection that says what the test wants; a broker must run."""
    async with AsyncExitStack() as stack:

        async def connect(name: str = "", *, greet: bool = True) -> Raw:
            opened = await Raw.open(home, greet=greet)
            stack.push_async_callback(opened.close)
            if name:
                await opened.register(name)
            return opened

        yield connect


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A real Redis."""
    if reason := redis_server.missing():
        pytest.skip(f"there is no redis-server: {reason}")
    made = RedisServer(tmp_path)
    await made.start()
    try:
        yield made
    finally:
        await made.kill()


@pytest.fixture
async def sshd(tmp_path: Path) -> AsyncIterator[Sshd]:
    """A real sshd; nothing listens when the test is over."""
    if reason := daemons.missing():
        pytest.skip(f"there is no real sshd: {reason}")
    folder = tmp_path / "sshd"
    folder.mkdir()
    made = Sshd(folder)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
    with socket.socket() as line:
        assert line.connect_ex(("127.0.0.1", made.port)) != 0, "something listens still"


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Computer, Computer]]:
    async with computers("laptop", "desk") as (laptop, desk):
        yield laptop, desk
