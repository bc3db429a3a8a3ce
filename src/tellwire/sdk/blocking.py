"""The agent for programs without an event loop: the same calls, run on a loop in a thread of their own.

`blocking` makes each call from its async original, and keeps its parameters, types and docstring.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from tellwire.sdk.agent import NEXT_S, Agent, Message
from tellwire.sdk.calls import Children, Links, Pairs, Past, Scopes, Turns

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tellwire", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; an interrupt cancels it.

        Raises:
            RuntimeError: the loop does not run.
        """
        if self._loop is None:
            work.close()
            raise RuntimeError("use `with tellwire.connect_sync(...) as me`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop, and wait for the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class Blocking(Generic[S]):
    """An object whose async calls are made from outside of its loop."""

    def __init__(self, subject: S, thread: LoopThread) -> None:
        self._subject = subject
        self._thread = thread


def blocking(
    call: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[S], P], T]:
    """Make the blocking form of an async method."""

    @wraps(call)
    def wait(self: Blocking[S], *args: P.args, **kwargs: P.kwargs) -> T:
        work = call(self._subject, *args, **kwargs)  # pyright: ignore[reportPrivateUsage] - a method of it
        return self._thread.run(work)  # pyright: ignore[reportPrivateUsage]

    return wait


class BlockingPast(Blocking[Past]):
    history = blocking(Past.history)
    search = blocking(Past.search)
    message = blocking(Past.message)
    thread = blocking(Past.thread)


class BlockingLinks(Blocking[Links]):
    open = blocking(Links.open)
    add_member = blocking(Links.add_member)
    leave = blocking(Links.leave)
    close = blocking(Links.close)
    resume = blocking(Links.resume)
    all = blocking(Links.all)
    history = blocking(Links.history)


class BlockingTurns(Blocking[Turns]):
    listen = blocking(Turns.listen)
    unlisten = blocking(Turns.unlisten)
    mark_checkpoint = blocking(Turns.mark_checkpoint)
    transcript = blocking(Turns.transcript)


class BlockingPairs(Blocking[Pairs]):
    add = blocking(Pairs.add)
    remove = blocking(Pairs.remove)
    all = blocking(Pairs.all)
    send = blocking(Pairs.send)
    policy = blocking(Pairs.policy)


class BlockingScopes(Blocking[Scopes]):
    claim = blocking(Scopes.claim)
    release = blocking(Scopes.release)
    who_owns = blocking(Scopes.who_owns)
    all = blocking(Scopes.all)


class BlockingChildren(Blocking[Children]):
    spawn = blocking(Children.spawn)
    ask = blocking(Children.ask)
    stop = blocking(Children.stop)
    all = blocking(Children.all)


class BlockingAgent(Blocking[Agent]):
    """`Agent` for programs without an event loop. Use it as a context manager; its calls wait."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent, LoopThread())
        self.past = BlockingPast(agent.past, self._thread)
        self.links = BlockingLinks(agent.links, self._thread)
        self.turns = BlockingTurns(agent.turns, self._thread)
        self.pairs = BlockingPairs(agent.pairs, self._thread)
        self.scopes = BlockingScopes(agent.scopes, self._thread)
        self.children = BlockingChildren(agent.children, self._thread)

    def __enter__(self) -> BlockingAgent:
        self._thread.start()
        try:
            self._thread.run(self._subject.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.run(self._subject.__aexit__(kind, error, trace))
        finally:
            self._thread.stop()

    @property
    def name(self) -> str:
        return self._subject.name

    @property
    def id(self) -> str:
        return self._subject.id

    @property
    def note(self) -> str:
        return self._subject.note

    @property
    def attached(self) -> bool:
        return self._subject.attached

    @property
    def waiting(self) -> int:
        return self._subject.waiting

    def new_key(self) -> str:
        return self._subject.new_key()

    call = blocking(Agent.call)
    peers = blocking(Agent.peers)
    peer = blocking(Agent.peer)
    update = blocking(Agent.update)
    mute = blocking(Agent.mute)
    report_activity = blocking(Agent.report_activity)
    send = blocking(Agent.send)
    status = blocking(Agent.status)
    why = blocking(Agent.why)
    subscribe = blocking(Agent.subscribe)
    unsubscribe = blocking(Agent.unsubscribe)
    topics = blocking(Agent.topics)
    confirm = blocking(Agent.confirm)
    peek = blocking(Agent.peek)

    def messages(self, wait_s: float = 0.0, *, limit: int | None = None) -> list[Message]:
        """Like `Agent.messages`. After an interrupt nothing is confirmed on leaving: nobody saw what came."""
        try:
            return self._thread.run(self._subject.messages(wait_s, limit=limit))
        except KeyboardInterrupt:
            self._subject.confirms_at_end = False
            raise

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come; one is confirmed when the next is asked for, not if the body raised."""
        while True:
            for message in self.messages(wait_s=NEXT_S, limit=1):
                yield message
                self.confirm([message.id])
