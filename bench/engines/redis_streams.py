"""Redis Streams through redis-py: one stream and one consumer group for each agent.

A send is XADD, a receive a blocking XREADGROUP, a confirmation XACK. Two ways of using redis-py:

- plain: one `Redis` object for each agent, everything else left as it comes;
- tuned: one fixed connection for each of the three commands and no socket timeout. The timeout costs
  redis-py a timer for each read, the pool some work for each command: without both it is about 1.6 times
  as fast. The targets were set against the plain way; the tuned one shows what Redis users can reach.
"""

import importlib
import importlib.util
import shutil
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from bench.engine import Client, Handle, Missing, Received
from bench.engines.child import ChildEngine

GROUP = "agents"
BLOCK_MS = 1000
BATCH = 100
_TUNED = {"single_connection_client": True, "socket_timeout": None}


class Commands(Protocol):
    """What is used of `redis.asyncio.Redis`; redis-py is optional, so its types are not imported."""

    def xadd(self, name: str, fields: Mapping[str, str]) -> Awaitable[bytes]: ...
    def xack(self, name: str, groupname: str, *ids: Handle) -> Awaitable[int]: ...
    def xgroup_create(self, name: str, groupname: str, id: str, mkstream: bool) -> Awaitable[Any]: ...
    def xreadgroup(
        self, groupname: str, consumername: str, streams: Mapping[str, str], count: int, block: int
    ) -> Awaitable[Any]: ...
    def ping(self) -> Awaitable[bool]: ...
    def aclose(self) -> Awaitable[None]: ...


class RedisClient:
    """What one agent does; the three may be one object with a pool, or three with a connection each."""

    def __init__(self, number: int, sender: Commands, reader: Commands, confirmer: Commands) -> None:
        self._stream = f"inbox:{number}"
        self._sender = sender
        self._reader = reader
        self._confirmer = confirmer

    async def join(self) -> None:
        """Open all connections; make the agent's stream and its group."""
        for commands in {self._sender, self._reader, self._confirmer}:
            await commands.ping()
        await self._confirmer.xgroup_create(self._stream, GROUP, id="$", mkstream=True)

    async def send(self, to: int, body: str) -> None:
        await self._sender.xadd(f"inbox:{to}", {"body": body})

    async def receive(self) -> Sequence[Received]:
        answer = await self._reader.xreadgroup(GROUP, "me", {self._stream: ">"}, count=BATCH, block=BLOCK_MS)
        if not answer:
            return []
        entries = answer[0][1]
        return [Received(identity, fields[b"body"].decode()) for identity, fields in entries]

    async def confirm(self, handles: Sequence[Handle]) -> None:
        await self._confirmer.xack(self._stream, GROUP, *handles)

    async def close(self) -> None:
        for commands in {self._sender, self._reader, self._confirmer}:
            await commands.aclose()


class RedisEngine(ChildEngine):
    """Debian's redis-server on a Unix socket of its own, with an append-only file."""

    def __init__(
        self, fsync: Literal["always", "everysec"], way: Literal["plain", "tuned"] = "plain"
    ) -> None:
        self.name = f"redis {fsync}" if way == "plain" else f"redis {fsync} tuned"
        self._fsync = fsync
        self._way = way
        super().__init__()
        self._socket = Path()

    def start(self, folder: Path) -> None:
        server = shutil.which("redis-server")
        if server is None:
            raise Missing("redis-server is not installed (Debian: apt-get install redis-server)")
        for module in ("redis", "hiredis"):
            if importlib.util.find_spec(module) is None:
                raise Missing(f"{module} is not installed in this Python")
        self._socket = folder / "redis.sock"
        options = {
            "port": "0",
            "tcp-backlog": "1024",
            "unixsocket": str(self._socket),
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "auto-aof-rewrite-percentage": "0",
            "save": "",
            "daemonize": "no",
        }
        arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        self.serve([server, *arguments], folder / "redis.log", self._socket)

    async def client(self, number: int) -> Client:
        if self._way == "plain":
            commands = self._connect()
            client = RedisClient(number, commands, commands, commands)
        else:
            client = RedisClient(number, *(self._connect(**_TUNED) for _ in range(3)))
        await client.join()
        return client

    def _connect(self, **options: Any) -> Commands:
        library = importlib.import_module("redis.asyncio")
        return cast(Commands, library.Redis(unix_socket_path=str(self._socket), **options))
