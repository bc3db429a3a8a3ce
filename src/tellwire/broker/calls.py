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
from tellwire.protocol.operations.base import Operation, Reply

log = logging.getLogger("tellwire.calls")


class OperationHandlers:
    """Operations answered by other parts of the broker; each is registered once, by that part."""

    def __init__(self) -> None:
        self.answers: dict[type, Callable[[Any], Reply]] = {}
        self.deferred: dict[type, Callable[[Source, int, Any], None]] = {}
        """Answered later, off the event loop."""
        self.exclusive: set[type] = set()
        """Must find nothing uncommitted."""

    def answer(self, operation: type[Operation[Any]], answer: Callable[[Any], Reply]) -> None:
        """Register the function that answers an operation, in its tick."""
        self.answers[operation] = answer
        if operation.runs == "exclusive":
            self.exclusive.add(operation)

    def defer(self, operation: type[Operation[Any]], begin: Callable[[Source, int, Any], None]) -> None:
        """Register the function that starts an operation and answers its source later."""
        if operation.runs != "deferred":
            raise ValueError(f"{operation.wire_name()} is not declared as deferred")
        self.deferred[operation] = begin


class InternalSource:
    """A `Source` for the broker's own commands, without a connection: nothing is offered to it."""

    def __init__(self, caller: Caller = NOBODY, group: str = "") -> None:
        self.caller = caller
        self.group = group
        self.writable = True

    @property
    def last_seen(self) -> float:
        """Now: it lives as long as the broker does."""
        return time.monotonic()

    def offer(self, frame: bytes) -> None: ...

    def mail(self, waiting: int) -> None: ...

    def flush(self) -> None: ...

    def attach(self, agent: str, *, is_own_client: bool) -> None: ...

    def detach(self) -> None: ...

    def dismiss(self, error: TellwireError) -> None: ...


class OwnCalls(InternalSource):
    """Puts commands to the engine and waits for the answers, any number at a time."""

    def __init__(self, mesh: Mesh, caller: Caller = NOBODY, group: str = "") -> None:
        super().__init__(caller, group)
        self._mesh = mesh
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = 0

    async def call(self, command: Command) -> Any:
        """Run a command; its events are on disk when this returns.

        Raises:
            TellwireError: it was refused.
        """
        self._numbers += 1
        future = self._asked[self._numbers] = asyncio.get_running_loop().create_future()
        self._mesh.submit(self, self._numbers, command)
        return await future

    def answer(self, n: int, reply: Reply) -> None:
        """Resolve the future of call `n` with the engine's reply."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        """Fail the future of call `n` with the engine's refusal."""
        future = self._asked.pop(n, None)
        if future is not None and not future.done():
            future.set_exception(error)


async def call_for(mesh: Mesh, caller: Caller, group: str, command: Command) -> Any:
    """Run a command on a caller's behalf; its events are on disk when this returns.

    Raises:
        TellwireError: it was refused.
    """
    return await OwnCalls(mesh, caller, group).call(command)


class LateAnswers:
    """Answers calls whose work takes a while; refusals are recorded like any other."""

    def __init__(self, mesh: MeshView, refusals: Refusals) -> None:
        self._mesh = mesh
        self._refusals = refusals

    async def answer(self, source: Source, n: int, operation: AnyOperation, work: Awaitable[Reply]) -> None:
        """Answer a call with the result of the work, or refuse it."""
        try:
            source.answer(n, await work)
        except TellwireError as error:
            self._refusals.note(source.caller, operation, error, self._mesh.clock.now)
            source.refuse(n, error)
        except Exception:
            log.exception("%s failed", type(operation).__name__)
            source.refuse(n, TellwireError("internal", "The broker failed while handling this call."))
        source.flush()
