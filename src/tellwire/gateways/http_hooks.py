"""Hooks over HTTP on loopback, for clients that can call one without starting a process.

A request needs the installation's token, our own Host and no Origin (SEC-4). An answer leaves in one write.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Mapping
from typing import Any, cast

import h11
import msgspec

from tellwire.gateways.doors import ANSWER_S
from tellwire.gateways.guarding import Guarding
from tellwire.gateways.hooks import Hooks
from tellwire.gateways.listening import Listens, listener, on_our_clock
from tellwire.gateways.plugins import PluginDoor
from tellwire.gateways.starts import read_payload

log = logging.getLogger("tellwire.hooks")

PATH = b"/hooks/"
POLL_PATH = b"/wait/"
BODY_BYTES_MAX = 1 << 20
"""Of a larger body only the beginning is kept; all of it is taken."""
HEAD_BYTES = 1 << 16
IDLE_S = 600.0


class HttpHooks(asyncio.Protocol):
    """One connection of a client; it may bring many hooks, one after another."""

    def __init__(
        self, hooks: Hooks, guarding: Guarding, plugins: PluginDoor, *, token: str, port: int
    ) -> None:
        self._hooks = hooks
        self._guarding = guarding
        self._plugins = plugins
        self._token = token.encode()
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}
        self._wire = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._size = 0
        self._busy = False
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connects."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It went."""
        del exc
        self._transport = None
        if not self._gone.done():
            self._gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take bytes in; a request is served when it is whole."""
        try:
            self._wire.receive_data(data)
            self._go_on()
        except h11.RemoteProtocolError:
            self._close()

    def eof_received(self) -> None:
        """The client sends no more."""
        self._close()

    def _go_on(self) -> None:
        while not self._busy:
            event = self._wire.next_event()
            if isinstance(event, h11.Request):
                self._request, self._size = event, 0
                self._body.clear()
            elif isinstance(event, h11.Data):
                self._size += len(event.data)
                if len(self._body) < BODY_BYTES_MAX:
                    self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._busy = True
                self._hooks.run(self._serve())
            else:
                return

    async def _serve(self) -> None:
        request = cast("h11.Request", self._request)
        status, answer = self._refusal(request), b""
        if not status:
            status, answer = 200, await self._answer(request)
        transport = self._transport
        if transport is None:
            return
        headers = [("content-type", "application/json"), ("content-length", str(len(answer)))]
        parts = [
            self._wire.send(h11.Response(status_code=status, headers=headers)),
            self._wire.send(h11.Data(data=answer)),
            self._wire.send(h11.EndOfMessage()),
        ]
        transport.write(b"".join(part for part in parts if part))
        self._busy = False
        if self._wire.our_state is h11.MUST_CLOSE:
            self._close()
            return
        self._wire.start_next_cycle()
        try:
            self._go_on()
        except h11.RemoteProtocolError:
            self._close()

    def _refusal(self, request: h11.Request) -> int:
        headers = {name.lower(): value for name, value in request.headers}
        if headers.get(b"host") not in self._hosts or b"origin" in headers:
            return 403
        if not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self._token):
            return 401
        if request.method != b"POST":
            return 405
        return 0 if request.target.startswith((PATH, POLL_PATH)) else 404

    async def _answer(self, request: h11.Request) -> bytes:
        client = request.target.split(b"/", 2)[2].decode("ascii", "replace")
        cut = self._size > BODY_BYTES_MAX
        data = bytes(self._body[:HEAD_BYTES]) if cut else bytes(self._body)
        try:
            payload = read_payload(data, cut=cut)
            listens = listener(self._transport, on_our_clock(payload.get("until_ms")))
            if request.target.startswith(POLL_PATH):
                answer = await self._plugins.wait(client, payload, self._gone, listens)
            else:
                async with asyncio.timeout(ANSWER_S):
                    answer = await self._handle(client, payload, listens)
        except (ValueError, TimeoutError) as error:
            self._hooks.fault(client[:40], error)
            log.warning("a hook of %s could not be served: %s", client[:40], str(error)[:200])
            return b""
        except Exception:
            log.exception("a hook of %s failed", client[:40])
            return b""
        return msgspec.json.encode(answer) if answer else b""

    async def _handle(
        self, client: str, payload: Mapping[str, Any], listens: Listens
    ) -> dict[str, Any] | None:
        if self._plugins.serves(client):
            return await self._plugins.tell(client, payload, listens)
        return await self._guarding.handle(client, payload, None, listens)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
