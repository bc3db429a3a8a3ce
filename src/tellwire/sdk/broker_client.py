"""A client that outlives broker restarts: it reconnects, and sends open calls again.

A call is answered once, however often the broker dies in between: it keeps its number and its bytes, and what
must not happen twice carries a request id of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import BrokerFrame, Welcome, format_call
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.feed import FeedEvent, Pulse, Rows
from tellwire.protocol.operations.messages import Offer
from tellwire.protocol.operations.needs import Notice
from tellwire.sdk.autostart import BrokerLaunch, connect_or_start
from tellwire.sdk.connection import BrokerConnection, open_connection
from tellwire.sdk.pending_calls import PendingCall, PendingCalls
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.sdk")

CALL_S = 30.0
OPEN_S = 10.0
BACKOFF_S = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
START_FAILED_S = 5.0
"""Between attempts to start a broker that does not start."""
FINAL = frozenset({"session_replaced", "forbidden", "wrong_version"})
"""Reasons of the broker for closing a connection after which connecting again is pointless."""

R = TypeVar("R")


class BrokerAddress(NamedTuple):
    """Where the broker is, the name of this program, and how a broker is started if none runs."""

    socket: Path
    program: str
    launch: BrokerLaunch | None = None


def _ignore(*_: object) -> None:
    """Handle what this client has no use for."""


async def _ignore_connected(*_: object) -> None:
    """Let every call wait for nothing but the greeting."""


class Handlers(NamedTuple):
    """What a client calls when something happens on its connection."""

    on_offer: Callable[[Offer], None] = _ignore
    on_feed: Callable[[FeedEvent], None] = _ignore
    on_state: Callable[[Rows | Pulse | Notice], None] = _ignore
    on_connected: Callable[[BrokerConnection, Welcome], Awaitable[None]] = _ignore_connected
    """Before open calls are sent on a new connection; it uses `call_on`."""
    on_lost: Callable[[], None] = _ignore
    on_failed: Callable[[], None] = _ignore
    """The connection is over for good; `failure` says why."""


class BrokerClient:
    """One program's connection to the broker, kept until `close`."""

    def __init__(self, address: BrokerAddress, handlers: Handlers = Handlers()) -> None:  # noqa: B008 - immutable
        self._address = address
        self._handlers = handlers
        self._connection: BrokerConnection | None = None
        self._ready: BrokerConnection | None = None
        """The connection once it is open for all calls."""
        self._joined = asyncio.Event()
        """Set while there is such a connection."""
        self._lost = asyncio.Event()
        self._wanted = asyncio.Event()
        """Somebody waits for an answer, so a broker that was stopped on purpose is started again."""
        self._dismissed = False
        """Somebody stopped the broker on purpose."""
        self._joining: PendingCall[Any] | None = None
        self._tasks = Tasks()
        self.loop = asyncio.get_running_loop()
        self.calls = PendingCalls()
        self.welcome: Welcome | None = None
        self._awake_offset_s = 0.0

    @property
    def failure(self) -> TellwireError | None:
        """Why the connection is over for good."""
        return self.calls.failure

    @property
    def connected(self) -> bool:
        """Whether there is a connection that answers calls."""
        return self._ready is not None

    def awake(self) -> float:
        """The broker's clock of awake seconds, by which request ids are dated; as of its last greeting."""
        return monotonic() + self._awake_offset_s

    async def open(self) -> None:
        """Connect, starting the broker if need be, and stay connected.

        Raises:
            TellwireError: no broker can be reached, or it refuses.
        """
        launch = self._address.launch
        deadline = self.loop.time() + OPEN_S
        attempt = 0
        while not self._joined.is_set():
            try:
                await self._connect(launch)
            except TellwireError as error:
                # A broker that is just going away: another one is found or started in a moment.
                passing = error.code == "stopping" or (error.code == "unreachable" and launch is not None)
                if not passing or self.loop.time() > deadline:
                    raise
                await asyncio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
                attempt += 1
        self._tasks.run(self._keep())
        self.calls.sweep()

    async def close(self) -> None:
        """Close the connection; calls still open are refused."""
        self._tasks.cancel()
        await self._tasks.drain()
        self.calls.stop_sweeping()
        if self._connection is not None:
            self._connection.close()
            self._connection = self._ready = None
        self._fail(TellwireError("unreachable", "The connection was closed.", "Connect again."))

    async def back(self, deadline_s: float) -> bool:
        """Wait for a connection that is being opened; False if there is none, or the broker was stopped."""
        if self._dismissed or self.failure is not None:
            return False
        try:
            async with asyncio.timeout(deadline_s):
                await self._joined.wait()
        except TimeoutError:
            return False
        return self._joined.is_set()

    # -- calls ----------------------------------------------------------------------------------------

    def call(self, operation: Operation[R], *, deadline_s: float = CALL_S) -> asyncio.Future[R]:
        """Send an operation and return its reply to be awaited. It is sent again after a lost connection.

        Raises:
            TellwireError: when awaited: refused, or `timeout`.
        """
        try:
            pending = self.calls.add(operation, deadline_s)
        except TellwireError as error:
            refused: asyncio.Future[R] = self.loop.create_future()
            refused.set_exception(error)
            return refused
        if self._ready is not None:
            self._ready.write(pending.frame)
        else:
            self._wanted.set()
        return pending.future

    async def call_on(self, connection: BrokerConnection, operation: Operation[R]) -> R:
        """Call on one connection only, before it is open to all; never sent again."""
        self._joining = pending = self.calls.add(operation, CALL_S, joins=True)
        connection.write(pending.frame)
        try:
            return await pending.future
        finally:
            self._joining = None
            self.calls.discard(pending)

    def tell(self, operation: Operation[Any]) -> None:
        """Send without asking for an answer; nothing if there is no connection now."""
        if self._ready is not None:
            self._ready.write(format_call(0, operation))

    def _take_frame(self, frame: BrokerFrame) -> None:
        if frame.offer is not None:
            self._handlers.on_offer(frame.offer)
        elif frame.feed is not None:
            self._handlers.on_feed(frame.feed)
        elif state := frame.rows or frame.pulse or frame.notice:
            self._handlers.on_state(state)
        else:
            self.calls.answer(frame)

    def _fail(self, error: TellwireError) -> None:
        self.calls.fail(error)
        self._handlers.on_failed()

    # -- staying connected ----------------------------------------------------------------------------

    async def _connect(self, launch: BrokerLaunch | None) -> None:
        """Connect and join; only then is the connection open for calls, the waiting ones first."""
        connection = await connect_or_start(
            lambda: open_connection(self._address.socket, self._take_frame, self._note_lost), launch
        )
        self._connection = connection
        try:
            self.welcome = await connection.greet(self._address.program)
            self._awake_offset_s = self.welcome.awake - monotonic()
            await self._handlers.on_connected(connection, self.welcome)
            if not connection.alive:  # lost while its last answer was being sent
                raise TellwireError("unreachable", "The broker went away while joining.")
        except BaseException:
            connection.close()
            raise
        self._dismissed = False
        self._ready = connection
        self._joined.set()
        for frame in self.calls.frames():
            connection.write(frame)

    def _note_lost(self, connection: BrokerConnection) -> None:
        """Decide by what the broker said last whether to connect again, and whether to start a broker."""
        if connection is not self._connection:
            return
        self._handlers.on_lost()
        self._ready = None
        self._joined.clear()
        goodbye = connection.goodbye
        if self._joining is not None and not self._joining.future.done():
            self._joining.future.set_exception(
                goodbye or TellwireError("unreachable", "The broker went away while joining.")
            )
        if goodbye is not None and goodbye.code in FINAL:
            self._fail(goodbye)
        self._dismissed = goodbye is not None and goodbye.code == "stopping"
        if self.calls.discard_done():
            self._wanted.set()
        else:
            self._wanted.clear()
        self._lost.set()

    async def _keep(self) -> None:
        """Reconnect after every loss. If that itself fails, refuse all calls rather than let them wait."""
        try:
            while self.failure is None:
                await self._lost.wait()
                self._lost.clear()
                await self._reconnect()
        except Exception as error:
            log.exception("the connection cannot be kept")
            self._fail(TellwireError("internal", f"The connection failed for good: {error!r}."))

    async def _reconnect(self) -> None:
        """Try until there is a connection, or it is clear that there will be none."""
        attempt = 0
        while self.failure is None and not self._joined.is_set():
            pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
            attempt += 1
            # Somebody stopped the broker on purpose: wait for it, until there is something to ask.
            asleep = self._dismissed and not self._wanted.is_set()
            try:
                await self._connect(None if asleep else self._address.launch)
            except TellwireError as error:
                log.debug("no connection yet: %s", error)
                if error.code in FINAL:
                    self._fail(error)
                elif error.code == "not_started":
                    pause_s = START_FAILED_S
            except OSError as error:
                log.debug("no connection yet: %s", error)
            if self.failure is None and not self._joined.is_set():
                await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next attempt: shorter if somebody begins to wait for an answer meanwhile."""
        if self._wanted.is_set():
            await asyncio.sleep(pause_s)
            return
        try:
            async with asyncio.timeout(pause_s):
                await self._wanted.wait()
        except TimeoutError:
            return
