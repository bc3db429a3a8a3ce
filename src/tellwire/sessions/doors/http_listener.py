"""The listener for HTTP on loopback: how many connections there may be, and for how long one may say nothing.

Anybody on the machine can connect, so a connection is worth nothing until a request with the token has come
on it: such strangers are few at a time, the oldest makes room for the newest, and all of them are gone within
seconds. Descriptors are counted before a connection is taken in; most of them are the local socket's.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from tellwire.sessions.doors.hook_http import HttpConnection, HttpTimes
from tellwire.system.tasks import Tasks

HOST = "127.0.0.1"
BACKLOG = 128
ACCEPTS_MAX = 16
"""Connections accepted in one turn of the loop, so that other work is not delayed."""
STRANGERS_MAX = 32


class HttpDoor:
    """All connections of one listener."""

    def __init__(
        self,
        port: int,
        make: Callable[[HttpDoor], HttpConnection],
        note: Callable[[str], None],
        *,
        connections_max: int,
        times: HttpTimes,
    ) -> None:
        self._times = times
        self._make = make
        self._note = note
        """Counts refused connections, by reason, for the log."""
        self._connections_max = connections_max
        self._callers: dict[HttpConnection, None] = {}
        """All open connections."""
        self._unknown: dict[HttpConnection, None] = {}
        """The open connections without a token, oldest first."""
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()
        self._socket = socket.create_server((HOST, port), backlog=BACKLOG)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Stop accepting connections."""
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def sweep(self) -> None:
        """Close connections that missed their deadline."""
        now = time.monotonic()
        for caller in [each for each in self._callers if each.deadline < now]:
            self._drop(caller, "by HTTP that stopped in the middle of a request or never began one")

    def welcome(self, caller: HttpConnection) -> None:
        """Trust a connection: a request with the token came."""
        self._unknown.pop(caller, None)

    def refuse(self) -> None:
        """Count a request without the token."""
        self._note("by HTTP without our token, Host or path")

    def forget(self, caller: HttpConnection) -> None:
        """Stop counting a connection that is closed."""
        self._callers.pop(caller, None)
        self._unknown.pop(caller, None)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError:
                self._note("by HTTP for want of descriptors")
                self._loop.remove_reader(self._socket)
                self._loop.call_later(self._times.pause_s, self._resume)
                return
            self._admit(sock)

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _admit(self, sock: socket.socket) -> None:
        crowded = len(self._callers) >= self._connections_max
        if (crowded or len(self._unknown) >= STRANGERS_MAX) and self._unknown:
            self._drop(next(iter(self._unknown)), "by HTTP that held up others")
        elif crowded:
            sock.close()
            self._note("by HTTP beyond the bound of connections")
            return
        caller = self._make(self)
        self._callers[caller] = self._unknown[caller] = None
        self._tasks.run(self._take(sock, caller))

    async def _take(self, sock: socket.socket, caller: HttpConnection) -> None:
        try:
            sock.setblocking(False)
            await self._loop.connect_accepted_socket(lambda: caller, sock)
        except OSError:
            sock.close()
            self.forget(caller)

    def _drop(self, caller: HttpConnection, reason: str) -> None:
        if caller in self._unknown:
            self._note(reason)
        self._unknown.pop(caller, None)
        caller.drop()
