"""Who a send reaches: one, several, the group, a topic; and what is said when nobody is."""

from __future__ import annotations

import pytest

from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.operations.messages import SendMessage, Sent
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused


def mesh_of(*names: str, limits: Limits | None = None) -> Mesh:
    mesh = Mesh(limits)
    for name in names:
        mesh.register(name)
    return mesh


def reached(reply: Sent) -> dict[str, str]:
    return {outcome.name: outcome.status for outcome in reply.recipients}


def holders(mesh: Mesh) -> list[str]:
    return sorted(agent.name for agent in mesh.state.agents.values() if agent.pending)


@pytest.mark.requirement("NET-3")
def test_a_send_to_an_online_agent_is_received_and_to_an_offline_one_queued() -> None:
    mesh = mesh_of("alice", "bob", "carol")
    mesh.leave("carol")
    to_bob, to_carol = mesh.send("alice", "BOB"), mesh.send("alice", "carol")
    assert (to_bob.status, to_carol.status) == ("received", "queued")
    assert mesh.pending("bob") == [to_bob.id]
    assert mesh.pending("carol") == [to_carol.id]


@pytest.mark.requirement("NET-3")
def test_a_send_to_an_unknown_name_is_denied_with_the_nearest_names() -> None:
    mesh = mesh_of("alice", "reviewer")
    reply = mesh.send("alice", "reviewr")
    assert (reply.status, reply.id, reply.suggestions) == ("denied", "", ["reviewer"])
    assert "reviewer" in reply.note
    assert mesh.send("alice", "alicee").suggestions == [], "one is never sent to oneself"
    assert mesh.state.waiting() == 0


@pytest.mark.requirement("NET-3")
def test_a_send_to_oneself_is_refused_as_an_outcome() -> None:
    mesh = mesh_of("alice")
    assert mesh.send("alice", "Alice").status == "refused"
    assert mesh.state.waiting() == 0


@pytest.mark.parametrize("to", ["", "a b", "#", "a:b:c", [], ["#topic"], ["broadcast"], ["bob", ""]])
def test_a_malformed_address_is_an_error_not_an_outcome(to: str | list[str]) -> None:
    mesh = mesh_of("alice", "bob")
    with refused("address_invalid"):
        mesh.send("alice", to)
    assert mesh.state.waiting() == 0


@pytest.mark.requirement("NET-2")
def test_the_broker_stamps_who_sent_a_message() -> None:
    mesh = mesh_of("alice", "bob")
    sent = mesh.send("alice", "bob", {"from": "eve"})
    (seq,) = mesh.agent("bob").pending
    record = mesh.stored[seq].record()
    assert (record.id, record.sender, record.to, record.body) == (sent.id, "alice", "bob", {"from": "eve"})
    assert "sender" not in SendMessage.__struct_fields__
    assert "from" not in SendMessage.__struct_fields__


@pytest.mark.parametrize("caller", [SCRIPT, OPERATOR])
def test_who_is_no_agent_cannot_send(caller: object) -> None:
    mesh = mesh_of("bob")
    with refused("not_registered"):
        mesh.run(SendMessage(to="bob", body="x"), caller)  # pyright: ignore[reportArgumentType]  # a caller


# -- several ------------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-4")
def test_a_list_tells_for_each_name_what_became_of_it() -> None:
    mesh = mesh_of("alice", "bob", "carol")
    mesh.leave("carol")
    reply = mesh.send("alice", ["bob", "carol", "nobody", "alice"])
    assert reply.status == "sent"
    assert reached(reply) == {"bob": "received", "carol": "queued", "nobody": "denied", "alice": "refused"}
    assert holders(mesh) == ["bob", "carol"]


@pytest.mark.requirement("NET-4")
def test_a_name_listed_twice_gets_one_message() -> None:
    mesh = mesh_of("alice", "bob")
    reply = mesh.send("alice", ["bob", "BOB"])
    assert [(outcome.name, outcome.status) for outcome in reply.recipients] == [("bob", "received")]
    assert mesh.of_type(MessageQueued)[0].recipients == [mesh.agent("bob").id]


def test_a_list_that_reaches_nobody_stores_nothing() -> None:
    mesh = mesh_of("alice")
    reply = mesh.send("alice", ["alice", "nobody"])
    assert (reply.id, reply.status) == ("", "sent")
    assert reached(reply) == {"alice": "refused", "nobody": "denied"}


@pytest.mark.requirement("SEC-3", "NET-4")
def test_a_list_has_a_bound() -> None:
    mesh = mesh_of("alice", "bob", limits=Limits(recipients_max=2))
    with refused("limit_exceeded"):
        mesh.send("alice", ["bob", "bob", "bob"])


# -- broadcast ----------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-4")
def test_a_broadcast_reaches_the_online_agents_of_the_group_and_never_its_sender() -> None:
    mesh = mesh_of("alice", "bob", "carol", "dave")
    mesh.register("eve", group="/elsewhere")
    mesh.leave("dave")
    reply = mesh.send("alice", "broadcast")
    assert (reply.status, reached(reply)) == ("sent", {"bob": "received", "carol": "received"})
    assert holders(mesh) == ["bob", "carol"]


def test_a_broadcast_to_nobody_says_so() -> None:
    mesh = mesh_of("alice")
    reply = mesh.send("alice", "broadcast")
    assert (reply.status, reply.id, reply.recipients) == ("sent", "", [])
    assert reply.note


@pytest.mark.requirement("NET-4")
def test_a_broadcast_beyond_the_bound_must_be_confirmed() -> None:
    mesh = mesh_of("alice", "b1", "b2", "b3", limits=Limits(broadcast_unconfirmed_max=2))
    with refused("confirmation_needed") as caught:
        mesh.send("alice", "broadcast")
    assert "3" in caught.value.message
    assert mesh.state.waiting() == 0
    assert len(mesh.send("alice", "broadcast", confirm=True).recipients) == 3
    assert len(mesh.send("alice", ["b1", "b2", "b3"]).recipients) == 3, "who lists them means them"


# -- topics -------------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-6")
def test_a_topic_reaches_its_subscribers_the_offline_ones_later_and_never_its_sender() -> None:
    mesh = mesh_of("alice", "bob", "carol", "dave")
    for name in ("alice", "bob", "carol"):
        mesh.run(Subscribe(topic="#Build"), mesh.caller(name))
    mesh.leave("carol")
    reply = mesh.send("alice", "#build")
    assert reached(reply) == {"bob": "received", "carol": "queued"}
    assert holders(mesh) == ["bob", "carol"]
    assert mesh.register("carol", session="again").waiting == 1


@pytest.mark.requirement("F2-6")
def test_who_unsubscribed_gets_no_more_and_keeps_what_waits() -> None:
    mesh = mesh_of("alice", "bob")
    mesh.run(Subscribe(topic="build"), mesh.caller("bob"))
    mesh.send("alice", "#build", "one")
    assert mesh.run(Unsubscribe(topic="#BUILD"), mesh.caller("bob")).topics == []
    assert mesh.send("alice", "#build", "two").recipients == []
    assert mesh.bodies("bob") == ["one"]
    assert mesh.state.topics == {}


@pytest.mark.requirement("F2-6")
def test_subscriptions_are_listed_once_each_and_outlive_sessions() -> None:
    mesh = mesh_of("bob")
    for topic in ("#b", "a", "#B"):
        topics = mesh.run(Subscribe(topic=topic), mesh.caller("bob")).topics
    assert topics == ["#a", "#b"]
    count = len(mesh.events)
    mesh.run(Unsubscribe(topic="never"), mesh.caller("bob"))
    assert len(mesh.events) == count
    mesh.lose("bob")
    mesh.register("bob", session="again")
    assert sorted(mesh.agent("bob").topics) == ["a", "b"]
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("SEC-3")
def test_subscriptions_have_a_bound() -> None:
    mesh = mesh_of("bob", limits=Limits(topics_max=1))
    mesh.run(Subscribe(topic="a"), mesh.caller("bob"))
    with refused("limit_exceeded"):
        mesh.run(Subscribe(topic="b"), mesh.caller("bob"))
    mesh.run(Subscribe(topic="a"), mesh.caller("bob"))


@pytest.mark.parametrize("topic", ["", "#", "a b", "##a", "t" * 65])
def test_a_bad_topic_is_refused(topic: str) -> None:
    mesh = mesh_of("bob")
    for operation in (Subscribe(topic=topic), Unsubscribe(topic=topic)):
        with pytest.raises(TellwireError) as caught:
            mesh.run(operation, mesh.caller("bob"))
        assert caught.value.code == "address_invalid"


def test_a_forgotten_agent_leaves_its_topics() -> None:
    mesh = mesh_of("alice", "bob")
    mesh.run(Subscribe(topic="build"), mesh.caller("bob"))
    mesh.forget("bob")
    assert mesh.state.topics == {}
    assert mesh.send("alice", "#build").recipients == []
