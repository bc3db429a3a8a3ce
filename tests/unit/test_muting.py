"""Muting: who may ask for it, how long it lasts, and what senders hear of it."""

from typing import Any

import pytest

from tellwire.protocol.operations.agents import AgentRecord, GetAgent, MuteAgent
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused

WAITS = "muted: waits for its next turn"


def mesh_of(*names: str) -> Mesh:
    mesh = Mesh()
    for name in names:
        mesh.register(name)
    return mesh


def muted(mesh: Mesh, name: str) -> tuple[bool, float]:
    """What the listing says."""
    record: AgentRecord = mesh.run(GetAgent(name=name), OPERATOR)
    return record.muted, record.muted_until


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_an_agent_mutes_itself_and_takes_it_back() -> None:
    mesh = mesh_of("alice")
    reply: AgentRecord = mesh.run(MuteAgent(), mesh.caller("alice"))
    assert (reply.muted, reply.muted_until, reply.reason) == (True, 0.0, "self")
    assert muted(mesh, "alice") == (True, 0.0)
    assert mesh.run(MuteAgent(off=True), mesh.caller("alice")).muted is False
    assert muted(mesh, "alice") == (False, 0.0)


def test_the_operator_mutes_anybody_and_nobody_else_does() -> None:
    mesh = mesh_of("alice", "bob")
    assert mesh.run(MuteAgent(name="bob"), OPERATOR).muted
    assert mesh.run(MuteAgent(name="alice"), mesh.caller("alice")).muted
    with refused("forbidden"):
        mesh.run(MuteAgent(name="bob", off=True), mesh.caller("alice"))
    with refused("forbidden"):
        mesh.run(MuteAgent(name="bob", off=True), SCRIPT)
    with refused("not_registered"):
        mesh.run(MuteAgent(), OPERATOR)
    with refused("unknown_agent"):
        mesh.run(MuteAgent(name="nobody"), OPERATOR)
    assert muted(mesh, "bob") == (True, 0.0)


def test_a_muting_ends_by_itself() -> None:
    mesh = mesh_of("alice", "bob")
    mesh.run(MuteAgent(for_s=60.0), mesh.caller("bob"))
    assert muted(mesh, "bob") == (True, mesh.now + 60.0)
    assert mesh.send("alice", "bob", "x").note == WAITS
    mesh.pass_time(60.0)
    assert muted(mesh, "bob") == (False, 0.0)
    assert mesh.send("alice", "bob", "x").note == ""
    mesh.run(MuteAgent(), mesh.caller("bob"))
    assert muted(mesh, "bob") == (True, 0.0), "again, and now without an end"


def test_senders_are_told_and_the_mail_waits() -> None:
    mesh = mesh_of("alice", "bob", "carol")
    mesh.run(MuteAgent(name="bob"), OPERATOR)
    sent = mesh.send("alice", "bob", "x")
    assert (sent.status, sent.note) == ("received", WAITS)
    several = mesh.send("alice", ["bob", "carol"], "x")
    assert [(each.name, each.status, each.note) for each in several.recipients] == [
        ("bob", "received", WAITS),
        ("carol", "received", ""),
    ]
    assert (
        mesh.send("alice", "bob", "y", re="m0").note
        == f"`re` 'm0' is unknown; the message was sent anyway. {WAITS}"
    )
    assert len(mesh.agent("bob").pending) == 3


def test_what_changes_nothing_makes_no_event() -> None:
    mesh = mesh_of("alice")
    for operation, count in ((MuteAgent(off=True), 0), (MuteAgent(), 1), (MuteAgent(), 1)):
        mesh.run(operation, mesh.caller("alice"))
        assert len([event for _, event in mesh.events if type(event).__name__ == "AgentMuted"]) == count


@pytest.mark.parametrize(
    "fields",
    [{"for_s": 0.0}, {"for_s": -1.0}, {"for_s": 1e9}, {"for_s": float("nan")}, {"for_s": 5.0, "off": True}],
)
def test_a_time_without_sense_is_refused(fields: dict[str, Any]) -> None:
    mesh = mesh_of("alice")
    with refused("bad_request"):
        mesh.run(MuteAgent(**fields), mesh.caller("alice"))
    assert muted(mesh, "alice") == (False, 0.0)


def test_it_survives_a_restart() -> None:
    mesh = mesh_of("alice")
    mesh.run(MuteAgent(for_s=60.0), mesh.caller("alice"))
    (agent,) = mesh.replayed().agents.values()
    assert agent.is_muted(mesh.now + 59.0)
    assert not agent.is_muted(mesh.now + 60.0)
