"""The naive broker as an engine, with the client its author would write: streams and json."""

import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import naive_broker
from bench.engine import Client, Handle, Received
from bench.engines.child import ChildEngine
from bench.engines.inbox import Inbox


class NaiveClient:
    """One connection; a task reads it and sorts answers from pushed messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._inbox = Inbox()
        self._requests = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._reading = asyncio.create_task(self._read())

    async def hello(self, name: str) -> None:
        """Take a name."""
        await self._call({"op": "hello", "name": name})

    async def send(self, to: int, body: str) -> None:
        await self._call({"op": "send", "to": f"agent-{to}", "body": body})

    async def receive(self) -> Sequence[Received]:
        return await self._inbox.take()

    async def confirm(self, handles: Sequence[Handle]) -> None:
        await self._call({"op": "confirm", "ids": handles})

    async def close(self) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._writer.close()

    async def _call(self, request: dict[str, Any]) -> None:
        number = next(self._requests)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        self._writer.write(json.dumps({"request": number, **request}).encode() + b"\n")
        await self._writer.drain()
        await answered

    async def _read(self) -> None:
        while line := await self._reader.readline():
            message = json.loads(line)
            if "answer" in message:
                answered = self._waiting.pop(message["answer"])
                if not answered.done():
                    answered.set_result(None)
            else:
                self._inbox.put(Received(message["id"], message["body"]))
        for answered in self._waiting.values():
            answered.set_exception(ConnectionResetError("the naive broker closed the connection"))


class NaiveEngine(ChildEngine):
    """`bench/naive_broker.py` in a process of its own, on the standard event loop."""

    name = "naive"

    def __init__(self) -> None:
        super().__init__()
        self._socket = Path()

    def start(self, folder: Path) -> None:
        self._socket = folder / "naive.sock"
        command = [sys.executable, naive_broker.__file__, str(self._socket), str(folder / "naive.db")]
        self.serve(command, folder / "naive.log", self._socket)

    async def client(self, number: int) -> Client:
        client = NaiveClient(*await asyncio.open_unix_connection(str(self._socket)))
        await client.hello(f"agent-{number}")
        return client
