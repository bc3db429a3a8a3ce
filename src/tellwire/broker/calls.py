"""Operations that the broker answers itself, late answers, and commands that no connection sent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tellwire.broker.ports import NOBODY, Mesh, MeshView, Source
from tellwire.broker.refusals import Refusals
from tellwire.core.context import Caller
from tellwire.core.kernel import Command
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.base import Reply

log = logging.getLogger("tellwire.calls")


class Handlers:
    """Operations whose answers do not come out of the state; each is registered once, by who answers it."""

    def __init__(self) -> None:
        self.answers: dict[type, Callable[[Any], Reply]] = {}
        self.deferred: dict[type, Callable[[Source, int, Any], None]] = {}
        """Answered later, off the event loop."""
        self.exclusive: set[type] = set()
        """Must find nothing uncommitted."""

    def answer(self, operation: type, answer: Callable[[Any], Reply], *, exclusive: bool = False) -> None:
        """Have an operation answered by this, in its tick; `exclusive`: in a tick of its own."""
        self.answers[operation] = answer
        if exclusive:
            self.exclusive.add(operation)

    def defer(self, operation: type, begin: Callable[[Source, int, Any], None]) -> None:
        """Have an operation begun by this, which answers its source when it is done."""
        self.deferred[operation] = begin


class Asker:
    """Puts one command to the engine on a caller's behalf, and waits for the answer."""

    writable = True
    last_seen = 0.0

    def __init__(self, caller: Caller, group: str) -> None:
        self.caller = caller
        self.group = group
        self.answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, n: int, reply: Reply) -> None:
        """Resolve the future with the engine's reply."""
        del n
        if not self.answered.done():
            self.answered.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """Fail the future with the engine's refusal."""
        del n
        if not self.answered.done():
            self.answered.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Ignored: a single call receives no messages."""

    def mail(self, waiting: int) -> None:
        """Ignored, like an offer."""

    def flush(self) -> None:
        """Nothing to flush: there is no connection."""

    def attach(self, agent: str, *, holds: bool) -> None:
        """Ignored: the call keeps the caller it was made for."""

    def detach(self) -> None:
        """Ignored, like `attach`."""

    def dismiss(self, error: TellwireError) -> None:
        """Ignored, like `attach`."""


async def call_for(mesh: Mesh, caller: Caller, group: str, command: Command) -> Any:
    """Have a command carried out on a caller's behalf, on disk when this returns.

    Raises:
        TellwireError: it was refused.
    """
    asker = Asker(caller, group)
    mesh.submit(asker, 1, command)
    return await asker.answered


class LateAnswers:
    """Answers calls when the work for them is done; a refusal is on record as any other."""

    def __init__(self, mesh: MeshView, refusals: Refusals) -> None:
        self._mesh = mesh
        self._refusals = refusals

    async def answer(self, source: Source, n: int, operation: AnyOperation, work: Awaitable[Reply]) -> None:
        """Answer a call with what comes of the work, or refuse it."""
        try:
            source.answer(n, await work)
        except TellwireError as error:
            self._refusals.note(source.caller, operation, error, self._mesh.clock.now)
            source.refuse(n, error)
        except Exception:
            log.exception("%s failed", type(operation).__name__)
            source.refuse(n, TellwireError("internal", "The broker failed while handling this call."))
        source.flush()


class Desk:
    """A `Source` without a connection."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
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
        self._mesh.submit(self, self._numbers, command)
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
