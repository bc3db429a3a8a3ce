"""Codex's app-server: one process that runs the sessions of several terminals; a few questions to it.

Terminals talk to it in JSON-RPC, in WebSocket frames on a socket of its own folder, and so does tellwire. It
is asked only what its hooks and its MCP client do not tell. Seen with 0.166.0.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from tellwire.system.processes import cmdline, environ, peer_credentials
from tellwire.version import VERSION

PLACE = Path("app-server-control", "app-server-control.sock")
KEPT = ("HOME", "CODEX_HOME", "PATH", "LANG", "TMPDIR")
"""Of the client's environment: where its files are, and no keys."""
OPEN_S = 2.0
CALL_S = 5.0
BYTES_MAX = 8 << 20
HEAD_BYTES_MAX = 16 << 10
NAME = "tellwire"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA


class AppServerError(Exception):
    """The app-server cannot be asked, or gives no answer."""


class AppServerSilentError(AppServerError):
    """The app-server did not answer in time."""


class AppServerRefusedError(AppServerError):
    """The app-server refused the request."""


class AppServer:
    """One connection, for one question after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, pid: int) -> AsyncGenerator[AppServer]:
        """A connection to the app-server that is this process.

        Raises:
            AppServerError: there is none.
        """
        try:
            async with asyncio.timeout(OPEN_S):
                reader, writer = await asyncio.open_unix_connection(socket_of(pid), limit=HEAD_BYTES_MAX)
        except TimeoutError as error:
            raise AppServerSilentError("no connection") from error
        except (OSError, ValueError) as error:
            raise AppServerError(f"no connection: {error}") from error
        try:
            server = cls(reader, writer)
            server._check(pid)
            await server._greet()
            yield server
        finally:
            writer.close()

    def _check(self, pid: int) -> None:
        """What listens there has to be that process and nobody else."""
        try:
            found: socket.socket = self._writer.get_extra_info("socket")
            listener = peer_credentials(found.fileno()).pid
        except OSError as error:
            raise AppServerError(str(error)) from error
        if listener != pid:
            raise AppServerError("another process listens in its place")

    async def _greet(self) -> None:
        """Upgrade the connection to WebSocket, and initialise the session."""
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = (
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self._writer.write(upgrade.encode())
        try:
            async with asyncio.timeout(OPEN_S):
                head = await self._reader.readuntil(b"\r\n\r\n")
        except TimeoutError as error:
            raise AppServerSilentError("no greeting") from error
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise AppServerError(f"no greeting: {error}") from error
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise AppServerError("it does not speak WebSocket")
        await self.call(
            "initialize",
            clientInfo={"name": NAME, "version": VERSION},
            capabilities={"experimentalApi": True},
        )
        self._write(_TEXT, msgspec.json.encode({"method": "initialized"}))

    async def call(self, method: str, *, within_s: float = CALL_S, **params: Any) -> dict[str, Any]:
        """Ask, and what it answers.

        Raises:
            AppServerRefusedError: it refuses.
            AppServerError: no answer came; nobody knows whether it was done.
        """
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        self._write(_TEXT, msgspec.json.encode(asked))
        try:
            async with asyncio.timeout(within_s):
                while True:
                    said = await self._next()
                    if said.get("id") == self._number and "method" not in said:
                        break
        except TimeoutError as error:
            raise AppServerSilentError(f"{method}: no answer") from error
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            raise AppServerError(f"{method}: {error}") from error
        result = said.get("result")
        if not isinstance(result, dict):
            raise AppServerRefusedError(f"{method}: {str(said.get('error'))[:200]}")
        return cast("dict[str, Any]", result)

    async def _next(self) -> dict[str, Any]:
        """The next message; frames that carry none are dealt with."""
        parts: list[bytes] = []
        while True:
            head = await self._reader.readexactly(2)
            size = head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
            if size + sum(map(len, parts)) > BYTES_MAX:
                raise ValueError("a message is too long")
            data, kind = await self._reader.readexactly(size), head[0] & 0xF
            if kind == _PING:
                self._write(_PONG, data)
            elif kind == _CLOSE:
                raise EOFError("closed")
            elif kind <= _BINARY:  # or the continuation of one
                parts.append(data)
                if head[0] & 0x80:
                    return msgspec.json.decode(b"".join(parts), type=dict[str, Any])

    def _write(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            length = bytes([0x80 | size])
        else:
            length = struct.pack(">BH", 0xFE, size) if size < 1 << 16 else struct.pack(">BQ", 0xFF, size)
        # A client has to mask what it sends; with a mask of zeros it stays as it is.
        self._writer.write(bytes([0x80 | kind]) + length + bytes(4) + data)


def socket_of(pid: int) -> str:
    """Where the terminals of this app-server reach it."""
    environment = environment_of(pid)
    folder = environment.get("CODEX_HOME") or os.path.join(environment.get("HOME", ""), ".codex")
    # The name in its folder is a link to a shorter one, if its own is too long for a socket.
    return os.path.realpath(os.path.join(folder, PLACE))


def is_app_server(pid: int) -> bool:
    """Whether a process is an app-server: it may run the sessions of several terminals."""
    return "app-server" in cmdline(pid)


def is_once(pid: int) -> bool:
    """Whether a process does one run and ends."""
    return "exec" in cmdline(pid)[1:]


def environment_of(pid: int) -> dict[str, str]:
    """What a client's own commands need of its environment."""
    return {name: value for name, value in (environ(pid) or {}).items() if name in KEPT}
