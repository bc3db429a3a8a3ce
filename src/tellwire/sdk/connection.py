"""One live socket to the broker: greeting, calls out, frames in. It neither retries nor reconnects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import cast

from tellwire.paths import StrangerError, check_folder, check_peer
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import (
    PROTOCOL,
    BrokerFrame,
    Hello,
    LineDecoder,
    Welcome,
    format_frame,
    parse_broker_frame,
    parse_welcome,
)

GREETING_S = 10.0
BUFFER_BYTES = 16 << 10
REPLY_BYTES_MAX = 64 << 20
"""The broker is trusted; a listing of ten thousand agents must fit."""


class BrokerConnection(asyncio.BufferedProtocol):
    """Hands every frame to `on_frame`, and tells `on_lost` once that it is over.

    It reads into a buffer of its own: asyncio's loop would map fresh memory for each read.
    """

    def __init__(
        self, on_frame: Callable[[BrokerFrame], None], on_lost: Callable[[BrokerConnection], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._decoder = LineDecoder(REPLY_BYTES_MAX)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._welcome: asyncio.Future[Welcome] = self._loop.create_future()
        self._greeted = False
        self.same_clock = False
        """Whether the broker's monotonic clock is this process's too: it is on one machine, outside of
        containers with a clock of their own."""
        self.goodbye: TellwireError | None = None
        """Why the broker closed the connection, if it said so."""

    async def greet(self, program: str) -> Welcome:
        """Exchange greetings.

        Raises:
            TellwireError: the broker refuses, or is none.
        """
        asked = monotonic()
        self.write(format_frame(Hello(tellwire=PROTOCOL, program=program)))
        try:
            async with asyncio.timeout(GREETING_S):
                welcome = await self._welcome
            self.same_clock = asked <= welcome.clock <= monotonic()
            return welcome
        except TimeoutError:
            self.close()
            raise TellwireError(
                "unreachable", "The broker accepts connections but does not answer."
            ) from None

    @property
    def alive(self) -> bool:
        return self._transport is not None

    def write(self, data: bytes) -> None:
        """Send bytes, together with all that is written in this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        """Silently nothing once the connection is over."""
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's, but are not of its class
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            lines = self._decoder.feed(bytes(self._buffer[:nbytes]))
            if not self._greeted and lines:
                self._take_welcome(lines.pop(0))
            for line in lines:
                frame = parse_broker_frame(line)
                if frame.error is not None and frame.n == 0:
                    self.goodbye = frame.error.error()
                else:
                    self._on_frame(frame)
        except TellwireError as error:
            self.goodbye = error
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        if not self._welcome.done():
            error = self.goodbye or TellwireError(
                "unreachable", "The broker closed the connection immediately."
            )
            self._welcome.set_exception(error)
            self._welcome.exception()  # looked at, even if nobody waits for it any more
        self._on_lost(self)

    def _take_welcome(self, line: bytes) -> None:
        welcome = parse_welcome(line)
        self._greeted = True
        if not self._welcome.done():
            self._welcome.set_result(welcome)


async def open_connection(
    path: Path, on_frame: Callable[[BrokerFrame], None], on_lost: Callable[[BrokerConnection], None]
) -> BrokerConnection:
    """Connect to the socket of a broker of this user's.

    Raises:
        OSError: nobody listens there.
        TellwireError: `forbidden`: another user does, or could.
    """
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        check_folder(str(path))
        await loop.sock_connect(sock, str(path))
        check_peer(sock)
        _, connection = await loop.create_unix_connection(
            lambda: BrokerConnection(on_frame, on_lost), sock=sock
        )
    except BaseException as error:
        sock.close()
        if isinstance(error, StrangerError):
            raise TellwireError("forbidden", str(error), "Nothing was sent.") from error
        raise
    return connection
