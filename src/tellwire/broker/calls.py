"""Commands that no connection sent: on a caller's behalf, or the broker's own; and late answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any

from tellwire.broker.engine import NOBODY, Engine
from tellwire.broker.ports import Source
from tellwire.core.context import Caller
from tellwire.core.kernel import Command
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.base import Reply

log = logging.getLogger("tellwire.calls")


class Asker:
    """Puts one command to the engine on a caller's behalf, and waits for the answer."""

    writable = True
    last_seen = 0.0

    def __init__(self, caller: Caller, group: str) -> None:
        self.caller = caller
        self.group = group
        self.answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, n: int, reply: Reply) -> None:
        """What came of it."""
        del n
        if not self.answered.done():
            self.answered.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """It was refused."""
        del n
        if not self.answered.done():
            self.answered.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Nobody is offered anything here."""

    def mail(self, waiting: int) -> None:
        """Nor told of mail."""

    def flush(self) -> None:
        """There is no line."""

    def attach(self, agent: str, *, holds: bool) -> None:
        """It stays who it is."""

    def detach(self) -> None:
        """As above."""

    def dismiss(self, error: TellwireError) -> None:
        """As above."""


async def answer_later(
    engine: Engine, source: Source, n: int, operation: AnyOperation, work: Awaitable[Reply]
) -> None:
    """Answer a call with what comes of the work, or refuse it; a refusal is on record as any other."""
    try:
        source.answer(n, await work)
    except TellwireError as error:
        engine.refusals.note(source.caller, operation, error, engine.clock.now)
        source.refuse(n, error)
    except Exception:
        log.exception("%s failed", type(operation).__name__)
        source.refuse(n, TellwireError("internal", "The broker failed on this call."))
    source.flush()


class Desk:
    """A `Source` without a connection."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = 0
        self.caller = NOBODY
        self.group = ""
        self.writable = True

    async def ask(self, command: Command) -> Any:
        """Have a command carried out, on disk when this returns.

        Raises:
            TellwireError: it was refused.
        """
        self._numbers += 1
        future = self._asked[self._numbers] = asyncio.get_running_loop().create_future()
        self._engine.submit(self, self._numbers, command)
        return await future

    @property
    def last_seen(self) -> float:
        """As long as the broker lives."""
        return time.monotonic()

    def answer(self, n: int, reply: Reply) -> None:
        """The engine's answer."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """The engine's refusal."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Nobody is attached here."""

    def mail(self, waiting: int) -> None:
        """As `offer`."""

    def flush(self) -> None:
        """Nothing is written."""

    def attach(self, agent: str, *, holds: bool) -> None:
        """As `offer`."""

    def detach(self) -> None:
        """As `offer`."""

    def dismiss(self, error: TellwireError) -> None:
        """As `offer`."""
