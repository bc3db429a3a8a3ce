"""A caller that outlives broker restarts: numbers its calls, reconnects, and sends open calls again.

A call is answered once, however often the broker dies in between: it keeps its number and its bytes, and what
must not happen twice carries a request id of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tellwire.client.autostart import Launch, connect_or_start
from tellwire.client.connection import Connection, open_connection
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import FRAME_BYTES_MAX, BrokerFrame, Welcome, format_call
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.feed import FeedEvent
from tellwire.protocol.operations.messages import Offer
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.client")

CALL_S = 30.0
OPEN_S = 10.0
SWEEP_S = 0.25
BACKOFF_S = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
START_FAILED_S = 5.0
"""Between attempts to start a broker that does not start."""
OPEN_CALLS_MAX = 1_024
CROWDED = 128
"""Open calls at which a sender waits: the broker remembers twice as many request ids of one sender."""
FINAL = frozenset({"session_replaced", "forbidden", "wrong_version"})
"""Farewells after which coming back is pointless."""

R = TypeVar("R")


class OpenCall:
    """A call that waits for its answer."""

    __slots__ = ("deadline", "decoder", "frame", "future")

    def __init__(
        self, frame: bytes, decoder: msgspec.json.Decoder[Any], future: asyncio.Future[Any], deadline: float
    ) -> None:
        self.frame = frame
        self.decoder = decoder
        self.future = future
        self.deadline = deadline


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder_of(reply: type) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(reply)
    if decoder is None:
        decoder = _decoders[reply] = msgspec.json.Decoder(reply)
    return decoder


class Client:
    """One program's line to the broker."""

    def __init__(
        self,
        path: Path,
        *,
        program: str,
        launch: Launch | None = None,
        on_offer: Callable[[Offer], None] | None = None,
        on_feed: Callable[[FeedEvent], None] | None = None,
        on_connected: Callable[[Connection, Welcome], Awaitable[None]] | None = None,
        on_failed: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._program = program
        self._launch = launch
        self._on_offer = on_offer
        self._on_feed = on_feed
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._open: dict[int, OpenCall] = {}
        self._number = 0
        self._lost = asyncio.Event()
        self._joined = asyncio.Event()
        self._wanted = asyncio.Event()
        self._tasks = Tasks()
        self._sweeper: asyncio.TimerHandle | None = None
        self.loop = self._loop = asyncio.get_running_loop()
        self._ready = False
        self._dismissed = False
        self._joining: asyncio.Future[Any] | None = None
        self._waiting_room: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        self.failure: TellwireError | None = None
        self.welcome: Welcome | None = None
        self.unread = 0
        """Of a person: how many messages to the operator were unread at the last reply."""

    async def open(self) -> None:
        """Connect, starting the broker if need be, and stay connected.

        Raises:
            TellwireError: no broker can be reached, or it refuses.
        """
        deadline = self._loop.time() + OPEN_S
        attempt = 0
        while not self._ready:
            try:
                await self._connect(self._launch)
            except TellwireError as error:
                # A broker that is just going away: another one is found or started in a moment.
                passing = error.code == "stopping" or (
                    error.code == "unreachable" and self._launch is not None
                )
                if not passing or self._loop.time() > deadline:
                    raise
                await asyncio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
                attempt += 1
        self._tasks.run(self._keep())
        self._sweep()

    async def close(self) -> None:
        """Hang up; calls still open are refused."""
        self._tasks.cancel()
        await self._tasks.drain()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._fail(TellwireError("unreachable", "The connection was closed.", "Connect again."))

    # -- calls ----------------------------------------------------------------------------------------

    def call(self, operation: Operation[R], *, deadline_s: float = CALL_S) -> asyncio.Future[R]:
        """Ask for an operation; the answer is awaited. Re-sent by itself after a lost connection.

        Raises:
            TellwireError: when awaited: refused, or `timeout`.
        """
        future: asyncio.Future[R] = self._loop.create_future()
        if self.failure is not None:
            future.set_exception(self.failure)
            return future
        if len(self._open) >= OPEN_CALLS_MAX:
            future.set_exception(TellwireError("limit_exceeded", "Too many calls are waiting for an answer."))
            return future
        self._number = number = self._number + 1
        frame = format_call(number, operation)
        if len(frame) > FRAME_BYTES_MAX:  # the broker would hang up, and again each time it is sent again
            text = f"The call is longer than {FRAME_BYTES_MAX} bytes."
            future.set_exception(TellwireError("frame_too_large", text))
            return future
        deadline = self._loop.time() + deadline_s
        self._open[number] = OpenCall(frame, _decoder_of(operation.reply), future, deadline)
        if self._ready and self._connection is not None:
            self._connection.write(frame)
        else:
            self._wanted.set()
        return future

    async def room(self) -> None:
        """Wait while too many calls are open, in the order of asking."""
        if not self.crowded or self.failure is not None:
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting_room.append(turn)
        try:
            await turn
        finally:
            if turn.done() and not turn.cancelled():
                self._reserved -= 1

    async def back(self, deadline_s: float) -> bool:
        """Wait for a connection that is on its way; False if there is none, or the broker was stopped."""
        if self._dismissed or self.failure is not None:
            return False
        try:
            async with asyncio.timeout(deadline_s):
                await self._joined.wait()
        except TimeoutError:
            return False
        return self._ready

    @property
    def crowded(self) -> bool:
        """Whether a new sender should wait for `room`."""
        return len(self._open) + self._reserved >= CROWDED or bool(self._waiting_room)

    def _make_room(self) -> None:
        while self._waiting_room and len(self._open) + self._reserved < CROWDED:
            turn = self._waiting_room.popleft()
            if not turn.done():
                self._reserved += 1
                turn.set_result(None)

    def tell(self, operation: Operation[Any]) -> None:
        """Send without asking for an answer; nothing if there is no connection now."""
        if self._ready and self._connection is not None:
            self._connection.write(format_call(0, operation))

    async def call_on(self, connection: Connection, operation: Operation[R]) -> R:
        """Call on one connection only, before it is open to all; never sent again."""
        future: asyncio.Future[R] = self._loop.create_future()
        self._number = number = self._number + 1
        frame = format_call(number, operation)
        deadline = self._loop.time() + CALL_S
        self._open[number] = OpenCall(frame, _decoder_of(operation.reply), future, deadline)
        self._joining = future
        connection.write(frame)
        try:
            return await future
        finally:
            self._joining = None
            self._open.pop(number, None)

    def _take_frame(self, frame: BrokerFrame) -> None:
        if frame.offer is not None:
            if self._on_offer is not None:
                self._on_offer(frame.offer)
            return
        if frame.feed is not None:
            if self._on_feed is not None:
                self._on_feed(frame.feed)
            return
        waiting = self._open.pop(frame.n, None)
        if self._waiting_room:
            self._make_room()
        if waiting is None or waiting.future.done():
            return
        self.unread = frame.unread
        if frame.error is not None:
            waiting.future.set_exception(frame.error.error())
        elif isinstance(frame.ok, msgspec.Raw):
            waiting.future.set_result(waiting.decoder.decode(frame.ok))

    def _sweep(self) -> None:
        """Give up calls whose time is over; one timer for all of them."""
        now = self._loop.time()
        for number in [number for number, waiting in self._open.items() if waiting.deadline <= now]:
            future = self._open.pop(number).future
            self._make_room()
            if not future.done():
                future.set_exception(TellwireError("timeout", "The broker did not answer in time."))
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _fail(self, error: TellwireError) -> None:
        self.failure = error
        if self._on_failed is not None:
            self._on_failed()
        opened, self._open = self._open, {}
        for turn in self._waiting_room:
            if not turn.done():
                self._reserved += 1
                turn.set_result(None)
        self._waiting_room.clear()
        for waiting in opened.values():
            if not waiting.future.done():
                waiting.future.set_exception(error)

    # -- staying connected ----------------------------------------------------------------------------

    async def _connect(self, launch: Launch | None) -> None:
        connection = await connect_or_start(
            lambda: open_connection(self._path, self._take_frame, self._note_lost), launch
        )
        self._connection = connection
        try:
            self.welcome = await connection.greet(self._program)
            if self._on_connected is not None:
                await self._on_connected(connection, self.welcome)
            if not connection.alive:  # lost while its last answer was on the way to us
                raise TellwireError("unreachable", "The broker went away while joining.")
        except BaseException:
            connection.close()
            raise
        self._dismissed = False
        self._ready = True
        self._joined.set()
        for number in sorted(self._open):
            connection.write(self._open[number].frame)

    def _note_lost(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        if self._on_lost is not None:
            self._on_lost()
        self._ready = False
        self._joined.clear()
        goodbye = connection.goodbye
        if self._joining is not None and not self._joining.done():
            self._joining.set_exception(
                goodbye or TellwireError("unreachable", "The broker went away while joining.")
            )
        if goodbye is not None and goodbye.code in FINAL:
            self._fail(goodbye)
        self._dismissed = goodbye is not None and goodbye.code == "stopping"
        for number, waiting in list(self._open.items()):
            if waiting.future.done():
                del self._open[number]
        self._wanted.clear()
        if self._open:
            self._wanted.set()
        self._lost.set()

    async def _keep(self) -> None:
        try:
            while self.failure is None:
                await self._lost.wait()
                self._lost.clear()
                await self._reconnect()
        except Exception as error:
            log.exception("the connection cannot be kept")
            self._fail(TellwireError("internal", f"The connection failed for good: {error!r}."))

    async def _reconnect(self) -> None:
        attempt = 0
        while self.failure is None and not self._ready:
            pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
            attempt += 1
            # Somebody stopped the broker on purpose: wait for it, until there is something to ask.
            asleep = self._dismissed and not self._wanted.is_set()
            try:
                await self._connect(None if asleep else self._launch)
            except TellwireError as error:
                log.debug("no connection yet: %s", error)
                if error.code in FINAL:
                    self._fail(error)
                elif error.code == "not_started":
                    pause_s = START_FAILED_S
            except OSError as error:
                log.debug("no connection yet: %s", error)
            if self.failure is None and not self._ready:
                await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> None:
        if self._wanted.is_set():
            await asyncio.sleep(pause_s)
            return
        try:
            async with asyncio.timeout(pause_s):
                await self._wanted.wait()
        except TimeoutError:
            return
