"""Threads: found from any of their messages, page by page, and only what the caller may read."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.explain import ReadThread, Thread
from tellwire.protocol.operations.messages import SendMessage
from tellwire.store.memory_journal import MemoryJournal
from tests.simulation.broker import Life, Port, Tap, Time
from tests.unit.mesh import OPERATOR


class World:
    """A broker on a journal in memory, and agents that speak."""

    def __init__(self) -> None:
        self.life = Life(Tap(MemoryJournal()), Time())
        self.ports: dict[str, Port] = {}
        self.number = 0

    def join(self, name: str) -> None:
        self.ports[name] = port = Port(self.life)
        self.ask(port, RegisterAgent(name=name, session=f"s-{name}", pulls=True))

    def ask(self, port: Port, operation: Operation[Any]) -> object:
        self.number += 1
        self.life.engine.submit(port, self.number, operation)  # pyright: ignore[reportArgumentType]
        self.life.run()
        return next(said for n, said in port.heard if n == self.number)

    def say(self, name: str, to: str | list[str], body: str, re: str | None = None) -> str:
        sent = self.ask(self.ports[name], SendMessage(to=to, body=body, re=re))
        return getattr(sent, "id", "")

    def read(self, message: str, *, as_name: str = "", **fields: object) -> Thread:
        port = self.ports[as_name] if as_name else Port(self.life)
        if not as_name:
            port.caller = OPERATOR
        reply = self.ask(port, ReadThread(id=message, **fields))  # pyright: ignore[reportArgumentType]
        if isinstance(reply, TellwireError):
            raise reply
        assert isinstance(reply, Thread)
        return reply


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("alice", "bob", "carol"):
        world.join(name)
    return world


def bodies(thread: Thread) -> list[object]:
    return [message.body for message in thread.messages]


def test_a_thread_is_the_same_from_each_of_its_messages(world: World) -> None:
    root = world.say("alice", ["bob", "carol"], "who?")
    other = world.say("alice", "bob", "something else")
    first = world.say("bob", "alice", "I", re=root)
    second = world.say("carol", "alice", "not I", re=root)
    last = world.say("alice", "bob", "then you", re=first)
    for message in (root, first, second, last):
        thread = world.read(message)
        assert (thread.root, bodies(thread)) == (root, ["who?", "I", "not I", "then you"])
        assert not thread.more
        assert not thread.cut
    assert bodies(world.read(other)) == ["something else"]
    states = {each.name: each.state for each in world.read(root).messages[0].recipients}
    assert states == {"bob": "answered", "carol": "answered"}


def test_an_agent_sees_only_what_it_sent_or_received(world: World) -> None:
    root = world.say("alice", "bob", "secret")
    answer = world.say("bob", "alice", "yes", re=root)
    leak = world.say("alice", "carol", "see that", re=answer)
    assert bodies(world.read(leak, as_name="carol")) == ["see that"]
    assert bodies(world.read(root, as_name="bob")) == ["secret", "yes"]
    with pytest.raises(TellwireError, match="There is no message"):
        world.read(root, as_name="carol")


def test_a_long_thread_comes_in_pages(world: World) -> None:
    root = last = world.say("alice", "bob", "0")
    for number in range(1, 8):
        last = world.say(
            "bob" if number % 2 else "alice", "alice" if number % 2 else "bob", str(number), re=last
        )
    found: list[object] = []
    after: str | None = None
    for _ in range(10):
        page = world.read(last, after=after, limit=3)
        found += bodies(page)
        after = page.next
        if not page.more:
            break
    assert found == [str(number) for number in range(8)]
    assert world.read(last).root == root
    with pytest.raises(TellwireError, match="`limit`"):
        world.read(last, limit=0)
