"""Streamable HTTP in front of a stdio server, for test suites that speak only HTTP.

Every HTTP session has a process of its own. What is under test is the stdio server: its lines are passed
on byte for byte in both directions, and an answer begins only when the server has begun it. Sessions of
the handshake era only (2025-11-25 and before); no resumption. A cancelled request waits out its bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.mcp.child import END_S, LINE_BYTES_MAX, Child, Line, Lines, parse_message

SESSION_HEADER = "mcp-session-id"
SESSIONS_MAX = 64
REPLY_S = 60.0
CLOSE_S = 5
LOOPBACK = ("127.0.0.1", "localhost")


class RefusedError(Exception):
    """Why the bridge does not pass a request on, with the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Bridge:
    """The HTTP side; ``bridged`` makes one and ends it."""

    def __init__(self, command: Sequence[str], *, url: str, tasks: asyncio.TaskGroup, end_s: float) -> None:
        self.command = command
        self.end_s = end_s
        self.url = url
        self.faults: list[str] = []
        self.pids: list[int] = []
        self._tasks = tasks
        self._sessions: dict[str, Child] = {}
        self._children: dict[Child, asyncio.Task[None]] = {}
        self._listened: set[str] = set()

    async def answer(self, request: Request) -> Response:
        """The one endpoint."""
        try:
            check_loopback(request)
            if request.method == "POST":
                return await self._post(request)
            if request.method == "DELETE":
                return await self._delete(request)
            return self._listen(request)
        except RefusedError as refused:
            return PlainTextResponse(str(refused), refused.status)

    async def end(self) -> None:
        """End every process."""
        await asyncio.gather(*(self._end_child(child) for child in list(self._children)))

    async def _post(self, request: Request) -> Response:
        check_accept(request, "application/json", "text/event-stream")
        body = await read_body(request)
        try:
            message = parse_message(body)
        except ValueError as fault:
            raise RefusedError(400, str(fault)) from None
        if message.get("method") == "initialize" and "id" in message:
            return await self._initialize(request, body, message)
        _, child = self._session(request)
        if "method" in message and "id" in message:
            return await self._ask(child, body, message)
        await self._write(child, body)
        return Response(status_code=202)

    async def _initialize(self, request: Request, body: bytes, message: dict[str, Any]) -> Response:
        if SESSION_HEADER in request.headers:
            raise RefusedError(400, "the session is initialized")
        if len(self._children) >= SESSIONS_MAX:
            raise RefusedError(503, "too many sessions")
        child = await Child.start(self.command, self.faults, end_s=self.end_s)
        self.pids.append(child.process.pid)
        self._children[child] = self._tasks.create_task(child.read())
        try:
            response = await self._ask(child, body, message)
        except RefusedError:
            await self._end_child(child)
            raise
        if is_result(response):
            session = secrets.token_hex(16)
            self._sessions[session] = child
            response.headers[SESSION_HEADER] = session
        else:
            await self._end_child(child)
        return response

    async def _ask(self, child: Child, body: bytes, message: dict[str, Any]) -> Response:
        """JSON if the answer is the first thing the server says to it, otherwise a stream."""
        lines = child.expect(message)
        if lines is None:
            raise RefusedError(400, "a request with this id is under way")
        streams = False
        try:
            await self._write(child, body)
            try:
                first = await asyncio.wait_for(lines.get(), REPLY_S)
            except TimeoutError:
                self.faults.append(f"no answer in {REPLY_S} s to {body[:200]!r}")
                raise RefusedError(504, "the server does not answer") from None
            if first is None:
                self.faults.append(f"the server ended and owes the answer to {body[:200]!r}")
                raise RefusedError(502, "the server ended")
            if first.last:
                return Response(first.data, media_type="application/json")
            streams = True
            return stream(self._rest(child, message, first=first, lines=lines))
        finally:
            if not streams:
                child.forget(message)

    async def _write(self, child: Child, body: bytes) -> None:
        if not await child.write(body):
            self.faults.append(f"the server did not read {body[:200]!r}")
            raise RefusedError(502, "the server does not read")

    async def _rest(
        self, child: Child, message: dict[str, Any], *, first: Line, lines: Lines
    ) -> AsyncIterator[bytes]:
        try:
            yield event(first.data)
            while line := await asyncio.wait_for(lines.get(), REPLY_S):
                yield event(line.data)
                if line.last:
                    return
            self.faults.append("the server ended and owes an answer")
        except TimeoutError:
            self.faults.append(f"no answer in {REPLY_S} s")
        finally:
            child.forget(message)

    def _listen(self, request: Request) -> Response:
        check_accept(request, "text/event-stream")
        session, child = self._session(request)
        if session in self._listened:
            raise RefusedError(409, "the session has a stream")
        self._listened.add(session)
        return stream(self._unasked(session, child))

    async def _unasked(self, session: str, child: Child) -> AsyncIterator[bytes]:
        """What the server says unasked; ends with the process or when the client hangs up."""
        try:
            while line := await child.unasked.get():
                yield event(line.data)
        finally:
            self._listened.discard(session)

    async def _delete(self, request: Request) -> Response:
        session, child = self._session(request)
        del self._sessions[session]
        await self._end_child(child)
        return Response(status_code=200)

    def _session(self, request: Request) -> tuple[str, Child]:
        session = request.headers.get(SESSION_HEADER)
        if session is None:
            raise RefusedError(400, "no session is named")
        child = self._sessions.get(session)
        if child is None or child.gone:
            raise RefusedError(404, "there is no such session")
        return session, child

    async def _end_child(self, child: Child) -> None:
        reading = self._children.pop(child, None)
        if reading is not None:
            await child.end()
            # Whoever inherited the server's output may keep it open.
            await asyncio.wait([reading], timeout=CLOSE_S)
            reading.cancel()


class Server(uvicorn.Server):
    """uvicorn that leaves the signals to the test run."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def bridged(command: Sequence[str], *, end_s: float = END_S) -> AsyncGenerator[Bridge]:
    """A bridge on a free port of the loopback; it and all its processes end with the block."""
    with socket.create_server((LOOPBACK[0], 0)) as listener:
        url = f"http://{LOOPBACK[0]}:{listener.getsockname()[1]}/mcp"
        async with asyncio.TaskGroup() as tasks:
            bridge = Bridge(command, url=url, tasks=tasks, end_s=end_s)
            app = Starlette(routes=[Route("/mcp", bridge.answer, methods=["GET", "POST", "DELETE"])])
            server = Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    ws="none",
                    timeout_graceful_shutdown=CLOSE_S,
                )
            )
            serving = tasks.create_task(server.serve(sockets=[listener]))
            try:
                yield bridge
            finally:
                await bridge.end()
                server.should_exit = True
                await serving


def check_loopback(request: Request) -> None:
    """Refuse what a web page could send here: the bridge starts processes."""
    origin = request.headers.get("origin")
    hosts = [request.url.hostname] + ([urlsplit(origin).hostname] if origin is not None else [])
    if not all(host in LOOPBACK for host in hosts):
        raise RefusedError(403, "not from this machine")


def check_accept(request: Request, *types: str) -> None:
    accepted = {part.split(";")[0].strip() for part in request.headers.get("accept", "").split(",")}
    if not accepted.issuperset(types):
        raise RefusedError(406, f"the client must accept {' and '.join(types)}")


async def read_body(request: Request) -> bytes:
    """The body, which must be one line as it is: the bridge does not change it into one."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise RefusedError(415, "the body must be application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LINE_BYTES_MAX:
            raise RefusedError(413, f"the body is longer than {LINE_BYTES_MAX} bytes")
    if b"\n" in body:
        raise RefusedError(400, "a message has one line")
    return bytes(body)


def is_result(response: Response) -> bool:
    return not isinstance(response, StreamingResponse) and "result" in parse_message(bytes(response.body))


def stream(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-cache"})


def event(data: bytes) -> bytes:
    """One server-sent event."""
    return b"event: message\ndata: " + data + b"\n\n"
