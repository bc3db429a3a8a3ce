"""The MCP server of one session: the official SDK's low-level server on the shim's lines.

This module is the home of `mcp`. It is imported at the first shim, off the loop (`door`). The server makes
no requests of its own to the client, and one line of the client has one answer: that is what lets a shim send
its open lines again to the next broker.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict, deque
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import anyio
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from tellwire.mcp.bootstrap import describe
from tellwire.mcp.calls import Ask, Calls
from tellwire.mcp.dialects import DIALECTS
from tellwire.mcp.instructions import instructions
from tellwire.mcp.membership import SessionMembership
from tellwire.mcp.session import ShimSession
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.relay import ShimLine
from tellwire.relay.ids import IDS_MAX, find_ids, is_sayable
from tellwire.system.bounded import BoundedDict
from tellwire.system.tasks import alongside
from tellwire.version import VERSION

log = logging.getLogger("tellwire.mcp")

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LAST_MAX = 1_000
LONG_BYTES = 1 << 15
"""A malformed line longer than this is examined in a thread."""
_WORD = rb'"id"\s*:\s*(-?\d{1,18}|"(?:[^"\\]|\\.){0,200}")'
_ID = re.compile(_WORD)
_LAST_ID = re.compile(_WORD + rb"\s*\}\s*$")


async def serve(session: ShimSession, membership: SessionMembership, handshake: list[ShimLine]) -> None:
    """Be the MCP server of one session until its connection ends; `handshake` was answered already."""
    await Gateway(session, membership).run(handshake)


class Asked(NamedTuple):
    """One request of the client's."""

    line: ShimLine
    method: str


class ReadStream:
    """The SDK's read stream: what the shim sent, in order."""

    def __init__(self) -> None:
        self._items: deque[SessionMessage] = deque()
        self._news = asyncio.Event()
        self._closed = False

    def put(self, item: SessionMessage) -> None:
        """The next message."""
        self._items.append(item)
        self._news.set()

    def close(self) -> None:
        """End the stream: no more messages follow."""
        self._closed = True
        self._news.set()

    async def receive(self) -> SessionMessage:
        """The next message.

        Raises:
            StopAsyncIteration: there are no more.
        """
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._items.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        return await self.receive()

    async def aclose(self) -> None:
        """Called by the SDK when it has ended the stream."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()


class WriteStream:
    """The SDK's write stream."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message of the SDK to the client."""
        self._gateway.say(item)

    async def aclose(self) -> None:
        """Nothing to close: the connection is the session's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Leave the connection open: it is the session's."""


class Gateway:
    """Between one shim's numbered lines and the SDK's messages."""

    def __init__(self, session: ShimSession, membership: SessionMembership) -> None:
        self._session = session
        self._dialect = DIALECTS[session.hello.dialect]
        self._membership = membership
        self._calls = Calls(session, self._membership, self._dialect, session.mesh.limits)
        self._stream = ReadStream()
        self._open: defaultdict[str, deque[Asked]] = defaultdict(deque)
        """What waits for an answer, by JSON-RPC id."""
        self._answered = asyncio.Event()
        self._last: BoundedDict[str, tuple[int, str]] = BoundedDict(LAST_MAX)
        """The last line with a JSON-RPC id, and its id as a call: what a late cancellation means."""
        self._cancelled: set[int] = set()
        """Unanswered lines that the client has cancelled."""
        self._server: Server[Any] = Server(
            "tellwire",
            version=VERSION,
            instructions=instructions(self._dialect, ""),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._server.middleware.clear()  # tracing, which nobody asked for, costs a tenth of each call
        self._options = self._server.create_initialization_options()

    async def run(self, handshake: list[ShimLine]) -> None:
        """Serve until the client or its connection ends."""
        if self._session.known() is not None:
            await self._join()
        for line in handshake:
            await self._serve_line(line._replace(again=True))
        try:
            with alongside(self._pump()):
                await self._server.run(self._stream, WriteStream(self), self._options)
        except BaseExceptionGroup as group:
            # The SDK ended the session while a line was on its way to it: the connection ends, as it should.
            _, rest = group.split((anyio.BrokenResourceError, anyio.ClosedResourceError))
            if rest is not None:
                raise rest from None
            log.info("an MCP session ended before all its lines were taken; its shim connects again")

    # -- lines in -------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        try:
            while (line := await self._session.next_line()) is not None:
                await self._serve_line(line)
            async with asyncio.timeout(self._session.times.farewell_s):
                while self._open:
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            pass
        except Exception:
            log.exception("a line of a shim could not be served")
        finally:
            self._stream.close()

    async def _serve_line(self, line: ShimLine) -> None:
        """Pass a line on to the SDK, or refuse what the SDK would not answer by its id."""
        session = self._session
        if line.cut:
            ids = _ids_of_cut(line.text)
            self._refuse(line, types.INVALID_REQUEST, "The message is longer than 1 MiB.", ids)
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line.text, by_name=False)
        except ValidationError:
            await self._refuse_garbage(line)
            return
        if isinstance(message, types.JSONRPCRequest):
            await self._meet(message)
            key = str(message.id)
            if message.method == "tools/call":
                self._membership.note_call(line.number, message.params, _conversation(message.params))
            asked = Asked(line, message.method)
            self._open[key].append(asked)
            self._last.renew(key, (line.number, call_id(line, key)))
            hook = partial(self._unanswered, key, asked)
            metadata = ServerMessageMetadata(request_context=line, on_request_unanswered=hook)
            self._stream.put(SessionMessage(message, metadata))
            return
        if isinstance(message, types.JSONRPCNotification) and (ids := await _ids_of(line.text)):
            self._refuse(line, types.INVALID_REQUEST, "The id must be a string or an integer.", ids)
            return
        self._stream.put(SessionMessage(message))
        method = message.method if isinstance(message, types.JSONRPCNotification) else ""
        if method == "notifications/cancelled":
            asked = str((cast("types.JSONRPCNotification", message).params or {}).get("requestId"))
            self._cancel(line, asked)
            return
        session.say(line.number, keep=method == "notifications/initialized")

    def _cancel(self, line: ShimLine, asked: str) -> None:
        """What a cancelled call had fetched waits again; only then is the line dealt with."""
        number, call = self._last.get(asked) or self._session.evidence.recalled.get(asked) or (0, "")
        under_way = asked in self._open
        if under_way:
            self._cancelled.add(number)
        returned = None
        if number and (under_way or not self._membership.client.cancels_late):
            returned = self._session.give_back(number, call)
        self._say_after(returned, line)

    def _say_after(self, returned: asyncio.Future[Any] | None, line: ShimLine) -> None:
        """A line is dealt with when what it gave back is on disk."""

        if returned is None:
            self._session.say(line.number)
            return

        def say(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._session.say(line.number)

        returned.add_done_callback(say)

    async def _meet(self, message: types.JSONRPCRequest) -> None:
        """Before the first answer: know the client, and be an agent, so that the answer can tell its name."""
        if self._session.agent is not None and self._membership.is_met:
            return
        params = message.params or {}
        info = params.get("clientInfo") if message.method == "initialize" else None
        meta = params.get("_meta")
        if isinstance(meta, dict):
            info = info or cast("dict[str, Any]", meta).get(CLIENT_INFO)
        if not isinstance(info, dict):
            return
        self._membership.meet(cast("dict[str, Any]", info))
        if self._session.agent is not None:
            return
        if self._dialect.joins or self._session.hello.name:
            await self._join()

    async def _join(self) -> None:
        try:
            agent = await self._membership.ensure()
        except TellwireError as error:
            log.warning("a session could not join: %s", error)
            return
        if self._session.hello.alone and not self._membership.note:
            self._membership.add_note(f"You are {agent.name!r}.")  # which its instructions could not tell
        label = self._membership.label_for_instructions(
            shown=self._membership.client.shows and self._dialect.labels
        )
        text = instructions(self._dialect, agent.name, self._membership.note, label)
        self._server.instructions = self._options.instructions = text

    async def _refuse_garbage(self, line: ShimLine) -> None:
        ids = await _ids_of(line.text)
        try:
            garbage = msgspec.json.decode(line.text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._refuse(line, types.PARSE_ERROR, "The line is not valid JSON, or nested too deeply.", ids)
            return
        batch = isinstance(garbage, list)
        words = "Batches are not supported." if batch else "The line is not a JSON-RPC 2.0 message."
        self._refuse(line, types.INVALID_REQUEST, words, ids)

    def _refuse(self, line: ShimLine, code: int, text: str, ids: list[bytes]) -> None:
        """Refuse by each id that the line bears; if one cannot be said, its client must not wait: end it."""
        known = [each for each in ids[:IDS_MAX] if is_sayable(each)]
        ends = len(known) < len(ids)
        if ends:
            text += " It has an id that cannot be answered: the connection ends."
        error = msgspec.json.encode({"code": code, "message": text})
        answers = [b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (each, error) for each in known or [b"null"]]
        for answer in answers[:-1]:
            self._session.say(0, answer)
        self._session.say(line.number, answers[-1], ends=ends)

    # -- answers out ----------------------------------------------------------------------------------

    def say(self, item: SessionMessage) -> None:
        """One message of the SDK's for the client."""
        message = item.message
        text = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if isinstance(message, types.JSONRPCNotification | types.JSONRPCRequest):
            self._session.say(0, text)
            return
        waiting = self._open.get(str(message.id))
        if not waiting:
            return
        asked = waiting[0]
        line = asked.line
        self._close(str(message.id), asked)
        if (
            self._session.connection.leaving
            and isinstance(message, types.JSONRPCError)
            and message.error.code == types.CONNECTION_CLOSED
        ):
            return  # not an answer: the shim asks the next broker
        if line.number in self._cancelled:
            # It was done before the SDK heard of the cancellation.
            self._give_up(str(message.id), line)
            return
        keep = isinstance(message, types.JSONRPCResponse) and asked.method == "initialize"
        self._session.say(line.number, b"" if line.again else text, keep=keep and not line.again)

    async def _unanswered(self, key: str, asked: Asked) -> None:
        """The SDK gives no answer to a cancelled request."""
        self._close(key, asked)
        self._give_up(key, asked.line)

    def _give_up(self, key: str, line: ShimLine) -> None:
        """A cancelled request gets no answer, but its line is dealt with."""
        self._cancelled.discard(line.number)
        # It may have fetched something after it was cancelled.
        self._say_after(self._session.give_back(line.number, call_id(line, key)), line)

    def _close(self, key: str, asked: Asked) -> None:
        waiting = self._open[key]
        waiting.remove(asked)
        if not waiting:
            del self._open[key]
        self._answered.set()

    # -- tools ----------------------------------------------------------------------------------------

    async def _list_tools(
        self, _ctx: Any, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [types.Tool.model_validate(describe(tool)) for tool in self._calls.tools.values()]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool call of the SDK; a refusal is a result with `is_error`, for the model to read."""
        tool = self._calls.tools.get(params.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]}")
        line: ShimLine = ctx.request

        async def progress(done: float, total: float, what: str) -> None:
            await ctx.session.report_progress(done, total, what)

        call = call_id(line, str(ctx.request_id))
        ask = Ask(line.number, line.birth_us, call, _conversation(ctx.params), progress)
        answer = await self._calls.call(tool, params.arguments or {}, ask)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=None if self._membership.client.text_only else answer.data,
            is_error=answer.failed,
        )


def call_id(line: ShimLine, asked: str) -> str:
    """The id of a call in leases: the line's number, and the client's id, by which it cancels."""
    return f"{line.number}:{asked[:64]}"


async def _ids_of(text: bytes) -> list[bytes]:
    """The ids that a line bears; most that are asked about have none."""
    if b'"id"' not in text and b"\\" not in text:
        return []
    return find_ids(text) if len(text) < LONG_BYTES else await asyncio.to_thread(find_ids, text)


def _ids_of_cut(text: bytes) -> list[bytes]:
    """The ids of a line that was too long: the shim tells them, those of earlier versions both its ends."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head, _, tail = text.partition(b'"params"')
        found = _LAST_ID.search(tail or head) or _ID.search(head)
        return [found.group(1)] if found is not None else []
    return find_ids(text)


def _conversation(params: Any) -> str:
    """The client's own name for the conversation a call belongs to, where it tells one."""
    meta = cast("dict[str, Any]", params).get("_meta") if isinstance(params, dict) else None
    word = cast("dict[str, Any]", meta).get("threadId") if isinstance(meta, dict) else None
    return word if isinstance(word, str) else ""
