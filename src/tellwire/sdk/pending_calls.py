"""The calls that wait for an answer: numbered, bounded, and given up when their time is over.

A call keeps its number and its bytes until it is answered, so that the client can send it again on the next
connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, TypeVar

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import FRAME_BYTES_MAX, BrokerFrame, format_call
from tellwire.protocol.operations.base import Operation

SWEEP_S = 0.25
OPEN_CALLS_MAX = 1_024
CROWDED = 128
"""Open calls at which a sender waits: the broker remembers twice as many request ids of one sender."""

R = TypeVar("R")

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class PendingCall(Generic[R]):
    """A call that was sent, or will be as soon as there is a connection."""

    __slots__ = ("deadline", "decoder", "frame", "future", "number")

    def __init__(
        self, number: int, operation: Operation[R], future: asyncio.Future[R], deadline: float
    ) -> None:
        self.number = number
        self.frame = format_call(number, operation)
        self.decoder = _decoder_of(operation.reply)
        self.future = future
        self.deadline = deadline


class PendingCalls:
    """All open calls of one client. Senders queue for `room` when there are too many."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, PendingCall[Any]] = {}
        self._number = 0
        self._senders: deque[asyncio.Future[None]] = deque()
        self._reserved = 0
        """Senders that were let in and have not made their call yet."""
        self._sweeper: asyncio.TimerHandle | None = None
        self.failure: TellwireError | None = None
        """Why no call will be answered any more."""
        self.unread = 0
        """Of a person: how many messages to the operator were unread at the last reply."""

    def add(self, operation: Operation[R], deadline_s: float, *, joins: bool = False) -> PendingCall[R]:
        """Open a call. One that `joins` is never too many: without it, no other can be answered.

        Raises:
            TellwireError: the connection is over, or the call is too much for the broker.
        """
        if self.failure is not None:
            raise self.failure
        if len(self._open) >= OPEN_CALLS_MAX and not joins:
            raise TellwireError("limit_exceeded", "Too many calls are waiting for an answer.")
        self._number = number = self._number + 1
        loop = self._loop
        call = PendingCall(number, operation, loop.create_future(), loop.time() + deadline_s)
        if len(call.frame) > FRAME_BYTES_MAX:  # the broker would close the connection, each time it is sent
            raise TellwireError("frame_too_large", f"The call is longer than {FRAME_BYTES_MAX} bytes.")
        self._open[number] = call
        return call

    def discard(self, call: PendingCall[Any]) -> None:
        """Forget a call that is not to be sent again."""
        self._open.pop(call.number, None)

    def discard_done(self) -> bool:
        """Forget calls that nobody waits for, so that they are not sent again; whether any other is open."""
        for number, call in list(self._open.items()):
            if call.future.done():
                del self._open[number]
        return bool(self._open)

    def frames(self) -> list[bytes]:
        """What has to be sent again on a new connection, in order."""
        return [self._open[number].frame for number in sorted(self._open)]

    def answer(self, frame: BrokerFrame) -> None:
        """Give a reply to the call that waits for it."""
        call = self._open.pop(frame.n, None)
        if self._senders:
            self._let_in()
        if call is None or call.future.done():
            return
        self.unread = frame.unread
        if frame.error is not None:
            call.future.set_exception(frame.error.error())
        elif isinstance(frame.ok, msgspec.Raw):
            call.future.set_result(call.decoder.decode(frame.ok))

    def sweep(self) -> None:
        """Give up calls whose time is over, now and from now on; one timer serves all of them."""
        now = self._loop.time()
        for number in [number for number, call in self._open.items() if call.deadline <= now]:
            future = self._open.pop(number).future
            self._let_in()
            if not future.done():
                future.set_exception(TellwireError("timeout", "The broker did not answer in time."))
        self._sweeper = self._loop.call_later(SWEEP_S, self.sweep)

    def stop_sweeping(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()

    def fail(self, error: TellwireError) -> None:
        """Refuse all open calls, and every later one."""
        self.failure = error
        opened, self._open = self._open, {}
        for sender in self._senders:  # each finds out by its own call
            if not sender.done():
                self._reserved += 1
                sender.set_result(None)
        self._senders.clear()
        for call in opened.values():
            if not call.future.done():
                call.future.set_exception(error)

    # -- senders that wait ----------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Whether a new sender should wait for `room`."""
        return len(self._open) + self._reserved >= CROWDED or bool(self._senders)

    async def room(self) -> None:
        """Wait while too many calls are open; first come, first served."""
        if not self.crowded or self.failure is not None:
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._senders.append(turn)
        try:
            await turn
        finally:
            if turn.done() and not turn.cancelled():
                self._reserved -= 1

    def _let_in(self) -> None:
        """Let in as many senders as there is room for; each holds a reservation until it is awake."""
        while self._senders and len(self._open) + self._reserved < CROWDED:
            turn = self._senders.popleft()
            if not turn.done():
                self._reserved += 1
                turn.set_result(None)


def _decoder_of(reply: type) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(reply)
    if decoder is None:
        decoder = _decoders[reply] = msgspec.json.Decoder(reply)
    return decoder
