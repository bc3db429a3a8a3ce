"""Hooks over HTTP on loopback, for clients that can call one without starting a process.

A request needs the installation's token, our own Host and no Origin (SEC-4): that is seen to when its head is
there, before anything of its body is kept. An answer leaves in one write.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol, cast

import h11
import msgspec

from tellwire.sessions.doors.plugin_poll import PluginDoor
from tellwire.sessions.listening import Listens, listener, on_our_clock
from tellwire.sessions.starts import read_payload
from tellwire.sessions.tracker import SessionTracker
from tellwire.sessions.write_guard import Guarding

log = logging.getLogger("tellwire.hooks")

PATH = b"/hooks/"
POLL_PATH = b"/wait/"
PROOF_PATH = b"/proof/"
"""A client may ask us to prove that we know the token, before it sends the token itself."""
NONCE_BYTES_MAX = 128
BODY_BYTES_MAX = 1 << 20
"""Of a larger body only the beginning is kept; all of it is taken."""
HEAD_BYTES = 1 << 16
REQUEST_HEAD_BYTES_MAX = 1 << 13


class HttpTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a connection is waited for before it is closed."""

    head_s: float = 3.0
    """For the head of a request."""
    body_s: float = 5.0
    """For the rest of it."""
    idle_s: float = 600.0
    """Between two requests of a client that has the token."""
    pause_s: float = 1.0
    """Without a free descriptor, how long no connection is accepted."""


class Doorkeeper(Protocol):
    """Counts connections and limits those without a token."""

    def welcome(self, caller: HttpConnection) -> None:
        """A request with the token arrived: the connection is trusted."""
        ...

    def refuse(self) -> None:
        """A request without the token arrived."""
        ...

    def forget(self, caller: HttpConnection) -> None:
        """Stop counting a closed connection."""
        ...


class HttpAccess:
    """Who may ask: requests with the installation's token, for our own address, and not by a web page."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token.encode()
        self._hosts = {f"127.0.0.1:{port}".encode(), f"localhost:{port}".encode()}

    def proof(self, request: h11.Request) -> bytes:
        """That we know the token, for one nonce; empty if that is not what is asked, or by a web page."""
        nonce = request.target.removeprefix(PROOF_PATH)
        bodiless = all(name not in (b"content-length", b"transfer-encoding") for name, _ in request.headers)
        if request.method != b"GET" or not request.target.startswith(PROOF_PATH) or not bodiless:
            return b""
        if len(nonce) > NONCE_BYTES_MAX or not self._is_near(dict(request.headers)):
            return b""
        return hmac.digest(self._token, b"tellwire broker " + nonce, "sha256").hex().encode()

    def _is_near(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request is for our own address, and not by a web page."""
        return headers.get(b"host") in self._hosts and b"origin" not in headers

    def refusal(self, request: h11.Request) -> int:
        """The status by which a request is refused; 0 if it may be served."""
        headers = {name.lower(): value for name, value in request.headers}
        if not self._is_near(headers):
            return 403
        if not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self._token):
            return 401
        if request.method != b"POST":
            return 405
        return 0 if request.target.startswith((PATH, POLL_PATH)) else 404


class HookResponder:
    """Answers hooks and polls that came over HTTP, whichever connection they came on."""

    def __init__(
        self, tracker: SessionTracker, guarding: Guarding, plugins: PluginDoor, *, answer_s: float
    ) -> None:
        self._tracker = tracker
        self._guarding = guarding
        self._plugins = plugins
        self._answer_s = answer_s
        self.run = tracker.run

    async def answer(
        self,
        target: bytes,
        data: bytes,
        *,
        cut: bool,
        transport: asyncio.Transport | None,
        gone: asyncio.Future[None],
    ) -> bytes:
        """The body of the answer to one request; `gone` is done when its connection is."""
        client = target.split(b"/", 2)[2].decode("ascii", "replace")
        try:
            payload = read_payload(data, cut=cut)
            listens = listener(transport, on_our_clock(payload.get("until_ms")))
            if target.startswith(POLL_PATH):
                answer = await self._plugins.wait(client, payload, gone, listens)
            else:
                async with asyncio.timeout(self._answer_s):
                    answer = await self._handle(client, payload, listens)
        except (ValueError, TimeoutError) as error:
            self._tracker.faults.note(client[:40], error)
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
            return await self._plugins.report(client, payload, listens)
        return await self._guarding.handle(client, payload, None, listens)


class HttpConnection(asyncio.Protocol):
    """One connection of a client; it may bring many hooks, one after another."""

    def __init__(
        self, door: Doorkeeper, access: HttpAccess, responder: HookResponder, times: HttpTimes
    ) -> None:
        self._times = times
        self._door = door
        self._access = access
        self._responder = responder
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._size = 0
        self._busy = False
        self._is_over = False
        """Further input is ignored."""
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.deadline = time.monotonic() + self._times.head_s
        """When it is closed unless it goes on; far away while a request is served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the connection if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        if self._is_over:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for the rest of the request, and stop counting the connection."""
        del exc
        self._transport = None
        self._door.forget(self)
        if not self._gone.done():
            self._gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take bytes in; a request is served when it is whole."""
        if self._is_over:
            return
        try:
            self._wire.receive_data(data)
            if self._busy:  # it may say what comes next, but not much of it
                self._read(on=False)
                return
            if self._wire.their_state is h11.IDLE:
                self.deadline = min(self.deadline, time.monotonic() + self._times.head_s)
            self._go_on()
        except h11.RemoteProtocolError:
            self._door.refuse()
            self._close()

    def eof_received(self) -> None:
        """Treat the end of the input as the end of the connection."""
        self._close()

    def drop(self) -> None:
        """Close at once, whatever is still unsent."""
        self._is_over = True
        self._body.clear()
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Feed h11 with what has come, until a request is complete or more bytes are needed."""
        while not self._busy and not self._is_over:
            event = self._wire.next_event()
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data) and self._request is not None:
                self._size += len(event.data)
                if len(self._body) < BODY_BYTES_MAX:
                    self._body += event.data
            elif isinstance(event, h11.EndOfMessage) and self._request is None:
                self._go_on_after_proof()
            elif isinstance(event, h11.EndOfMessage):
                self._busy = True
                self.deadline = float("inf")
                self._responder.run(self._serve())
            else:
                return

    def _begin(self, request: h11.Request) -> None:
        """The head is there: the rest is waited for only if it is ours."""
        self._request = None
        if proof := self._access.proof(request):
            self._say(200, proof)
            return
        if status := self._access.refusal(request):
            self._door.refuse()
            self._say(status, b"", more=[("connection", "close")])
            self._close()
            return
        self._door.welcome(self)
        self._request, self._size = request, 0
        self._body.clear()
        self.deadline = time.monotonic() + self._times.body_s

    def _go_on_after_proof(self) -> None:
        if self._wire.our_state is h11.DONE:
            self._wire.start_next_cycle()
        else:
            self._close()

    async def _serve(self) -> None:
        """Answer one complete request, then go on with the next one on the same connection."""
        cut = self._size > BODY_BYTES_MAX
        data = bytes(self._body[:HEAD_BYTES]) if cut else bytes(self._body)
        target = cast("h11.Request", self._request).target
        answer = await self._responder.answer(
            target, data, cut=cut, transport=self._transport, gone=self._gone
        )
        if self._transport is None or self._is_over:
            return
        self._say(200, answer)
        self._busy = False
        self.deadline = time.monotonic() + self._times.idle_s
        if self._wire.our_state is h11.MUST_CLOSE:
            self._close()
            return
        self._wire.start_next_cycle()
        self._read(on=True)
        try:
            self._go_on()
        except h11.RemoteProtocolError:
            self._close()

    def _say(self, status: int, answer: bytes, *, more: list[tuple[str, str]] | None = None) -> None:
        headers = [("content-type", "application/json"), ("content-length", str(len(answer)))]
        parts = [
            self._wire.send(h11.Response(status_code=status, headers=[*headers, *(more or ())])),
            self._wire.send(h11.Data(data=answer)),
            self._wire.send(h11.EndOfMessage()),
        ]
        if self._transport is not None:
            self._transport.write(b"".join(part for part in parts if part))

    def _read(self, *, on: bool) -> None:
        transport = self._transport
        if transport is not None and transport.is_reading() != on:
            (transport.resume_reading if on else transport.pause_reading)()

    def _close(self) -> None:
        self._is_over = True
        self.deadline = time.monotonic() + self._times.head_s
        if self._transport is not None:
            self._transport.close()
