"""The broker's own questions to its engine: a source of commands that waits for the answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tellwire.broker.engine import NOBODY, Engine
from tellwire.core.kernel import Command
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.base import Reply


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
