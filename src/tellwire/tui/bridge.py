"""Between the connection and the picture: changes go into the model, and the screen hears of it, ten times a
second at most. Calls go the other way; one that is lost with the broker is sent again, under the same id.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from types import TracebackType
from typing import Protocol, TypeVar

from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.feed import WatchFeed
from tellwire.protocol.operations.needs import Attending, Notice
from tellwire.sdk.broker_client import BrokerAddress
from tellwire.sdk.watching import Change, Watch
from tellwire.views.model import Model, fold

R = TypeVar("R")

PAINT_S = 0.1
"""Between two repaints at least."""
SHARE = 4
"""Painting takes at most one part in so many of the time, however much there is to paint."""
BATCH = 100
"""Changes folded before keys are looked at again."""
CHARS = 300
CALL_S = 120.0
"""How long a call may take: starting an agent takes long."""


class Wire(Protocol):
    """A connection to a broker, as the console needs it."""

    @property
    def connected(self) -> bool:
        """Whether calls are answered now."""
        ...

    def changes(self) -> AsyncIterator[Change]:
        """An overview, and then all that changes."""
        ...

    def call(self, operation: Operation[R]) -> Awaitable[R]:
        """Ask the broker for something."""
        ...

    def new_key(self) -> str:
        """A fresh request id: what is sent with it happens once."""
        ...

    def attend(
        self, *, focused: bool, notifies: bool = False, heard: int = 0, quiet_s: float | None = None
    ) -> Awaitable[Attending]:
        """Tell whether the person looks, that a notice was shown, or to be quiet for a while."""
        ...


class LiveWire:
    """The real one: it starts a broker if none runs, and outlives it."""

    def __init__(self, address: BrokerAddress) -> None:
        self._watch = Watch(address, WatchFeed(chars=CHARS, live=True))
        self._word = secrets.token_hex(4)
        self._counter = itertools.count(1)

    async def __aenter__(self) -> LiveWire:
        await self._watch.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._watch.__aexit__(kind, error, trace)

    @property
    def connected(self) -> bool:
        return self._watch.client.connected

    def changes(self) -> AsyncIterator[Change]:
        return aiter(self._watch)

    def call(self, operation: Operation[R]) -> Awaitable[R]:
        return self._watch.client.call(operation, deadline_s=CALL_S)

    def attend(
        self, *, focused: bool, notifies: bool = False, heard: int = 0, quiet_s: float | None = None
    ) -> Awaitable[Attending]:
        return self._watch.attend(focused=focused, notifies=notifies, heard=heard, quiet_s=quiet_s)

    def new_key(self) -> str:
        return f"{int(self._watch.client.awake() * 1_000_000):x}-{self._word}{next(self._counter):x}"


class Bridge:
    """Folds what the wire tells, and says which tables changed."""

    def __init__(
        self, wire: Wire, paint: Callable[[set[str]], None], notify: Callable[[Notice], None]
    ) -> None:
        self.model = Model()
        self._wire = wire
        self._paint = paint
        self._notify = notify
        self._changed: set[str] = set()
        self._due: asyncio.TimerHandle | None = None
        self._painted = 0.0
        self._cost_s = 0.0

    @property
    def due(self) -> bool:
        """Whether something is not painted yet."""
        return self._due is not None

    async def run(self) -> None:
        """Until the connection is over for good.

        Raises:
            TellwireError: it is.
        """
        count = 0
        async for change in self._wire.changes():
            if isinstance(change, Notice):
                self._notify(change)
                continue
            self._changed.update(table for table, _ in fold(self.model, change))
            self._changed.add(type(change).__name__)
            self._plan()
            count += 1
            if count % BATCH == 0:
                await asyncio.sleep(0)

    def _plan(self) -> None:
        if self._due is None:
            pause_s = max(0.0, self._painted + max(PAINT_S, self._cost_s * SHARE) - monotonic())
            self._due = asyncio.get_running_loop().call_later(pause_s, self._flush)

    def _flush(self) -> None:
        self._due = None
        self._painted = monotonic()
        changed, self._changed = self._changed, set()
        began = monotonic()
        self._paint(changed)
        self._cost_s = monotonic() - began
