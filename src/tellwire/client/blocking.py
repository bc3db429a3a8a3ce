"""The agent for programs without an event loop: the same calls, run on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tellwire.client.agent import Agent, Message, Peer, Receipt, Status
from tellwire.protocol.operations.asking import Answered
from tellwire.protocol.operations.children import ChildRecord
from tellwire.protocol.operations.history import History
from tellwire.protocol.operations.links import LinkRecord
from tellwire.protocol.operations.peers import PeerRecord, PolicyState
from tellwire.protocol.operations.scopes import ClaimRecord, Ownership, ScopeRecord, ScopeRule
from tellwire.protocol.operations.sessions import SessionData

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
        self._thread = threading.Thread(target=self._loop.run_forever, name="tellwire", daemon=True)
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
            raise RuntimeError("use `with tellwire.connect_sync(...) as me`")
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
            raise RuntimeError("use `with tellwire.connect_sync(...) as me`")
        return self._agent

    @property
    def name(self) -> str:
        """The agent's name."""
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

    def mute(self, *, for_s: float | None = None, off: bool = False) -> Peer:
        """See `Agent.mute`."""
        return self._run(self._me.mute(for_s=for_s, off=off))

    def session_data(self, agent: str, **options: Any) -> SessionData:
        """See `Agent.session_data`."""
        return self._run(self._me.session_data(agent, **options))

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
        try:
            return self._run(self._me.messages(wait_s, limit=limit))
        except KeyboardInterrupt:
            self._me.confirms_at_end = False  # what came in that moment was not seen
            raise

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

    def open_link(self, members: Sequence[str], **options: Any) -> LinkRecord:
        """See `Agent.open_link`."""
        return self._run(self._me.open_link(members, **options))

    def add_member(self, link: str, name: str, **options: Any) -> LinkRecord:
        """See `Agent.add_member`."""
        return self._run(self._me.add_member(link, name, **options))

    def leave_link(self, link: str) -> None:
        """See `Agent.leave_link`."""
        self._run(self._me.leave_link(link))

    def close_link(self, link: str | None = None, **options: Any) -> LinkRecord:
        """See `Agent.close_link`."""
        return self._run(self._me.close_link(link, **options))

    def resume_link(self, link: str) -> LinkRecord:
        """See `Agent.resume_link`."""
        return self._run(self._me.resume_link(link))

    def links(self, *, all: bool = False) -> list[LinkRecord]:
        """See `Agent.links`."""
        return self._run(self._me.links(all=all))

    def link_history(self, link: str, **options: Any) -> History:
        """See `Agent.link_history`."""
        return self._run(self._me.link_history(link, **options))

    def listen(self, agent: str) -> list[str]:
        """See `Agent.listen`."""
        return self._run(self._me.listen(agent))

    def unlisten(self, agent: str) -> list[str]:
        """See `Agent.unlisten`."""
        return self._run(self._me.unlisten(agent))

    def mark_checkpoint(self) -> None:
        """See `Agent.mark_checkpoint`."""
        self._run(self._me.mark_checkpoint())

    def add_peer(self, name: str) -> list[PeerRecord]:
        """Become a peer of another agent, and it of this one."""
        return self._run(self._me.add_peer(name))

    def remove_peer(self, name: str) -> list[PeerRecord]:
        """End a peer relation, for both."""
        return self._run(self._me.remove_peer(name))

    def own_peers(self) -> list[PeerRecord]:
        """The peers of this agent."""
        return self._run(self._me.own_peers())

    def send_to_peer(self, to: str, body: Any, **options: Any) -> Receipt:
        """Send to a peer, and to nobody who is not one."""
        return self._run(self._me.send_to_peer(to, body, **options))

    def policy(self) -> PolicyState:
        """Who sees whom in this project."""
        return self._run(self._me.policy())

    def claim(self, paths: Sequence[str | ScopeRule], **options: Any) -> list[ClaimRecord]:
        """Claim paths, so that no other agent writes there."""
        return self._run(self._me.claim(paths, **options))

    def release(self, *paths: str) -> list[ClaimRecord]:
        """Give claims back, of these paths or all."""
        return self._run(self._me.release(*paths))

    def who_owns(self, path: str) -> Ownership:
        """Who owns a path, and whether the caller may write there."""
        return self._run(self._me.who_owns(path))

    def scopes(self) -> list[ScopeRecord]:
        """Who may write where."""
        return self._run(self._me.scopes())

    def spawn(self, name: str, client: str, task: str, **options: Any) -> ChildRecord:
        """Start an agent as a child of this one."""
        return self._run(self._me.spawn(name, client, task, **options))

    def ask_agent(self, client: str, question: str, **options: Any) -> Answered:
        """Start an agent for one question; returns its answer when nothing of it is left."""
        return self._run(self._me.ask_agent(client, question, **options))

    def stop_child(self, name: str) -> ChildRecord:
        """Stop a child or grandchild."""
        return self._run(self._me.stop_child(name))

    def children(self) -> list[ChildRecord]:
        """This agent's children, and theirs."""
        return self._run(self._me.children())

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come; one is confirmed when the next is asked for, not if the body raised."""
        while True:
            for message in self.messages(wait_s=3_600.0, limit=1):
                yield message
                self.confirm([message.id])
