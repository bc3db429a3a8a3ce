"""Children from reservation to end. Tests named `row_…` are rows of the table of lifecycle events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tellwire.core.children.scopes import judge_write
from tellwire.core.context import (
    Caller,
    ForgetAbsent,
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    OfferWaiting,
    StartBroker,
)
from tellwire.core.kernel import APPLIERS, apply_batch
from tellwire.core.limits import Limits
from tellwire.core.state import State, format_snapshot, parse_snapshot
from tellwire.protocol.events import AgentForgotten, Audience, MessageQueued, parse_batch
from tellwire.protocol.events.children import (
    ChildConfirmed,
    ChildEnded,
    ChildFailed,
    ChildReported,
    ChildReserved,
    ChildStarted,
    ScopeSubDelegated,
)
from tellwire.protocol.events.links import TurnEnded
from tellwire.protocol.operations.agents import ListAgents, RegisterAgent, UnregisterAgent, UpdateAgent
from tellwire.protocol.operations.children import Children, ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.listeners import Listen
from tellwire.protocol.operations.peers import MeshPolicy, RegisterPeer
from tellwire.protocol.operations.scopes import ScopeRule
from tests.unit.family import Family, rule, write
from tests.unit.mesh import OPERATOR, refused


@pytest.fixture
def mesh() -> Family:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    return mesh


def read_all(mesh: Family, name: str) -> list[str]:
    """Hand over and confirm what waits for an agent; its bodies."""
    bodies = mesh.bodies(name)
    mesh.run(OfferWaiting(mesh.agent(name).id))
    mesh.confirm(name, *mesh.leased(name))
    return bodies


def is_clean(state: State) -> bool:
    return not (state.children or state.claims or state.children_of)


# -- the handshake ------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-1", "CHILD-3", stage="lineage")
def test_the_order_is_reserve_start_confirm_and_then_the_task(mesh: Family) -> None:
    record = mesh.spawn("alice", "kid", "/p/src", cwd="/p")
    assert (record.name, record.parent, record.status, record.scoped) == ("kid", "alice", "reserved", True)
    assert not mesh.agent("kid").online
    assert mesh.agent("kid").offline_reason == "starting"
    mesh.start("kid")
    assert mesh.child("kid").status == "started"
    assert mesh.agent("kid").owner == "kid.1"
    reply = mesh.connect("kid")
    assert (reply.id, reply.name) == (record.id, "kid"), "whatever it calls itself, it is that child"
    assert not mesh.stored, "no task before it is confirmed"
    mesh.up("kid")
    assert mesh.bodies("kid") == ["task of kid"]
    (task,) = mesh.of_type(MessageQueued)
    assert (task.sender_name, task.kind) == ("alice", "request")
    assert mesh.child("kid").task == "", "it is a message now"
    steps = [ChildReserved, ChildStarted, ChildConfirmed, MessageQueued]
    assert [type(event) for _, event in mesh.events if type(event) in steps] == steps
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("CHILD-3", stage="lineage")
@pytest.mark.parametrize("begun", ["reserved", "started", "connected"])
def test_a_failure_before_confirmation_leaves_nothing_behind(mesh: Family, begun: str) -> None:
    mesh.spawn("alice", "kid", "/p/src")
    kid = mesh.agent("kid").id
    if begun != "reserved":
        mesh.start("kid")
    if begun == "connected":
        mesh.connect("kid")
    mesh.send("bob", "kid", "welcome")
    mesh.run(NoteChildFailed(kid, "It said no.", "x" * 9_000 + "error: no key"))
    (failed,) = mesh.of_type(ChildFailed)
    assert failed.output.endswith("error: no key")
    assert len(failed.output) == 4_000
    assert is_clean(mesh.state)
    assert mesh.state.find("kid") is None
    assert len(mesh.bodies("bob")) == 1, "who wrote to it is told"
    assert not [body for body in mesh.bodies("alice") if body], "its parent gets the refusal, not a notice"
    mesh.bear("bob", "kid", "/p/src")
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("CHILD-3", stage="lineage")
def test_a_child_that_is_not_up_in_time_has_failed(mesh: Family) -> None:
    mesh.spawn("alice", "one")
    mesh.spawn("alice", "two")
    mesh.start("two")
    mesh.sweep()
    assert len(mesh.state.children) == 2
    mesh.pass_time(mesh.limits.child_up_s + 1)
    mesh.sweep()
    assert [event.reason for event in mesh.of_type(ChildFailed)] == [
        "It was not started in time.",
        "It was not ready in time.",
    ]


@pytest.mark.requirement("CHILD-3", stage="lineage")
def test_a_child_that_dies_before_it_is_up_has_failed(mesh: Family) -> None:
    for name in ("one", "two"):
        mesh.spawn("alice", name, f"/p/{name}")
        mesh.start(name)
    mesh.kill("one")
    mesh.sweep()
    mesh.run(NoteChildEnd(mesh.agent("two").id, "exited", "usage: two"))
    assert [(event.reason, event.output) for event in mesh.of_type(ChildFailed)] == [
        ("It ended before it was ready.", ""),
        ("It ended before it was ready.", "usage: two"),
    ]
    assert is_clean(mesh.state)


def bad_spawns() -> list[tuple[str, dict[str, object]]]:
    return [
        ("conflict", {"name": "bob"}),
        ("conflict", {"name": "ALICE"}),
        ("name_invalid", {"name": "no name"}),
        ("bad_request", {"task": " \n"}),
        ("body_too_large", {"task": "x" * 70_000}),
        ("bad_request", {"client": ""}),
        ("bad_request", {"client": "x" * 200}),
        ("path_invalid", {"cwd": "here"}),
        ("path_invalid", {"scope": write("src")}),
        ("limit_exceeded", {"scope": write(*(f"/{n}" for n in range(65)))}),
        ("limit_exceeded", {"command": ["x"] * 2_000}),
        ("limit_exceeded", {"key": "x" * 200}),
    ]


@pytest.mark.requirement("CHILD-3", stage="lineage")
@pytest.mark.parametrize(("code", "fields"), bad_spawns())
def test_what_is_refused_reserves_nothing(mesh: Family, code: str, fields: dict[str, object]) -> None:
    words: dict[str, object] = {"name": "kid", "client": "codex", "task": "t", **fields}
    with refused(code):
        mesh.run(SpawnAgent(**words), mesh.caller("alice"))  # pyright: ignore[reportArgumentType]
    assert is_clean(mesh.state)
    assert len(mesh.state.agents) == 2


@pytest.mark.requirement("CHILD-1", stage="lineage")
def test_children_have_bounds_in_number_and_depth() -> None:
    mesh = Family(Limits(children_max=2, children_all_max=4, child_depth_max=2))
    mesh.register("alice")
    mesh.register("bob")
    mesh.bear("alice", "a")
    mesh.bear("a", "aa")
    with refused("too_deep"):
        mesh.spawn("aa", "aaa")
    mesh.bear("alice", "b")
    with refused("too_many_children"):
        mesh.spawn("alice", "c")
    mesh.bear("bob", "d")
    with refused("too_many_children") as caught:
        mesh.spawn("bob", "e")
    assert "machine" in caught.value.message
    mesh.end("b")
    mesh.bear("alice", "c")


@pytest.mark.requirement("CHILD-1", stage="lineage")
def test_a_repeated_request_starts_no_second_child(mesh: Family) -> None:
    first = mesh.spawn("alice", "kid", key="k1")
    again = mesh.spawn("alice", "kid", key="k1")
    assert (again.id, again.status) == (first.id, "reserved")
    mesh.start("kid")
    assert mesh.spawn("alice", "kid", key="k1").status == "started"
    mesh.connect("kid")
    mesh.up("kid")
    mesh.end("kid")
    with refused("child_failed") as caught:
        mesh.spawn("alice", "kid", key="k1")
    assert "request id" not in caught.value.message, "who gives none knows of none"
    assert len(mesh.of_type(ChildReserved)) == 1


@pytest.mark.requirement("CHILD-3", stage="lineage")
def test_a_name_goes_to_another_child_once_its_bearer_is_no_more(mesh: Family) -> None:
    first = mesh.bear("alice", "kid", "/p")
    with refused("conflict"):
        mesh.spawn("alice", "kid")
    mesh.end("kid")
    mesh.send("bob", "kid", "for later")
    with refused("conflict"):
        mesh.spawn("alice", "kid", client="other")
    again = mesh.spawn("alice", "kid", "/q")
    assert again.id == first.id
    mesh.run(NoteChildFailed(again.id, "no"))
    assert is_clean(mesh.state)
    assert mesh.agent("kid").offline_reason == "left", "it was known before, and is now"
    assert "for later" in mesh.bodies("kid")
    with refused("conflict"):
        mesh.spawn("bob", "kid", "/q")  # another's child, and mail for it
    mesh.bear("alice", "kid", "/q")
    assert mesh.bodies("kid")[-2:] == ["for later", "task of kid"]
    assert mesh.replayed() == mesh.state


# -- who the child is ---------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-1", stage="lineage")
def test_commands_beneath_a_child_speak_as_it_and_are_not_its_client(mesh: Family) -> None:
    mesh.spawn("alice", "kid")
    mesh.start("kid")
    command = RegisterAgent(name="", session="s1", kind="operator")
    assert mesh.run(command, mesh.beneath("kid")).attached
    assert not mesh.agent("kid").online
    mesh.connect("kid")
    assert mesh.run(command, mesh.beneath("kid")).attached


@pytest.mark.requirement("CHILD-1", stage="lineage")
def test_a_child_that_is_any_command_comes_up_by_its_first_word(mesh: Family) -> None:
    mesh.spawn("alice", "tool", client="script", command=["run"])
    mesh.start("tool")
    assert mesh.connect("tool", kind="operator").name == "tool"
    assert mesh.agent("tool").online


@pytest.mark.requirement("CHILD-1", stage="lineage")
@pytest.mark.parametrize("step", ["reserved", "started", "away"])
def test_nobody_else_gets_a_childs_name(mesh: Family, step: str) -> None:
    mesh.spawn("alice", "kid")
    if step != "reserved":
        mesh.start("kid")
    if step == "away":
        mesh.connect("kid")
        mesh.up("kid")
        mesh.lose("kid")
    assert mesh.register("kid", session="stranger", kind="codex").name == "kid-2"
    with refused("conflict"):
        mesh.run(UpdateAgent(name="kid"), mesh.caller("kid-2"))


@pytest.mark.requirement("CHILD-6", stage="lineage")
def test_a_child_whose_client_begins_again_is_the_same_child(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    mesh.lose("kid")
    mesh.sweep()
    assert mesh.child("kid").status == "running", "its process runs"
    assert mesh.connect("kid", session="another").name == "kid"
    assert mesh.agent("kid").owner == "kid.1"
    assert mesh.writers("/p/src/a") == ["kid"]


@pytest.mark.requirement("CHILD-6", stage="lineage")
def test_children_survive_restarts_of_parent_and_broker(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    assert mesh.child("kid").status == "running"
    mesh.lose("alice")
    mesh.sweep()
    mesh.turn("kid", "t1", "done")
    mesh.end("kid")
    mesh.register("alice", kind="codex")
    assert mesh.bodies("alice")[0] == "done"
    assert "has ended" in mesh.bodies("alice")[1]
    assert len(mesh.bodies("alice")) == 2


@pytest.mark.requirement("CHILD-6", stage="lineage")
def test_what_happened_while_the_broker_was_away_is_found(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "baby", "/p/src/a")
    mesh.spawn("alice", "late", "/p/doc")
    mesh.spawn("alice", "stillborn")
    mesh.start("stillborn")
    mesh.alive.clear()
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    assert is_clean(mesh.state)
    assert [event.reason for event in mesh.of_type(ChildFailed)] == [
        "The broker stopped while it was starting.",
        "It ended before it was ready.",
    ]
    mesh.register("alice", kind="codex")
    assert [body.partition(".")[0] for body in mesh.bodies("alice")] == [
        "Your child kid has ended",
        "Your child baby has ended",
    ]


@pytest.mark.requirement("CHILD-6", stage="lineage")
def test_a_child_that_came_up_while_its_launcher_was_away_gets_its_task(mesh: Family) -> None:
    mesh.spawn("alice", "kid")
    mesh.start("kid")
    mesh.connect("kid")
    mesh.sweep(begun=True)
    assert mesh.bodies("kid") == [], "a client begins its first turn before"
    mesh.pass_time(mesh.limits.child_up_s + 1)
    mesh.sweep()
    assert mesh.bodies("kid") == ["task of kid"]
    mesh.sweep()
    assert mesh.bodies("kid") == ["task of kid"], "once"


# -- the end ------------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-4", "AUD-4", stage="lineage")
@pytest.mark.parametrize(
    ("how", "words"), [("asked", "was ended"), ("exited", "has ended"), ("killed", "was killed")]
)
def test_at_the_end_scope_and_children_return_and_the_parent_hears_once(
    mesh: Family, how: str, words: str
) -> None:
    mesh.claim("alice", "/p")
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "baby", "/p/src/a")
    read_all(mesh, "kid")
    mesh.turn("kid", "t1", "All is done.")
    (report,) = mesh.pending("alice")
    mesh.end("kid", how)  # pyright: ignore[reportArgumentType]
    mesh.end("kid", how)  # pyright: ignore[reportArgumentType]
    assert mesh.bodies("alice") == [
        "All is done.",
        f"Your child kid {words}. Its scope is yours again. Its children are yours now: baby."
        f" What it said last is {report}, which you got.",
    ]
    assert mesh.writers("/p/src/x") == ["alice"]
    assert mesh.child("baby").parent == mesh.agent("alice").id
    assert mesh.agent("kid").offline_reason == "disconnected"
    assert mesh.agent("kid").owner == ""
    assert len(mesh.of_type(ChildEnded)) == 1


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_a_result_that_no_turn_told_comes_with_the_end(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.end("kid", result="42\n")
    assert mesh.bodies("alice") == ["Your child kid has ended. It said last:\n42"]


@pytest.mark.requirement("CHILD-4", "CHILD-6", stage="lineage")
def test_a_parent_that_was_away_for_longer_than_mail_lives_still_hears_of_the_end(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.end("kid", result="42\n")
    (told,) = [event for event in mesh.of_type(MessageQueued) if event.to == "alice"]
    assert told.ttl_s == Limits().ttl_s_max > Limits().ttl_s


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_who_is_held_to_a_scope_can_let_nobody_out_of_it(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    assert mesh.spawn("kid", "baby").scoped
    baby = mesh.agent("baby").id
    assert not judge_write(mesh.state, baby, "/p/elsewhere").allowed
    assert not judge_write(mesh.state, baby, "/p/src/x").allowed, "it was given nothing of that"
    assert not mesh.spawn("bob", "free").scoped


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_a_parent_stops_its_child_and_grandchild_and_nobody_elses(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.bear("kid", "baby")
    for name in ("bob", "kid", "baby"):
        with refused("forbidden"):
            mesh.run(StopAgent(name="kid"), mesh.caller(name))
    with refused("forbidden"):
        mesh.run(StopAgent(name="bob"), mesh.caller("alice"))
    with refused("unknown_agent"):
        mesh.run(StopAgent(name="zoe"), mesh.caller("alice"))
    assert mesh.run(StopAgent(name="baby"), mesh.caller("alice")).status == "stopping"
    seq = mesh.state.seq
    assert mesh.run(StopAgent(name="baby"), mesh.caller("alice")).status == "stopping"
    assert mesh.state.seq == seq
    mesh.kill("baby")
    mesh.sweep()
    assert mesh.of_type(ChildEnded) == [ChildEnded(mesh.agent("baby").id, "asked")]
    assert mesh.run(StopAgent(name="kid"), OPERATOR).status == "stopping"


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_a_child_stopped_before_it_has_a_process_is_no_more_at_once(mesh: Family) -> None:
    mesh.spawn("alice", "kid", "/p")
    kid = mesh.agent("kid").id
    assert mesh.run(StopAgent(name="kid"), mesh.caller("alice")).status == "stopping"
    assert is_clean(mesh.state)
    assert [event.reason for event in mesh.of_type(ChildFailed)] == ["It was stopped before it was started."]
    mesh.run(NoteChildStarted(kid, "kid.1", "token", "window kid"))
    assert is_clean(mesh.state), "what was started meanwhile is nobody's child"


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_a_child_stopped_before_it_was_up_has_failed(mesh: Family) -> None:
    mesh.spawn("alice", "kid", "/p")
    mesh.start("kid")
    mesh.run(StopAgent(name="kid"), mesh.caller("alice"))
    mesh.kill("kid")
    mesh.sweep()
    assert is_clean(mesh.state)
    assert mesh.state.find("kid") is None


def test_a_child_is_not_forgotten_and_neither_is_a_parent(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    with refused("conflict"):
        mesh.run(UnregisterAgent(name="kid", forget=True), OPERATOR)
    read_all(mesh, "kid")
    mesh.lose("alice")
    mesh.lose("kid")
    mesh.lose("bob")
    mesh.pass_time(mesh.limits.forget_after_s + 1)
    mesh.run(ForgetAbsent())
    assert [event.agent for event in mesh.of_type(AgentForgotten)] == [mesh_id(mesh, "bob")]


def mesh_id(mesh: Family, name: str) -> str:
    """The id an agent had, from its registration."""
    return {"alice": "a1", "bob": "a2"}[name]


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_the_children_of_a_forgotten_parent_go_on(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p/src")
    mesh.bear("kid", "baby", "/p/src/a")
    mesh.forget("alice")
    assert mesh.child("kid").parent == ""
    assert mesh.writers("/p/src/x") == ["kid"]
    mesh.end("kid")
    assert mesh.child("baby").parent == ""
    mesh.end("baby")
    assert is_clean(mesh.state)
    assert mesh.replayed() == mesh.state


# -- what a parent hears ------------------------------------------------------------------------------


def outcomes() -> list[tuple[str, str, str]]:
    return [
        ("ended", "It works.", "It works."),
        ("ended", "", "Your child kid ended a turn without a word."),
        ("errored", "no key", 'Your child kid stopped with an error: "no key".'),
        ("interrupted", "", "Your child kid was interrupted."),
        ("waiting", "May I?", 'Your child kid waits for its human: "May I?".'),
    ]


@pytest.mark.requirement("AUD-4", stage="lineage")
@pytest.mark.parametrize(("outcome", "text", "told"), outcomes())
def test_row_turn_ended_and_errored_are_agent_visible_and_change_nothing_else(
    mesh: Family, outcome: str, text: str, told: str
) -> None:
    mesh.bear("alice", "kid", "/p")
    before = (dict(mesh.state.claims), dict(mesh.state.children_of))
    mesh.turn("kid", "t1", text, outcome=outcome, human=True)
    mesh.turn("kid", "t1", text, outcome=outcome, human=True)
    assert mesh.bodies("alice") == [told], "once"
    assert before == (mesh.state.claims, mesh.state.children_of)
    assert TurnEnded.audience is Audience.AGENT
    assert mesh.pending("alice"), "in the inbox, where it wakes whom it may wake"


@pytest.mark.requirement("AUD-4", "CHILD-4", stage="lineage")
def test_of_a_child_that_dies_in_a_turn_its_parent_hears_once(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p")
    mesh.turn("kid", "t1", outcome="interrupted", is_last=True)
    assert mesh.bodies("alice") == [], "its end is told"
    mesh.end("kid")
    (told,) = mesh.bodies("alice")
    assert told.startswith("Your child kid has ended.")


@pytest.mark.requirement("AUD-4", "CHILD-4", stage="lineage")
def test_row_shut_down_side_effect_first_then_visible(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p")
    mesh.end("kid")
    kinds = [type(event) for _, event in mesh.events]
    assert kinds.index(ChildEnded) < len(kinds) - 1 - kinds[::-1].index(MessageQueued)
    assert is_clean(mesh.state)
    assert ChildEnded.audience is Audience.AGENT


@pytest.mark.requirement("AUD-3", stage="lineage")
def test_row_scope_sub_delegated_updates_the_registry_and_is_seen_by_no_model(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p")
    mesh.bear("kid", "baby", "/p/a")
    stored = len(mesh.stored)
    mesh.bear("baby", "tiny", "/p/a/b")
    ids = {name: mesh.agent(name).id for name in mesh.names()}
    assert mesh.of_type(ScopeSubDelegated)[-2:] == [
        ScopeSubDelegated(ids["kid"], ids["baby"], ids["tiny"], write("/p/a/b")),
        ScopeSubDelegated(ids["alice"], ids["kid"], ids["tiny"], write("/p/a/b")),
    ], "each tells the next one above, in its own name"
    assert ids["tiny"] in mesh.state.children_of[ids["alice"]]
    assert ScopeSubDelegated.audience is Audience.CONTROL
    assert len(mesh.stored) == stored + 1, "nothing but the task of the new one"
    assert not mesh.pending("alice")
    assert not [event for event in mesh.of_type(MessageQueued) if "delegat" in mesh.stored_text(event)]


@pytest.mark.requirement("AUD-2", "AUD-3", stage="lineage")
def test_row_scope_sub_delegated_again_or_too_late_changes_nothing(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p")
    mesh.bear("kid", "baby", "/p/a")
    (event,) = mesh.of_type(ScopeSubDelegated)
    before = format_snapshot(mesh.state)
    apply_again(mesh.state, event)
    assert mesh.state == parse_snapshot(before)
    mesh.end("baby")
    mesh.end("kid")
    before = format_snapshot(mesh.state)
    apply_again(mesh.state, event)
    assert mesh.state == parse_snapshot(before)


def apply_again(state: State, event: ScopeSubDelegated) -> None:
    APPLIERS[type(event)](state, event)


@pytest.mark.requirement("AUD-7", stage="lineage")
def test_a_turn_that_only_notices_started_reports_nothing_upward(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.bear("kid", "baby")
    read_all(mesh, "kid")
    mesh.turn("kid", "t1", "started baby")
    assert mesh.bodies("alice") == ["started baby"], "its parent's message started it"
    read_all(mesh, "alice")
    mesh.turn("baby", "b1", "done", human=True)
    assert read_all(mesh, "kid") == ["done"]
    mesh.turn("kid", "t2", "baby is done")
    assert not mesh.bodies("alice"), "only a notice started it"
    mesh.send("alice", "kid", "and?")
    read_all(mesh, "kid")
    mesh.turn("kid", "t3", "all done")
    assert mesh.bodies("alice") == ["all done"]


@pytest.mark.requirement("AUD-4", "AUD-6", stage="lineage")
def test_a_childs_words_come_whole_and_under_its_name(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.turn("kid", "t1", "x" * 100_000)
    (seq,) = mesh.agent("alice").pending
    message = mesh.stored[seq]
    assert (message.sender_name, message.kind, message.sender) == ("kid", "notification", "")
    assert len(message.body.encode()) <= mesh.limits.body_bytes_max
    assert "get_session_data" in message.body
    assert mesh.of_type(ChildReported) == [ChildReported(mesh.agent("kid").id, seq)]
    assert mesh.child("kid").result == seq


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_a_parent_that_listens_twice_hears_once(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.run(Listen(agent="kid"), mesh.caller("alice"))
    mesh.run(Listen(agent="kid"), mesh.caller("bob"))
    mesh.turn("kid", "t1", "done")
    assert mesh.bodies("alice") == ["done"]
    assert len(mesh.bodies("bob")) == 1
    mesh.end("kid")
    assert len(mesh.bodies("alice")) == 2
    assert len(mesh.bodies("bob")) == 2


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_a_parent_that_does_not_want_to_hear_of_turns_hears_of_the_end_only(mesh: Family) -> None:
    mesh.bear("alice", "kid", listen=False)
    mesh.turn("kid", "t1", "done")
    assert not mesh.bodies("alice")
    mesh.end("kid")
    assert mesh.bodies("alice") == ["Your child kid has ended. It left no result."]


# -- seeing each other --------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-4", "PEER-7", stage="lineage")
def test_parents_and_children_see_each_other_under_any_policy_and_child_beats_peer(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.bear("kid", "baby")
    mesh.run(RegisterPeer(name="kid"), mesh.caller("alice"))
    mesh.run(MeshPolicy(group="/project", policy="peers"), OPERATOR)

    def seen(name: str) -> dict[str, str]:
        reply = mesh.run(ListAgents(all=True), mesh.caller(name))
        return {agent.name: agent.reason for agent in reply.agents}

    assert seen("alice") == {"kid": "child", "baby": "child"}
    assert seen("kid") == {"alice": "parent", "baby": "child"}
    assert seen("baby") == {"alice": "parent", "kid": "parent"}
    assert seen("bob") == {}
    assert mesh.send("baby", "alice").status == "received"
    mesh.end("kid")
    assert seen("alice") == {"baby": "child", "kid": "peer"}
    assert seen("baby") == {"alice": "parent"}


def test_a_family_is_listed_by_generation(mesh: Family) -> None:
    mesh.bear("alice", "kid", "/p")
    mesh.bear("kid", "baby", scope=[rule("/p/a", recursive=False)])
    mesh.spawn("bob", "other")

    def told(caller: Caller) -> list[tuple[str, str, str]]:
        reply: Children = mesh.run(ListChildren(), caller)
        return [(each.name, each.parent, each.status) for each in reply.children]

    mine = [("kid", "alice", "running"), ("baby", "kid", "running")]
    assert told(mesh.caller("alice")) == mine
    assert told(mesh.caller("baby")) == []
    assert sorted(told(OPERATOR)) == sorted([*mine, ("other", "bob", "reserved")])
    reply: Children = mesh.run(ListChildren(), mesh.caller("kid"))
    assert reply.children[0].rules == [ScopeRule("/p/a", "write", False)]


# -- through crashes ----------------------------------------------------------------------------------


def life(mesh: Family) -> list[Callable[[], object]]:
    """Every step of a family's life, one commit each."""
    steps: list[Callable[[], object]] = [
        lambda: mesh.spawn("alice", "kid", "/p/src"),
        lambda: mesh.start("kid"),
        lambda: mesh.connect("kid"),
        lambda: mesh.up("kid"),
        lambda: mesh.spawn("kid", "baby", "/p/src/a"),
        lambda: mesh.start("baby"),
        lambda: mesh.connect("baby"),
        lambda: mesh.up("baby"),
        lambda: mesh.turn("baby", "b1", "done", human=True),
        lambda: mesh.run(StopAgent(name="baby"), mesh.caller("kid")),
        lambda: mesh.end("kid"),
        lambda: mesh.end("baby"),
    ]
    return steps


@pytest.mark.requirement("CHILD-3", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("survive", [True, False], ids=["processes live", "processes die"])
@pytest.mark.parametrize("length", range(13))
def test_after_a_crash_at_any_step_nothing_is_left_half_done(length: int, survive: bool) -> None:
    mesh = Family()
    mesh.register("alice", kind="codex")
    for step in life(mesh)[:length]:
        step()
    mesh.state = mesh.replayed()
    if not survive:
        mesh.alive.clear()
    mesh.run(StartBroker("2"))
    mesh.sweep(begun=True)
    for agent, child in mesh.state.children.items():
        assert child.status in ("started", "running", "stopping")
        assert child.process in mesh.alive
        assert agent in mesh.state.children_of[child.parent]
    assert set(mesh.state.claims) <= set(mesh.state.children)
    if not survive:
        assert is_clean(mesh.state)
    tasks = [message.body for message in mesh.stored.values() if message.body.startswith("task")]
    assert len(tasks) == len(set(tasks)), "a task was given twice"
    endings = [body for body in mesh.bodies("alice") if "Your child" in body]
    assert len(endings) == len(set(endings)), "told twice"
    assert mesh.replayed() == mesh.state


def test_a_journal_cut_at_any_commit_replays(mesh: Family) -> None:
    for step in life(mesh):
        step()
    for length in range(len(mesh.batches)):
        state = State()
        for batch in mesh.batches[: length + 1]:
            apply_batch(state, parse_batch(batch.data), seq=batch.seq, now=batch.now, awake=batch.awake)
        assert all(child.parent in state.agents for child in state.children.values())
