"""Peers: one fact for both sides, reasons in every listing, and who sees whom."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.agents.visibility import REASONS
from tellwire.core.context import Caller, StartBroker
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.children import PeersJoined, PeersParted
from tellwire.protocol.operations.agents import AgentList, GetAgent, ListAgents, RegisterAgent, UpdateAgent
from tellwire.protocol.operations.messages import Sent
from tellwire.protocol.operations.peers import (
    ListPeers,
    MeshPolicy,
    Peers,
    PolicyState,
    RegisterPeer,
    RemovePeer,
    SendToPeer,
)
from tellwire.protocol.operations.topics import Subscribe
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused

HERE = "/project"


@pytest.fixture
def mesh() -> Mesh:
    mesh = Mesh()
    for name in ("alice", "bob", "carol"):
        mesh.register(name, kind="codex")
    return mesh


def shake(mesh: Mesh, name: str, other: str) -> Peers:
    return mesh.run(RegisterPeer(name=other), mesh.caller(name))


def part(mesh: Mesh, name: str, other: str) -> Peers:
    return mesh.run(RemovePeer(name=other), mesh.caller(name))


def close(mesh: Mesh, group: str = HERE) -> None:
    mesh.run(MeshPolicy(group=group, policy="peers"), OPERATOR)


def listed(mesh: Mesh, name: str, *, everyone: bool = True) -> dict[str, str]:
    reply: AgentList = mesh.run(ListAgents(all=everyone), mesh.caller(name))
    return {agent.name: agent.reason for agent in reply.agents}


def send_to_peer(mesh: Mesh, name: str, other: str, **fields: Any) -> Sent:
    return mesh.run(SendToPeer(to=other, body="hi", **fields), mesh.caller(name))


# -- shaking hands ------------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-1", stage="lineage")
def test_register_peer_makes_both_directions_one_fact(mesh: Mesh) -> None:
    reply = shake(mesh, "alice", "bob")
    assert (reply.changed, [peer.name for peer in reply.peers]) == (True, ["bob"])
    assert mesh.of_type(PeersJoined) == [PeersJoined(mesh.agent("alice").id, mesh.agent("bob").id)]
    assert len(mesh.batches[-1].data) > 0
    for name, other in (("alice", "bob"), ("bob", "alice")):
        told: Peers = mesh.run(ListPeers(), mesh.caller(name))
        assert [peer.name for peer in told.peers] == [other]


@pytest.mark.requirement("PEER-1", stage="lineage")
def test_asking_twice_from_either_side_changes_nothing(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    assert not shake(mesh, "alice", "bob").changed
    assert not shake(mesh, "bob", "Alice").changed
    assert len(mesh.of_type(PeersJoined)) == 1


@pytest.mark.requirement("PEER-1", stage="lineage")
def test_at_every_length_of_the_journal_peers_are_reciprocal(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    shake(mesh, "carol", "alice")
    part(mesh, "bob", "alice")
    mesh.forget("carol")
    batches = list(mesh.batches)
    for length in range(len(batches) + 1):
        mesh.batches = batches[:length]
        peers = mesh.replayed().peers
        assert all(agent in peers[peer] for agent, known in peers.items() for peer in known)
    assert mesh.replayed().peers == {} == mesh.state.peers


@pytest.mark.requirement("PEER-2", stage="lineage")
def test_oneself_is_refused(mesh: Mesh) -> None:
    with refused("peer_self"):
        shake(mesh, "alice", "alice")
    with refused("peer_self"):
        part(mesh, "alice", "ALICE")


@pytest.mark.requirement("PEER-2", stage="lineage")
def test_an_unknown_agent_is_refused_with_the_nearest_names(mesh: Mesh) -> None:
    with refused("unknown_agent") as caught:
        shake(mesh, "alice", "bobb")
    assert "bob" in caught.value.advice


@pytest.mark.requirement("PEER-2", stage="lineage")
@pytest.mark.parametrize("how", ["leave", "lose"])
def test_an_ended_agent_is_refused(mesh: Mesh, how: str) -> None:
    getattr(mesh, how)("bob")
    with refused("agent_gone"):
        shake(mesh, "alice", "bob")


@pytest.mark.requirement("PEER-2", stage="lineage")
def test_an_agent_that_waits_for_the_broker_or_has_only_a_mailbox_is_not_ended(mesh: Mesh) -> None:
    mesh.register("box")
    mesh.leave("box")
    assert shake(mesh, "alice", "box").changed
    mesh.run(StartBroker("2"))
    mesh.register("alice", kind="codex")
    assert shake(mesh, "alice", "bob").changed


@pytest.mark.requirement("PEER-2", "PEER-7", stage="lineage")
def test_an_agent_that_is_hidden_is_refused_otherwise_than_one_that_is_missing(mesh: Mesh) -> None:
    close(mesh)
    with refused("not_visible") as hidden:
        shake(mesh, "alice", "bob")
    assert "peer add alice bob" in hidden.value.advice
    with refused("unknown_agent") as missing:
        shake(mesh, "alice", "bobb")
    assert "bob" not in missing.value.advice.replace("bobb", ""), "a hint at what it does not see"
    introduced: Peers = mesh.run(RegisterPeer(name="alice", other="bob"), OPERATOR)
    assert introduced.changed
    assert not shake(mesh, "bob", "alice").changed


@pytest.mark.requirement("PEER-2", stage="lineage")
def test_only_the_operator_speaks_for_two(mesh: Mesh) -> None:
    for caller in (mesh.caller("carol"), Caller(kind="agent", agent="", ancestor="")):
        with pytest.raises(TellwireError):
            mesh.run(RegisterPeer(name="alice", other="bob"), caller)
    with refused("forbidden"):
        mesh.run(RegisterPeer(name="alice", other="bob"), SCRIPT)
    with refused("not_registered"):
        mesh.run(RegisterPeer(name="alice"), SCRIPT)
    assert not mesh.of_type(PeersJoined)


def test_peers_have_a_bound() -> None:
    mesh = Mesh(Limits(peers_max=1))
    for name in ("alice", "bob", "carol"):
        mesh.register(name)
    shake(mesh, "alice", "bob")
    for name, other in (("alice", "carol"), ("carol", "alice")):
        with refused("limit_exceeded"):
            shake(mesh, name, other)


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_a_peer_can_be_removed_by_either_side_and_twice(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    assert part(mesh, "bob", "alice").changed
    assert not part(mesh, "alice", "bob").changed
    assert not part(mesh, "alice", "carol").changed
    assert mesh.of_type(PeersParted) == [PeersParted(mesh.agent("bob").id, mesh.agent("alice").id)]
    assert not mesh.state.peers
    shake(mesh, "alice", "bob")
    assert mesh.run(RemovePeer(name="alice", other="bob"), OPERATOR).changed


@pytest.mark.requirement("PEER-3", stage="lineage")
def test_a_peer_relation_is_nothing_but_a_relation(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    assert not mesh.state.children
    assert not mesh.state.claims
    assert not mesh.state.children_of
    before = len(mesh.stored)
    mesh.lose("bob")
    assert len(mesh.stored) == before, "a peer's end is told to nobody"
    assert [peer.status for peer in mesh.run(ListPeers(), mesh.caller("alice")).peers] == ["offline"]


def test_peers_outlive_sessions_and_go_with_a_name(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    mesh.lose("bob")
    mesh.register("newbob", kind="codex")
    shake(mesh, "newbob", "carol")
    mesh.run(UpdateAgent(agent="newbob", name="bob"), OPERATOR)
    assert {peer.name for peer in mesh.run(ListPeers(), mesh.caller("bob")).peers} == {"alice", "carol"}
    assert mesh.replayed() == mesh.state


def test_an_agent_lists_only_its_own_peers(mesh: Mesh) -> None:
    with refused("forbidden"):
        mesh.run(ListPeers(name="bob"), mesh.caller("alice"))
    assert mesh.run(ListPeers(name="bob"), OPERATOR).name == "bob"
    with refused("not_registered"):
        mesh.run(ListPeers(), OPERATOR)


# -- who sees whom ------------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-4", stage="lineage")
def test_a_listing_says_why_each_agent_is_seen(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    assert listed(mesh, "alice") == {"bob": "peer", "carol": "open"}
    assert mesh.run(GetAgent(name="alice"), mesh.caller("alice")).reason == "self"
    assert mesh.run(GetAgent(name="bob"), mesh.caller("alice")).reason == "peer"
    assert mesh.run(GetAgent(name="bob"), OPERATOR).reason == "open"
    assert REASONS == ("self", "child", "parent", "peer", "link", "open")


@pytest.mark.requirement("PEER-4", stage="lineage")
def test_a_peer_of_another_project_is_listed_without_asking_for_all(mesh: Mesh) -> None:
    mesh.register("far", group="/elsewhere")
    assert "far" not in listed(mesh, "alice", everyone=False)
    shake(mesh, "alice", "far")
    assert listed(mesh, "alice", everyone=False)["far"] == "peer"


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_under_the_policy_peers_only_what_is_tied_is_seen(mesh: Mesh) -> None:
    mesh.register("far", group="/elsewhere")
    shake(mesh, "alice", "bob")
    close(mesh)
    assert listed(mesh, "alice") == {"bob": "peer"}
    assert listed(mesh, "carol") == {}
    assert listed(mesh, "far") == {}, "the policy holds against other projects too"
    reply: AgentList = mesh.run(ListAgents(), mesh.caller("carol"))
    assert reply.hidden == 0, "what is not seen is not counted"
    with refused("not_visible"):
        mesh.run(GetAgent(name="alice"), mesh.caller("carol"))
    with refused("unknown_agent"):
        mesh.run(GetAgent(name="zoe"), mesh.caller("carol"))
    assert len(mesh.run(ListAgents(all=True), OPERATOR).agents) == 4


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_missing_hidden_and_oneself_are_three_answers_to_a_send(mesh: Mesh) -> None:
    close(mesh)
    hidden, missing, own = (mesh.send("alice", name) for name in ("bob", "nobody", "alice"))
    assert [hidden.status, missing.status, own.status] == ["denied", "denied", "refused"]
    assert "not visible" in hidden.note
    assert "There is no agent" in missing.note
    assert not missing.suggestions
    assert not mesh.stored
    several = mesh.send("alice", ["bob", "nobody", "alice"])
    assert [each.status for each in several.recipients] == ["denied", "denied", "refused"]
    assert len({each.note for each in several.recipients}) == 3


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_broadcasts_and_topics_obey_the_policy(mesh: Mesh) -> None:
    for name in ("bob", "carol"):
        mesh.run(Subscribe(topic="#t"), mesh.caller(name))
    shake(mesh, "alice", "bob")
    close(mesh)
    for to in ("broadcast", "#t"):
        assert [each.name for each in mesh.send("alice", to).recipients] == ["bob"]
    assert not mesh.pending("carol")


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_the_operator_sees_and_is_seen_by_all(mesh: Mesh) -> None:
    mesh.run(RegisterAgent(name="operator", session="s-op", kind="operator"), OPERATOR)
    mesh.register("sham", kind="operator")
    close(mesh)
    assert listed(mesh, "alice") == {}, "it can be written to, and is in no listing"
    assert mesh.send("operator", "bob").status == "received"
    assert mesh.send("bob", "operator").status == "received"


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_the_policy_is_the_operators_and_lasts(mesh: Mesh) -> None:
    for caller in (mesh.caller("alice"), SCRIPT):
        with refused("forbidden"):
            mesh.run(MeshPolicy(group=HERE, policy="peers"), caller)
    assert mesh.run(MeshPolicy(), mesh.caller("alice")) == PolicyState(group=HERE, policy="open")
    close(mesh)
    assert mesh.run(MeshPolicy(), mesh.caller("alice")) == PolicyState(group=HERE, policy="peers")
    assert not mesh.run(MeshPolicy(group=HERE, policy="peers"), OPERATOR).changed
    mesh.run(StartBroker("2"))
    assert mesh.replayed() == mesh.state
    assert mesh.state.policies == {HERE: "peers"}
    assert mesh.run(MeshPolicy(group=HERE, policy="open"), OPERATOR).changed
    assert not mesh.state.policies
    with refused("bad_request"):
        mesh.run(MeshPolicy(policy="peers"), OPERATOR, group="")
    with refused("limit_exceeded"):
        mesh.run(MeshPolicy(group="/" + "x" * 5000, policy="peers"), OPERATOR)


# -- writing to a peer --------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-5", stage="lineage")
def test_send_to_peer_reaches_a_peer_and_labels_the_source(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    sent = send_to_peer(mesh, "alice", "bob", key=mesh.key("one"))
    assert sent.status == "received"
    (event,) = mesh.of_type(MessageQueued)
    assert (event.sender_name, event.kind, event.recipients) == ("alice", "request", [mesh.agent("bob").id])
    assert send_to_peer(mesh, "alice", "bob", key=mesh.key("one")).id == sent.id, "a repeat is harmless"
    answer = send_to_peer(mesh, "bob", "alice", re=sent.id)
    assert answer.status == "received"
    assert mesh.states(sent.id) == {"bob": "answered"}


@pytest.mark.requirement("PEER-5", stage="lineage")
def test_send_to_peer_keeps_the_mail_of_one_that_is_away(mesh: Mesh) -> None:
    shake(mesh, "alice", "bob")
    mesh.lose("bob")
    assert send_to_peer(mesh, "alice", "bob").status == "queued"


@pytest.mark.requirement("PEER-5", stage="lineage")
def test_send_to_peer_reaches_nobody_else(mesh: Mesh) -> None:
    notes: dict[str, tuple[str, str]] = {}
    for name in ("bob", "nobody", "alice"):
        sent = send_to_peer(mesh, "alice", name)
        notes[name] = (sent.status, sent.note)
    assert notes["bob"] == ("denied", "'bob' is not your peer.")
    assert notes["nobody"][0] == "denied"
    assert notes["alice"][0] == "refused"
    close(mesh)
    assert send_to_peer(mesh, "alice", "bob").note == "'bob' is not visible to you."
    assert not mesh.stored
