"""The agent for programs without an event loop: the same calls, run on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from palaver.client.agent import Agent, Message, Peer, Receipt, Status
from palaver.protocol.operations.history import History

T = TypeVar("T")


class BlockingAgent:
    """Use it as a context manager; every method is `Agent`'s, and waits."""

    def __init__(self, make: Callable[[], Agent]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._agent: Agent | None = None

    def __enter__(self) -> BlockingAgent:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="palaver", daemon=True)
        self._thread.start()
        try:
            self._agent = self._run(self._enter())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._me.__aexit__(kind, error, trace))
        finally:
            self._end()

    async def _enter(self) -> Agent:
        return await self._make().__aenter__()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("use `with palaver.connect_sync(...) as me`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @property
    def _me(self) -> Agent:
        if self._agent is None:
            raise RuntimeError("use `with palaver.connect_sync(...) as me`")
        return self._agent

    @property
    def name(self) -> str:
        """The name borne."""
        return self._me.name

    @property
    def id(self) -> str:
        """The agent's id."""
        return self._me.id

    @property
    def note(self) -> str:
        """What the broker said on joining."""
        return self._me.note

    @property
    def attached(self) -> bool:
        """See `Agent.attached`."""
        return self._me.attached

    @property
    def waiting(self) -> int:
        """See `Agent.waiting`."""
        return self._me.waiting

    def peers(self, *, all: bool = False, capability: str | None = None) -> list[Peer]:
        """See `Agent.peers`."""
        return self._run(self._me.peers(all=all, capability=capability))

    def peer(self, name: str) -> Peer:
        """See `Agent.peer`."""
        return self._run(self._me.peer(name))

    def update(
        self,
        *,
        name: str | None = None,
        capabilities: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Peer:
        """See `Agent.update`."""
        return self._run(self._me.update(name=name, capabilities=capabilities, metadata=metadata))

    def new_key(self) -> str:
        """See `Agent.new_key`."""

        async def make() -> str:
            return self._me.new_key()

        return self._run(make())

    def send(self, to: str | Sequence[str], body: Any, **options: Any) -> Receipt:
        """See `Agent.send`."""
        return self._run(self._me.send(to, body, **options))

    def messages(self, wait_s: float = 0.0, *, limit: int | None = None) -> list[Message]:
        """See `Agent.messages`."""
        return self._run(self._me.messages(wait_s, limit=limit))

    def confirm(self, ids: Iterable[str | Message]) -> int:
        """See `Agent.confirm`."""
        return self._run(self._me.confirm(ids))

    def peek(self, limit: int = 50) -> list[Message]:
        """See `Agent.peek`."""
        return self._run(self._me.peek(limit))

    def status(self, message_id: str) -> Status:
        """See `Agent.status`."""
        return self._run(self._me.status(message_id))

    def history(self, **options: Any) -> History:
        """See `Agent.history`."""
        return self._run(self._me.history(**options))

    def search(self, query: str, **options: Any) -> History:
        """See `Agent.search`."""
        return self._run(self._me.search(query, **options))

    def subscribe(self, topic: str) -> list[str]:
        """See `Agent.subscribe`."""
        return self._run(self._me.subscribe(topic))

    def unsubscribe(self, topic: str) -> list[str]:
        """See `Agent.unsubscribe`."""
        return self._run(self._me.unsubscribe(topic))

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come; one is confirmed when the next is asked for, not if the body raised."""
        while True:
            for message in self.messages(wait_s=3_600.0, limit=1):
                yield message
                self.confirm([message.id])
