"""Watching the mesh: an overview, then every change, through restarts of the broker.

What comes out of the iteration is what `tellwire.views.model.fold` takes in. The first thing is an overview,
and another one comes whenever the feed could not be followed without a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.feed import FeedEvent, Overview, OverviewPage, Pulse, Rows, WatchFeed
from tellwire.protocol.operations.needs import Attend, Attending, Notice
from tellwire.sdk.broker_client import BrokerAddress, BrokerClient, Handlers
from tellwire.sdk.connection import BrokerConnection

Change: TypeAlias = OverviewPage | FeedEvent | Rows | Pulse | Notice
HELD_MAX = 20_000
"""Changes that a program has not asked for yet; with more, it is given a new overview instead."""
GAP = "gap"


class Watch:
    """Use it with `async with`, and iterate over it."""

    def __init__(self, address: BrokerAddress, asked: WatchFeed) -> None:
        self._address = address
        self._asked = asked
        self._client: BrokerClient | None = None
        self._held: deque[Change] = deque()
        self._came = asyncio.Event()
        self._lost = asked.after is None
        self._known = asked.after or 0
        self._attends: Attend | None = None

    async def __aenter__(self) -> Watch:
        client = self._client = BrokerClient(
            self._address,
            Handlers(
                on_feed=self._put,
                on_state=self._put,
                on_connected=self._begin,
                on_failed=self._came.set,
            ),
        )
        await client.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    def __aiter__(self) -> AsyncIterator[Change]:
        """Changes as they come, for ever.

        Raises:
            TellwireError: the connection is over for good.
        """
        return self._changes()

    @property
    def client(self) -> BrokerClient:
        """The connection, for other calls while the feed runs."""
        if self._client is None:
            raise RuntimeError("use `async with tellwire.watch(...) as feed`")
        return self._client

    @property
    def waiting(self) -> int:
        """Changes that have come and were not asked for yet."""
        return len(self._held)

    async def attend(
        self, *, focused: bool, notifies: bool = False, heard: int = 0, quiet_s: float | None = None
    ) -> Attending:
        """Tell whether the person looks at this console, also after the broker was restarted.

        With `notifies`, a `Notice` comes with the changes when they are to be notified; answer it within a
        second with its id as `heard`.
        """
        self._attends = Attend(focused=focused, notifies=notifies)
        return await self.client.call(
            Attend(focused=focused, notifies=notifies, heard=heard, quiet_s=quiet_s)
        )

    async def _changes(self) -> AsyncIterator[Change]:
        """Changes as they come; after a gap or a lost connection, a new overview first."""
        client = self.client
        while True:
            while self._held:
                change = self._held.popleft()
                if isinstance(change, FeedEvent) and change.type == GAP:
                    for page in await self._overview(client.call):
                        yield page
                else:
                    yield change
            if self._lost:
                for page in await self._overview(client.call):
                    yield page
                continue
            if client.failure is not None:
                raise client.failure
            self._came.clear()
            if not self._held:
                await self._came.wait()

    async def _begin(self, connection: BrokerConnection, _welcome: Welcome) -> None:
        """A new connection goes on where the one before it ended, or begins with an overview."""

        async def call(operation: Operation[Any]) -> Any:
            return await self.client.call_on(connection, operation)

        while True:
            if self._lost:
                pages = await self._overview(call)
                self._held.clear()
                self._held.extend(pages)
                self._known = pages[0].seq
            reply = await call(msgspec.structs.replace(self._asked, after=self._known))
            if not reply.reset:
                break
            self._lost = True
        if self._attends is not None:
            await call(self._attends)
        self._came.set()

    async def _overview(self, call: Any) -> list[OverviewPage]:
        """All pages; the feed goes on behind the first."""
        self._lost = False
        pages: list[OverviewPage] = [await call(Overview())]
        while pages[-1].next:
            pages.append(await call(Overview(after=pages[-1].next)))
        return pages

    def _put(self, change: FeedEvent | Rows | Pulse | Notice) -> None:
        if isinstance(change, FeedEvent):
            if change.seq <= self._known:
                return  # it came before the connection broke
            self._known = change.seq
        if len(self._held) >= HELD_MAX:
            self._held.clear()
            self._lost = True
        self._held.append(change)
        self._came.set()
