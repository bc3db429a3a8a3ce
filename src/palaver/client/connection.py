"""One live socket to the broker: greeting, calls out, frames in. It neither retries nor reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from palaver.protocol.errors import PalaverError
from palaver.protocol.frames import (
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
REPLY_BYTES_MAX = 64 << 20
"""The broker is trusted; a listing of ten thousand agents must fit."""


class Connection(asyncio.Protocol):
    """Hands every frame to `on_frame`, and tells `on_lost` once that it is over."""

    def __init__(
        self, on_frame: Callable[[BrokerFrame], None], on_lost: Callable[[Connection], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._decoder = LineDecoder(REPLY_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self._greeted = False
        self.goodbye: PalaverError | None = None
        """Why the broker closed the connection, if it said so."""

    async def greet(self, program: str) -> Welcome:
        """Exchange greetings.

        Raises:
            PalaverError: the broker refuses, or is none.
        """
        self.write(format_frame(Hello(palaver=PROTOCOL, program=program)))
        try:
            async with asyncio.timeout(GREETING_S):
                return await self._welcome
        except TimeoutError:
            self.close()
            raise PalaverError("unreachable", "The broker accepts connections but does not answer.") from None

    @property
    def alive(self) -> bool:
        """Whether the socket is still open."""
        return self._transport is not None

    def write(self, data: bytes) -> None:
        """Send bytes; silently nothing once the connection is over."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        # uvloop's transports have the methods of asyncio's, but are not of its class
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Cut the bytes into frames."""
        try:
            lines = self._decoder.feed(data)
            if not self._greeted and lines:
                self._take_welcome(lines.pop(0))
            for line in lines:
                frame = parse_broker_frame(line)
                if frame.error is not None and frame.n == 0:
                    self.goodbye = frame.error.error()
                else:
                    self._on_frame(frame)
        except PalaverError as error:
            self.goodbye = error
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        del exc
        self._transport = None
        if not self._welcome.done():
            error = self.goodbye or PalaverError("unreachable", "The broker closed the connection at once.")
            self._welcome.set_exception(error)
            self._welcome.exception()  # looked at, even if nobody waits for it any more
        self._on_lost(self)

    def _take_welcome(self, line: bytes) -> None:
        welcome = parse_welcome(line)
        self._greeted = True
        if not self._welcome.done():
            self._welcome.set_result(welcome)


async def open_connection(
    path: Path, on_frame: Callable[[BrokerFrame], None], on_lost: Callable[[Connection], None]
) -> Connection:
    """Connect to a broker's socket.

    Raises:
        OSError: nobody listens there.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_unix_connection(lambda: Connection(on_frame, on_lost), str(path))
    return connection
