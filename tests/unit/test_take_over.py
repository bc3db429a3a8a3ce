"""Going on as another agent that nobody is at the moment: by the operator's word, or in its pane."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tellwire.core.agents.names import FORMER_NAMES_MAX
from tellwire.core.context import MarkSilent, OfferWaiting, StartBroker
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentForgotten, AgentUpdated, SessionStarted
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.agents import (
    AgentRecord,
    GetAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.topics import Subscribe
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused


def absent(**fields: Any) -> Mesh:
    """Old has gone and mail waits for it; new has come."""
    mesh = Mesh()
    mesh.register("peer")
    mesh.register("old", session="s-before", **fields)
    mesh.leave("old")
    mesh.send("peer", "old", "waits")
    mesh.register("new")
    return mesh


def rename(mesh: Mesh, name: str, to: str, **fields: Any) -> AgentRecord:
    """The operator has an agent go on under another name."""
    return mesh.run(UpdateAgent(agent=name, name=to, **fields), OPERATOR)


def test_who_takes_the_name_of_an_absent_agent_goes_on_as_that_agent_with_its_mail() -> None:
    mesh = absent()
    old, new = mesh.agent("old").id, mesh.agent("new").id
    record = rename(mesh, "new", "OLD")
    assert (record.id, record.name, record.status, record.pending, record.reason) == (
        old,
        "old",
        "online",
        1,
        "self",
    )
    agent = mesh.agent("old")
    assert (agent.id, agent.session, agent.online, mesh.bodies("old")) == (old, "s-new", True, ["waits"])
    assert (mesh.state.find("new"), mesh.state.agents.get(new)) == (None, None)
    assert [event.agent for event in mesh.of_type(AgentForgotten)] == [new]
    assert mesh.of_type(SessionStarted)[-1].was == new
    assert not mesh.of_type(AgentUpdated)
    assert mesh.replayed() == mesh.state


def test_the_session_finds_the_other_agent_again_after_a_take_over() -> None:
    mesh = absent()
    old = mesh.agent("old").id
    rename(mesh, "new", "old")
    count = len(mesh.events)
    assert rename(mesh, "old", "old").id == old, "asked again after a lost reply"
    assert len(mesh.events) == count + 1
    reply = mesh.register("new", session="s-new")
    assert (reply.id, reply.name, reply.resumed) == (old, "old", True)


def test_a_take_over_answers_with_the_record_as_it_is_then() -> None:
    mesh = absent(capabilities=["rust"], metadata={"old": 1}, group="/elsewhere")
    mesh.pass_time(10.0)
    mesh.run(UpdateAgent(metadata={"new": 1}), mesh.caller("new"))
    record = rename(mesh, "new", "old")
    assert (record.capabilities, record.metadata) == (["rust"], {"new": 1})
    assert (record.group, record.connected_at) == ("/project", mesh.now)
    now: AgentRecord = mesh.run(GetAgent(name="old"), mesh.caller("old"))
    assert record == now


@pytest.mark.parametrize(("given", "kept"), [(None, ["py"]), ([], []), (["go"], ["go"])])
def test_capabilities_that_are_named_are_those_of_the_agent_then(
    given: list[str] | None, kept: list[str]
) -> None:
    mesh = absent(capabilities=["rust"])
    mesh.run(UpdateAgent(capabilities=["py"]), mesh.caller("new"))
    assert rename(mesh, "new", "old", capabilities=given).capabilities == kept
    assert mesh.agent("old").capabilities == kept


@pytest.mark.parametrize("why", ["online", "kind", "returning", "beneath", "pending", "leased"])
def test_nobody_is_taken_over_who_is_somebody_or_at_the_cost_of_own_mail(why: str) -> None:
    mesh = absent(kind="codex" if why == "kind" else "script")
    caller = mesh.caller("new", is_own_client=why != "beneath")
    match why:
        case "online":
            mesh.register("old", session="again")
        case "returning":
            mesh.run(RegisterAgent(name="old", session="again"))
            mesh.run(StartBroker("0.2"))
            mesh.alive.add("")
            mesh.register("new")
        case "pending" | "leased":
            mesh.send("peer", "new", "mine")
            if why == "leased":
                mesh.run(OfferWaiting(mesh.agent("new").id))
        case _:
            pass
    count = len(mesh.events)
    with refused("conflict"):
        mesh.run(UpdateAgent(name="old"), caller)
    assert (len(mesh.events), mesh.agent("new").name) == (count, "new")


def test_who_did_not_come_back_after_a_restart_can_be_taken_over_and_its_leases_return() -> None:
    mesh = Mesh()
    mesh.register("peer")
    mesh.register("old", pulls=True)
    sent = mesh.send("peer", "old", "a").id
    mesh.take("old", "1")
    mesh.run(StartBroker("0.2"))
    mesh.register("new", pulls=True)
    rename(mesh, "new", "old")
    assert (mesh.pending("old"), mesh.agent("old").calls) == ([sent], {})
    taken = mesh.take("old", "1")
    assert [record.repeat for record in taken.messages] == [True], "its process may have shown it"
    assert mesh.replayed() == mesh.state


def test_a_take_over_of_a_silent_agent_marks_what_it_had_shown() -> None:
    mesh = Mesh()
    mesh.register("peer")
    mesh.register("old")
    shown, unseen = (mesh.send("peer", "old", text).id for text in "ab")
    mesh.run(OfferWaiting(mesh.agent("old").id))
    mesh.claim("old", shown)
    mesh.run(MarkSilent(mesh.agent("old").id))
    mesh.register("new")
    rename(mesh, "new", "old")
    pending = mesh.agent("old").pending
    marks = [pending[parse_message_id(message)].seen_by for message in (shown, unseen)]
    assert marks == ["s-old", ""]


@pytest.mark.requirement("NET-3")
def test_a_send_from_before_a_take_over_is_still_known_as_a_repeat() -> None:
    mesh = absent()
    key = mesh.key("one")
    first = mesh.send("new", "peer", "once", key=key)
    rename(mesh, "new", "old")
    again = mesh.send("old", "peer", "once", key=key)
    assert (again.id, mesh.bodies("peer")) == (first.id, ["once"])
    assert mesh.replayed() == mesh.state


def test_topics_of_the_other_agent_stay_and_own_ones_go() -> None:
    mesh = Mesh()
    mesh.register("peer")
    mesh.register("old")
    mesh.run(Subscribe(topic="kept"), mesh.caller("old"))
    mesh.leave("old")
    mesh.register("new")
    mesh.run(Subscribe(topic="gone"), mesh.caller("new"))
    rename(mesh, "new", "old")
    assert mesh.state.topics == {"kept": {mesh.agent("old").id: None}}


# -- names and kinds ----------------------------------------------------------------------------------


def test_what_is_sent_to_the_name_before_a_take_over_arrives() -> None:
    mesh = absent()
    rename(mesh, "new", "old")
    mesh.send("peer", "new", "reply")
    assert mesh.bodies("old") == ["waits", "reply"]


def test_all_former_names_go_along() -> None:
    mesh = absent()
    rename(mesh, "new", "newer")
    rename(mesh, "newer", "old")
    for name in ("new", "newer"):
        assert mesh.send("peer", name, name).status == "received"
    assert mesh.bodies("old") == ["waits", "new", "newer"]


def test_former_names_are_bounded_and_gone_with_their_agent() -> None:
    mesh = Mesh()
    mesh.register("peer")
    mesh.register("n0")
    for number in range(20):
        rename(mesh, f"n{number}", f"n{number + 1}")
    assert len(mesh.state.former) == FORMER_NAMES_MAX
    reached = [number for number in range(20) if mesh.send("peer", f"n{number}").id]
    assert reached == list(range(20 - FORMER_NAMES_MAX, 20))
    mesh.forget("n20")
    assert mesh.state.former == {}
    assert mesh.send("peer", "n19").status == "denied"
    assert mesh.replayed() == mesh.state


def test_a_name_that_somebody_here_had_before_is_not_for_a_rename() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    rename(mesh, "alice", "carol")
    with refused("conflict"):
        rename(mesh, "bob", "alice")
    assert rename(mesh, "bob", "alice", suffix=True).name == "alice-2"
    assert rename(mesh, "carol", "alice").name == "alice", "its own it may have again"
    rename(mesh, "alice", "carol")
    mesh.leave("carol")
    assert rename(mesh, "alice-2", "alice").name == "alice", "nobody is here who had it"


def test_this_name_or_none_holds_for_former_names_too() -> None:
    mesh = Mesh()
    mesh.register("alice")
    rename(mesh, "alice", "carol")
    with refused("forbidden"):
        mesh.register("alice", session="other", exact=True)
    assert mesh.register("alice", session="other").name == "alice-2"


def test_a_name_in_use_gets_a_suffix_on_request() -> None:
    mesh = Mesh()
    for name in ("alice", "bob", "alice-2"):
        mesh.register(name)
    with refused("conflict"):
        rename(mesh, "bob", "alice")
    assert rename(mesh, "bob", "Alice", suffix=True).name == "Alice-3"
    assert mesh.agent("alice-3").session == "s-bob"
    mesh.leave("alice-2")
    mesh.register("carol")
    old = mesh.agent("alice-2").id
    assert rename(mesh, "carol", "alice", suffix=True).id == old, "the next name is nobody's at the moment"


def test_with_own_mail_a_suffix_goes_before_an_absent_agent() -> None:
    mesh = absent()
    mesh.send("peer", "new", "mine")
    own = mesh.agent("new").id
    assert (rename(mesh, "new", "old", suffix=True).name, mesh.bodies("old-2")) == ("old-2", ["mine"])
    assert mesh.agent("old-2").id == own


def test_a_kind_can_be_changed_and_decides_whom_one_may_be() -> None:
    mesh = absent(kind="codex")
    with refused("conflict"):
        rename(mesh, "new", "old")
    old = mesh.agent("old").id
    assert rename(mesh, "new", "old", kind="codex").id == old
    record = mesh.run(UpdateAgent(kind="other"), mesh.caller("old"))
    assert (record.kind, mesh.agent("old").kind) == ("other", "other")
    assert mesh.replayed() == mesh.state


def test_who_changed_its_kind_comes_back_to_itself() -> None:
    mesh = Mesh()
    first = mesh.register("alice", session="word", kind="script")
    mesh.run(UpdateAgent(kind="codex"), mesh.caller("alice"))
    mesh.lose("alice")
    again = mesh.register("alice", session="word", kind="script", resume=first.id)
    assert (again.id, again.name, again.resumed) == (first.id, "alice", True)


def test_a_kind_is_never_empty() -> None:
    mesh = Mesh()
    mesh.register("alice", kind="codex")
    with suppress(TellwireError):
        mesh.run(UpdateAgent(kind=""), mesh.caller("alice"))
    assert mesh.agent("alice").kind == "codex"


@pytest.mark.requirement("SEC-3")
def test_a_kind_has_its_bound_in_an_update_too() -> None:
    mesh = Mesh(Limits(text_length_max=8))
    mesh.register("alice")
    with refused("limit_exceeded"):
        mesh.run(UpdateAgent(kind="k" * 9), mesh.caller("alice"))


@pytest.mark.requirement("SEC-1", "NET-3")
def test_an_agent_that_asks_for_an_absent_agents_name_gets_a_conflict_and_no_mail() -> None:
    mesh = absent()
    for suffix in (False, True):
        caller = mesh.caller("new")
        if suffix:
            assert mesh.run(UpdateAgent(name="old", suffix=True), caller).name == "old-2"
        else:
            with refused("conflict"):
                mesh.run(UpdateAgent(name="old"), caller)
    with refused("forbidden"):
        mesh.run(UpdateAgent(agent="old-2", name="old"), mesh.caller("peer"))
    assert mesh.bodies("old") == ["waits"]


@pytest.mark.requirement("NET-3")
def test_the_operator_keeps_its_name_and_there_is_one() -> None:
    mesh = Mesh()
    first = mesh.run(RegisterAgent(name="", session="1", kind="operator"), OPERATOR)
    with refused("forbidden"):
        mesh.run(UpdateAgent(name="boss"), mesh.caller("operator"))
    mesh.run(StartBroker("0.2"))
    for session in ("2", "3"):
        again = mesh.run(RegisterAgent(name="operator", session=session, kind="other"), OPERATOR)
        assert (again.id, again.name, again.attached) == (first.id, "operator", False)
    with refused("forbidden"):
        mesh.run(UpdateAgent(agent="operator", kind="codex"), OPERATOR)
    with refused("forbidden"):
        mesh.run(UnregisterAgent(name="operator", forget=True), OPERATOR)
    assert mesh.agent("operator").online


# -- by id --------------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-3")
def test_an_id_is_no_name_and_has_a_form_of_its_own() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    number = mesh.agent("bob").id
    assert mesh.send("alice", number, "x").status == "denied"
    with refused("unknown_agent"):
        mesh.run(GetAgent(name=number), SCRIPT)
    bob = f"id:{number}"
    assert mesh.run(GetAgent(name=bob), SCRIPT).name == "bob"
    assert mesh.send("alice", bob, "one").status == "received"
    assert [outcome.name for outcome in mesh.send("alice", [bob, "bob"], "two").recipients] == ["bob"]
    assert mesh.bodies("bob") == ["one", "two"]
    assert mesh.send("bob", bob, "me").status == "refused"


def test_a_name_goes_before_an_id() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.register("bob")
    bob = mesh.agent("bob").id
    mesh.register(bob, session="named so")
    assert mesh.run(GetAgent(name=bob), SCRIPT).id != bob
    mesh.send("alice", bob, "to the name")
    assert mesh.bodies("bob") == []
