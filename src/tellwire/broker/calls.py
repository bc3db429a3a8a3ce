"""One command to the engine on a caller's behalf, and its answer; calls that are answered later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from tellwire.broker.engine import Engine
from tellwire.broker.ports import Source
from tellwire.core.context import Caller
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
