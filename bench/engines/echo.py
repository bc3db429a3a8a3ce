"""The limit as an engine: one round trip of the body's bytes for each message, nothing stored."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from bench import echo_server
from bench.engine import Client, Handle, Received
from bench.engines.child import ChildEngine
from bench.engines.inbox import Inbox


class EchoClient(asyncio.Protocol):
    """What comes back counts as acknowledged, received and confirmed at once."""

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._awaited_bytes = 0
        self._answered: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._awaited_bytes -= len(data)
        if self._awaited_bytes == 0 and self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    async def send(self, to: int, body: str) -> None:  # noqa: ARG002  (an echo comes back to its sender)
        data = body.encode()
        self._awaited_bytes = len(data)
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        await self._answered
        self._inbox.put(Received(0, body))

    async def receive(self) -> Sequence[Received]:
        return await self._inbox.take()

    async def confirm(self, handles: Sequence[Handle]) -> None:
        pass

    async def close(self) -> None:
        self._transport.close()


class EchoEngine(ChildEngine):
    """`bench/echo_server.py` in a process of its own."""

    name = "echo"

    def __init__(self) -> None:
        super().__init__()
        self._socket = Path()

    def start(self, folder: Path) -> None:
        self._socket = folder / "echo.sock"
        self.serve(
            [sys.executable, echo_server.__file__, str(self._socket)], folder / "echo.log", self._socket
        )

    async def client(self, number: int) -> Client:  # noqa: ARG002  (echo clients have no names)
        _, client = await asyncio.get_running_loop().create_unix_connection(EchoClient, str(self._socket))
        return client
