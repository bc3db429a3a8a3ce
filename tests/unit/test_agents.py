"""Joining, coming back, names, profiles and leaving."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentForgotten, AgentRegistered, SessionStarted
from tellwire.protocol.operations.agents import (
    AgentList,
    AgentRecord,
    GetAgent,
    ListAgents,
    RegisterAgent,
    Registered,
    UnregisterAgent,
    UpdateAgent,
)
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused


def test_a_new_agent_is_online_under_the_name_it_asked_for() -> None:
    mesh = Mesh()
    reply = mesh.register("alice")
    assert (reply.name, reply.note, reply.resumed, reply.attached) == ("alice", "", False, False)
    assert mesh.agent("alice").id == reply.id
    assert mesh.agent("alice").online


@pytest.mark.requirement("F2-2")
def test_an_agents_record_tells_all_that_was_promised() -> None:
    mesh = Mesh()
    reply = mesh.register("alice", kind="codex", capabilities=["rust"], metadata={"model": "m", "cwd": "/p"})
    mesh.register("bob")
    mesh.send("bob", "alice")
    record: AgentRecord = mesh.run(GetAgent(name="ALICE"), mesh.caller("bob"))
    assert record == AgentRecord(
        id=reply.id,
        name="alice",
        kind="codex",
        status="online",
        capabilities=["rust"],
        reason="open",
        group="/project",
        connected_at=mesh.now,
        last_heartbeat=mesh.now - 1.0,
        pending=1,
        metadata={"model": "m", "cwd": "/p"},
    )
    assert mesh.run(GetAgent(name="alice"), mesh.caller("alice")).reason == "self"


def test_the_same_session_comes_back_to_its_name_and_mailbox() -> None:
    mesh = Mesh()
    first = mesh.register("alice", session="word")
    mesh.register("bob")
    mesh.lose("alice")
    mesh.send("bob", "alice")
    again = mesh.register("alice", session="word")
    assert (again.id, again.name, again.resumed, again.waiting) == (first.id, "alice", True, 1)
    assert mesh.agent("alice").online


def test_the_same_session_may_come_back_before_its_old_connection_is_found_dead() -> None:
    mesh = Mesh()
    first = mesh.register("alice", session="word")
    again = mesh.register("alice", session="word")
    assert (again.id, again.name, again.note) == (first.id, "alice", "")
    assert len(mesh.of_type(AgentRegistered)) == 1


def test_the_same_session_finds_its_name_after_a_rename_and_is_told_nothing_false() -> None:
    mesh = Mesh()
    mesh.register("alice", session="word")
    mesh.run(UpdateAgent(name="alicia"), mesh.caller("alice"))
    again = mesh.register("alice", session="word")
    assert (again.name, again.resumed) == ("alicia", True)
    assert "in use" not in again.note


def test_a_live_name_gets_the_next_free_suffix_and_the_caller_is_told() -> None:
    mesh = Mesh()
    mesh.register("alice", session="1")
    second, third = mesh.register("alice", session="2"), mesh.register("Alice", session="3")
    assert (second.name, third.name) == ("alice-2", "Alice-3")
    assert "'alice'" in second.note
    assert "'alice-2'" in second.note
    assert not second.resumed


def test_a_suffix_keeps_the_longest_name_within_its_bound() -> None:
    mesh = Mesh()
    mesh.register("n" * 64, session="1")
    assert mesh.register("n" * 64, session="2").name == "n" * 62 + "-2"


def test_an_offline_name_is_taken_up_by_the_same_kind_with_its_mail() -> None:
    mesh = Mesh()
    first = mesh.register("alice", session="1")
    mesh.register("bob")
    mesh.leave("alice")
    mesh.send("bob", "alice")
    again = mesh.register("ALICE", session="2")
    assert (again.id, again.name, again.resumed, again.waiting) == (first.id, "alice", True, 1)
    assert "in use" not in again.note


def test_an_offline_name_is_not_taken_up_by_another_kind() -> None:
    mesh = Mesh()
    mesh.register("alice", session="1", kind="codex")
    mesh.leave("alice")
    reply = mesh.register("alice", session="2", kind="script")
    assert (reply.name, reply.resumed) == ("alice-2", False)


def test_a_session_word_of_another_kind_is_another_session() -> None:
    mesh = Mesh()
    mesh.register("alice", session="word", kind="codex")
    assert mesh.register("alice", session="word", kind="script").name == "alice-2"


def test_a_connection_bears_one_name_only() -> None:
    mesh = Mesh()
    mesh.register("alice")
    with refused("conflict"):
        mesh.run(RegisterAgent(name="bob", session="x"), mesh.caller("alice"))


@pytest.mark.parametrize("name", ["", "a b", "broadcast", "Tellwire", "x" * 65])
def test_a_bad_name_is_refused_and_nothing_happens(name: str) -> None:
    mesh = Mesh()
    with refused("name_invalid"):
        mesh.register(name, session="s")
    assert not mesh.state.agents


# -- beneath an agent ---------------------------------------------------------------------------------


def beneath(mesh: Mesh, name: str, above: str) -> Registered:
    agent = mesh.agent(above).id
    caller = Caller(kind="agent", agent=agent, ancestor=agent, process="99.1")
    return mesh.run(RegisterAgent(name=name, session="child"), caller)


def test_beneath_an_agent_one_speaks_as_that_agent_and_changes_nothing() -> None:
    mesh = Mesh()
    first = mesh.register("alice")
    count = len(mesh.events)
    reply = beneath(mesh, "Alice", "alice")
    assert (reply.id, reply.name, reply.attached) == (first.id, "alice", True)
    assert len(mesh.events) == count


def test_beneath_an_agent_no_other_name_can_be_had() -> None:
    mesh = Mesh()
    mesh.register("alice")
    with refused("forbidden") as caught:
        beneath(mesh, "bob", "alice")
    assert "alice" in caught.value.advice
    assert mesh.state.find("bob") is None


def test_an_agents_own_process_may_come_back_although_it_is_its_own_ancestor() -> None:
    mesh = Mesh()
    first = mesh.register("alice", session="word")
    caller = Caller(kind="agent", agent=first.id, ancestor=first.id, process="7.1")
    reply = mesh.run(RegisterAgent(name="alice", session="word", owns_process=True), caller)
    assert (reply.id, reply.attached, reply.resumed) == (first.id, False, True)
    assert mesh.of_type(SessionStarted)[-1].process == "7.1"
    assert mesh.agent("alice").owner == "7.1"


def test_only_a_process_that_is_the_agent_is_remembered_as_its_owner() -> None:
    mesh = Mesh()
    caller = Caller(kind="script", process="7.1")
    mesh.run(RegisterAgent(name="alice", session="1", owns_process=True), caller)
    mesh.run(RegisterAgent(name="bob", session="2"), caller)
    assert (mesh.agent("alice").owner, mesh.agent("bob").owner) == ("7.1", "")
    mesh.lose("alice")
    assert mesh.agent("alice").owner == ""


def test_a_client_that_is_not_the_agent_itself_names_the_process_that_is() -> None:
    mesh = Mesh()
    caller = Caller(kind="script", process="7.1", owner="6.1")
    mesh.run(RegisterAgent(name="alice", session="1", owns_process=True), caller)
    mesh.run(RegisterAgent(name="bob", session="2"), caller)
    assert (mesh.agent("alice").process, mesh.agent("alice").owner) == ("7.1", "6.1")
    assert mesh.agent("bob").owner == ""


# -- bounds -------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"capabilities": ["c"] * 5}, "limit_exceeded"),
        ({"capabilities": ["c" * 9]}, "limit_exceeded"),
        ({"kind": "k" * 9}, "limit_exceeded"),
        ({"session": "s" * 9}, "limit_exceeded"),
        ({"metadata": {"m": "x" * 100}}, "limit_exceeded"),
        ({"metadata": {"m": [{"n": 1 << 64}]}}, "limit_exceeded"),
        ({"metadata": {"m": -(1 << 63) - 1}}, "limit_exceeded"),
        ({"cwd": "/" * 4097}, "limit_exceeded"),
        ({"kind": ""}, "bad_request"),
        ({"session": ""}, "bad_request"),
    ],
)
def test_a_profile_beyond_its_bounds_is_refused(fields: dict[str, object], code: str) -> None:
    mesh = Mesh(Limits(capabilities_max=4, text_length_max=8, metadata_bytes_max=64))
    whole: dict[str, object] = {"name": "alice", "session": "s", **fields}
    with pytest.raises(TellwireError) as caught:
        mesh.run(RegisterAgent(**whole))  # pyright: ignore[reportArgumentType]  # wrong values are the point
    assert caught.value.code == code
    assert not mesh.state.agents


@pytest.mark.requirement("SEC-3")
def test_a_profile_at_its_very_bounds_is_none_too_much() -> None:
    mesh = Mesh(Limits(capabilities_max=2, text_length_max=8, metadata_bytes_max=9))
    fields: dict[str, Any] = {"capabilities": ["c" * 8] * 2, "metadata": {"m": "x"}, "cwd": "/" * 4096}
    mesh.register("alice", session="s" * 8, kind="k" * 8, **fields)
    assert mesh.agent("alice").metadata == {"m": "x"}


@pytest.mark.requirement("SEC-3")
def test_whatever_numbers_metadata_have_the_state_can_be_saved() -> None:
    mesh = Mesh()
    metadata = {"most": (1 << 64) - 1, "least": -(1 << 63), "half": 0.5, "yes": True}
    mesh.register("alice", metadata=metadata)
    assert parse_snapshot(format_snapshot(mesh.state)).agents[mesh.agent("alice").id].metadata == metadata


@pytest.mark.requirement("SEC-3")
def test_the_number_of_capabilities_has_the_same_bound_in_an_update() -> None:
    mesh = Mesh(Limits(capabilities_max=4))
    mesh.register("alice", capabilities=list("abcd"))
    with refused("limit_exceeded"):
        mesh.run(UpdateAgent(capabilities=list("abcde")), mesh.caller("alice"))


@pytest.mark.requirement("SEC-3")
def test_there_is_a_last_agent_but_known_ones_may_always_come_back() -> None:
    mesh = Mesh(Limits(agents_max=2))
    mesh.register("alice")
    mesh.register("bob")
    with refused("limit_exceeded"):
        mesh.register("carol")
    mesh.leave("bob")
    assert mesh.register("bob", session="other").resumed


# -- changing -----------------------------------------------------------------------------------------


def test_an_update_changes_what_is_named_and_keeps_the_rest() -> None:
    mesh = Mesh()
    mesh.register("alice", capabilities=["rust"], metadata={"a": 1})
    reply: AgentRecord = mesh.run(UpdateAgent(metadata={}), mesh.caller("alice"))
    assert (reply.capabilities, reply.metadata, reply.reason) == (["rust"], {}, "self")
    mesh.run(UpdateAgent(capabilities=[]), mesh.caller("alice"))
    assert (mesh.agent("alice").capabilities, mesh.agent("alice").metadata) == ([], {})
    assert mesh.replayed() == mesh.state


def test_a_renamed_agent_keeps_its_mail_and_is_reached_by_its_old_name_until_another_bears_it() -> None:
    mesh = Mesh()
    first = mesh.register("alice")
    mesh.register("bob")
    mesh.send("bob", "alice", "before")
    mesh.run(UpdateAgent(name="Carol"), mesh.caller("alice"))
    assert mesh.send("bob", "ALICE", "after").status == "received"
    assert (mesh.agent("carol").id, mesh.bodies("carol")) == (first.id, ["before", "after"])
    assert mesh.run(GetAgent(name="alice"), mesh.caller("bob")).name == "Carol"
    mesh.lose("carol")
    assert mesh.register("alice", session="new").name == "alice"
    mesh.send("bob", "alice", "to the new one")
    assert (mesh.bodies("alice"), len(mesh.bodies("carol"))) == (["to the new one"], 2)
    assert mesh.replayed() == mesh.state


def test_a_rename_may_change_the_case_of_ones_own_name_only() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    mesh.run(UpdateAgent(name="ALICE"), mesh.caller("alice"))
    assert mesh.agent("alice").name == "ALICE"
    with refused("conflict"):
        mesh.run(UpdateAgent(name="BOB"), mesh.caller("alice"))
    with refused("name_invalid"):
        mesh.run(UpdateAgent(name="operator"), mesh.caller("alice"))


# -- leaving ------------------------------------------------------------------------------------------


def test_who_leaves_is_offline_and_keeps_its_mailbox() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    mesh.send("bob", "alice")
    mesh.leave("alice")
    agent = mesh.agent("alice")
    assert (agent.online, agent.offline_reason, len(agent.pending)) == (False, "left", 1)


def test_who_is_forgotten_is_gone_with_name_topics_and_mail_and_the_senders_are_told() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    sent = [mesh.send("bob", "alice").id for _ in range(2)]
    mesh.run(UnregisterAgent(forget=True), mesh.caller("alice"))
    assert mesh.state.find("alice") is None
    assert mesh.bodies("bob") == [f"Not delivered to alice: {sent[0]}, {sent[1]} (the agent was removed)."]
    assert set(mesh.states(sent[0]).values()) == {"expired"}
    assert mesh.replayed() == mesh.state


@pytest.mark.parametrize("online", [True, False])
def test_only_the_operator_removes_others(online: bool) -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    if not online:
        mesh.leave("alice")
    for caller in (mesh.caller("bob"), SCRIPT):
        with refused("forbidden"):
            mesh.run(UnregisterAgent(name="alice", forget=True), caller)
    mesh.run(UnregisterAgent(name="alice", forget=True), OPERATOR)
    assert mesh.state.find("alice") is None
    assert [event.agent for event in mesh.of_type(AgentForgotten)]


def test_an_unknown_agent_is_refused_with_the_nearest_name() -> None:
    mesh = Mesh()
    mesh.register("alice")
    with refused("unknown_agent") as caught:
        mesh.run(UnregisterAgent(name="alcie"), OPERATOR)
    assert "alice" in caught.value.advice
    with refused("unknown_agent"):
        mesh.run(GetAgent(name="x" * 5000), OPERATOR)


def test_who_is_nobody_cannot_leave_or_update() -> None:
    mesh = Mesh()
    for operation in (UnregisterAgent(), UpdateAgent(name="x")):
        with refused("not_registered"):
            mesh.run(operation)


# -- listing ------------------------------------------------------------------------------------------


def names(reply: AgentList) -> list[str]:
    return [record.name for record in reply.agents]


@pytest.mark.requirement("NET-1")
def test_a_listing_shows_the_online_agents_of_the_group_without_the_asker() -> None:
    mesh = Mesh()
    for name in ("carol", "alice", "Bob", "dave"):
        mesh.register(name)
    mesh.register("eve", group="/elsewhere")
    mesh.leave("dave")
    reply: AgentList = mesh.run(ListAgents(), mesh.caller("alice"))
    assert (names(reply), reply.hidden) == (["Bob", "carol"], 2)
    everyone: AgentList = mesh.run(ListAgents(all=True), mesh.caller("alice"))
    assert (names(everyone), everyone.hidden) == (["Bob", "carol", "dave", "eve"], 0)
    assert {record.reason for record in everyone.agents} == {"open"}


def test_a_listing_can_be_narrowed_to_a_capability() -> None:
    mesh = Mesh()
    mesh.register("alice", capabilities=["rust"])
    mesh.register("bob", capabilities=["rusty"])
    assert names(mesh.run(ListAgents(capability="rust"), OPERATOR)) == ["alice"]


# -- looking without joining --------------------------------------------------------------------------


def _away(mesh: Mesh, name: str) -> None:
    mesh.register(name)
    mesh.run(UnregisterAgent(), mesh.caller(name))


def _look(mesh: Mesh, name: str, caller: Caller = SCRIPT) -> Registered:
    return mesh.run(RegisterAgent(name=name, session="look", exact=True, looks=True), caller)


def test_a_look_is_no_event_and_takes_no_mail() -> None:
    mesh = Mesh()
    mesh.register("alice")
    _away(mesh, "bob")
    mesh.send("alice", "bob")
    before = len(mesh.events)
    seen = _look(mesh, "bob")
    assert (seen.name, seen.attached, seen.looking, seen.waiting) == ("bob", True, True, 1)
    assert (len(mesh.events), mesh.agent("bob").online) == (before, False)


def test_a_look_makes_nobody_and_gets_no_name_that_is_in_use() -> None:
    mesh = Mesh()
    with refused("unknown_agent"):
        _look(mesh, "nobody")
    mesh.register("bob")
    with refused("forbidden"):
        _look(mesh, "bob")


def test_an_agent_that_is_looked_at_is_not_forgotten_for_it() -> None:
    mesh = Mesh()
    _away(mesh, "bob")
    mesh.now += 86_401.0
    joined = _look(mesh, "bob")
    assert (joined.looking, joined.attached, mesh.agent("bob").online) == (False, False, True)
