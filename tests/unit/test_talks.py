"""Conversations by the last word: who takes part, how much was said, and what is not read yet."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.protocol.addresses import conversation_of
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.history import Conversations, ListConversations
from tellwire.protocol.operations.messages import ConfirmMessages, TakeMessages
from tellwire.protocol.operations.topics import Subscribe
from tests.simulation.broker import Port
from tests.unit.mesh import OPERATOR
from tests.unit.test_threads import World


@pytest.mark.parametrize(
    ("sender", "recipients", "to", "key"),
    [
        ("a1", ["a2"], "bob", "pair:a1 a2"),
        ("a10", ["a2"], "bob", "pair:a2 a10"),
        ("a2", ["a1"], "alice", "pair:a1 a2"),
        ("", ["a2"], "bob", "pair:a2"),
        ("a1", ["a2"], "link:l4/7", "link:l4"),
        ("a1", ["a2"], "#builds", "topic:#builds"),
        ("a1", ["a2", "a3"], "broadcast", "several:a1"),
        ("a1", ["a2", "a3"], "bob, carol", "several:a1"),
    ],
)
def test_where_a_message_belongs(sender: str, recipients: list[str], to: str, key: str) -> None:
    assert conversation_of(sender, recipients, to) == key


def listed(world: World, **fields: Any) -> Conversations:
    port = Port(world.life)
    port.caller = OPERATOR
    reply = world.ask(port, ListConversations(**fields))
    if isinstance(reply, TellwireError):
        raise reply
    assert isinstance(reply, Conversations)
    return reply


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("alice", "bob", "carol"):
        world.join(name)
    world.say("alice", "bob", "one")
    world.say("bob", "alice", "two")
    world.ask(world.ports["carol"], Subscribe(topic="#builds"))
    world.say("alice", "#builds", "built")
    world.say("alice", ["bob", "carol"], "to both")
    world.say("carol", "operator", "May I?")
    world.say("alice", "bob", "three " + "x" * 500)
    return world


def test_conversations_come_by_the_last_word(world: World) -> None:
    found = listed(world, chars=5).conversations
    told = [(each.kind, each.agents, each.messages, each.unread, each.sender, each.text) for each in found]
    assert told == [
        ("pair", ["alice", "bob"], 3, 4, "alice", "three"),
        ("pair", ["operator", "carol"], 1, 1, "carol", "May I"),
        ("several", ["alice", "bob", "carol"], 1, 1, "alice", "to bo"),
        ("topic", ["alice", "carol"], 1, 1, "alice", "built"),
    ]
    assert [each.key.split(":")[0] for each in found] == ["pair", "pair", "several", "topic"]
    assert all(each.last and each.at for each in found)


def test_what_was_read_is_not_counted(world: World) -> None:
    world.ask(world.ports["bob"], TakeMessages(call="c1"))
    assert listed(world).conversations[0].unread == 4, "handed over is not read"
    bob = world.life.state.find("bob")
    assert bob is not None
    world.ask(world.ports["bob"], ConfirmMessages(ids=[format_id("m", seq) for seq in bob.leased]))
    assert listed(world).conversations[0].unread == 1


def test_pages_go_on_where_the_last_one_ended(world: World) -> None:
    whole = listed(world).conversations
    pages = [listed(world, limit=1)]
    while pages[-1].more:
        pages.append(listed(world, limit=1, before=pages[-1].next))
    assert [each for page in pages for each in page.conversations] == whole


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"limit": 0}, "limit_exceeded"),
        ({"limit": 100_000}, "limit_exceeded"),
        ({"chars": -1}, "bad_request"),
        ({"before": "nonsense"}, "unknown_message"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(world: World, fields: dict[str, Any], code: str) -> None:
    with pytest.raises(TellwireError) as refused:
        listed(world, **fields)
    assert refused.value.code == code


def test_agents_may_not_list_the_conversations_of_others(world: World) -> None:
    reply = world.ask(world.ports["bob"], ListConversations())
    assert isinstance(reply, TellwireError)
    assert reply.code == "forbidden"
