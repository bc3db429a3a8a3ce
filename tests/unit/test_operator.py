"""The operator is a person: always there, without a session, with a share of its inbox for each agent."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller, ExpireDue, ForgetAbsent, StartBroker
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentRegistered, MessagesRead, SessionStarted
from tellwire.protocol.operations.agents import (
    ListAgents,
    MuteAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.feed import WatchFeed
from tellwire.protocol.operations.messages import ClaimMessages, ConfirmMessages, SendMessage
from tellwire.protocol.operations.needs import AnswerMessage, ListNeeds, Needs
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused

DAY_S = 86_400.0
CLI = Caller(kind="operator", console="cli")
TUI = Caller(kind="operator", console="tui")


@pytest.fixture
def mesh() -> Mesh:
    """A broker that has started, and two agents."""
    mesh = Mesh(Limits(operator_messages_max=8, operator_share_max=3))
    mesh.run(StartBroker("1"))
    mesh.register("alice")
    mesh.register("bob")
    return mesh


def ask(mesh: Mesh, choices: list[str] | None = None, **fields: Any) -> Any:
    operation = SendMessage(to="operator", body="Shall I?", choices=choices, **fields)
    return mesh.run(operation, mesh.caller("alice"))


# -- there from the first start -----------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
def test_on_a_fresh_machine_the_operator_can_be_written_to(mesh: Mesh) -> None:
    sent = mesh.send("alice", "operator")
    assert sent.status == "received"
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("HUM-1", stage="console")
def test_a_home_of_an_earlier_version_gets_its_operator_back_with_its_mail() -> None:
    mesh = Mesh()
    old = mesh.run(RegisterAgent(name="operator", session="1", kind="other"), OPERATOR)
    mesh.register("alice")
    mesh.send("alice", "operator")
    mesh.run(StartBroker("2"))
    operator = mesh.agent("operator")
    assert (operator.id, operator.kind, operator.online) == (old.id, "operator", True)
    assert len(operator.pending) == 1
    mesh.run(StartBroker("3"))
    assert sum(isinstance(event, AgentRegistered) for _, event in mesh.events) == 2
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("HUM-1", stage="console")
def test_its_mail_lives_for_thirty_days_whatever_the_sender_says(mesh: Mesh) -> None:
    ask(mesh, ttl_s=1.0)
    sent = mesh.run(SendMessage(to=["operator", "bob"], body="x", ttl_s=60.0), mesh.caller("alice"))
    mesh.pass_time(29.9 * DAY_S)
    mesh.run(ExpireDue())
    mesh.run(ForgetAbsent())
    assert len(mesh.agent("operator").pending) == 2
    assert mesh.states(sent.id) == {"operator": "pending", "bob": "expired"}
    mesh.pass_time(0.2 * DAY_S)
    mesh.run(ExpireDue())
    assert not mesh.agent("operator").pending


@pytest.mark.requirement("HUM-1", stage="console")
def test_which_process_speaks_as_the_operator_is_on_record_once(mesh: Mesh) -> None:
    for process in ("7.1", "7.1", "8.2"):
        mesh.run(SendMessage(to="bob", body="x"), Caller(kind="operator", process=process))
    started = [event.process for event in mesh.of_type(SessionStarted) if event.process]
    assert started[-2:] == ["7.1", "8.2"]
    assert mesh.replayed() == mesh.state


@pytest.mark.requirement("HUM-1", stage="console")
def test_it_stays(mesh: Mesh) -> None:
    for operation in (UnregisterAgent(name="operator"), UnregisterAgent(name="operator", forget=True)):
        with refused("forbidden"):
            mesh.run(operation, OPERATOR)
    with refused("forbidden"):
        mesh.run(UpdateAgent(agent="operator", name="boss"), OPERATOR)
    with refused("bad_request"):
        mesh.run(MuteAgent(name="operator"), OPERATOR)
    mesh.run(UnregisterAgent(), OPERATOR)
    assert mesh.send("alice", "operator").status == "received"


@pytest.mark.requirement("HUM-1", stage="console")
def test_it_is_in_no_broadcast_and_no_listing(mesh: Mesh) -> None:
    sent = mesh.run(SendMessage(to="broadcast", body="x"), mesh.caller("alice"))
    assert [each.name for each in sent.recipients] == ["bob"]
    mesh.register("dora", group="")
    nobody = mesh.run(SendMessage(to="broadcast", body="x"), mesh.caller("dora"), group="")
    assert not nobody.recipients, "it has no project of its own either"
    mesh.forget("dora")
    for caller in (mesh.caller("alice"), OPERATOR, SCRIPT):
        names = {agent.name for agent in mesh.run(ListAgents(all=True), caller).agents}
        assert names <= {"alice", "bob"}
        assert not mesh.run(ListAgents(), caller).hidden


def test_its_broadcast_goes_to_the_project_of_the_terminal(mesh: Mesh) -> None:
    mesh.register("carol", group="/other")
    for group, names in (("/project", ["alice", "bob"]), ("/other", ["carol"])):
        sent = mesh.run(SendMessage(to="broadcast", body="x"), OPERATOR, group=group)
        assert [each.name for each in sent.recipients] == names


# -- one person, many terminals -------------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
def test_one_connection_watches_speaks_and_governs(mesh: Mesh) -> None:
    for operation in (
        RegisterAgent(name="operator", session="1"),
        WatchFeed(),
        SendMessage(to="alice", body="x"),
        MuteAgent(name="alice"),
        WatchFeed(),
    ):
        mesh.run(operation, CLI)
    assert mesh.agent("alice").muted
    assert len(mesh.agent("alice").pending) == 1
    with refused("not_registered"):
        mesh.run(SendMessage(to="alice", body="x"), SCRIPT)


@pytest.mark.requirement("HUM-1", stage="console")
def test_what_one_terminal_has_shown_is_read_for_all_and_by_which_is_known(mesh: Mesh) -> None:
    first, second = mesh.send("alice", "operator").id, mesh.send("alice", "operator").id
    assert mesh.run(ClaimMessages(ids=[first, second]), CLI).ids == [first, second]
    assert mesh.run(ClaimMessages(ids=[first, second]), TUI).ids == [first, second]
    assert mesh.run(ConfirmMessages(ids=[first]), CLI).count == 1
    assert mesh.run(ConfirmMessages(ids=[first]), TUI).count == 0
    assert mesh.run(ConfirmMessages(ids=[second]), TUI).count == 1
    assert mesh.run(ClaimMessages(ids=[first, "m999"]), TUI).ids == [first], "it was offered to both"
    shown = [mesh.evidence(each)["operator"] for each in (first, second)]
    assert shown == ["seen:cli", "seen:tui"]
    assert not mesh.agent("operator").leased


# -- look-alikes ----------------------------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
def test_an_agent_that_looks_like_it_in_an_old_journal_is_renamed_and_told() -> None:
    mesh = Mesh()
    mesh.register("alice", session="1", kind="codex")
    mesh.register("carol", session="2", kind="codex")
    for name, alias in (("alice", "operator-2"), ("carol", "Op.erat0r")):
        agent = mesh.agent(name)
        mesh.state.names[alias.lower()] = mesh.state.names.pop(name)
        agent.name = alias  # as an earlier version allowed it
    mesh.run(StartBroker("2"))
    assert sorted(mesh.state.names) == ["codex", "codex-2", "operator"]
    for name, alias in (("codex", "operator-2"), ("codex-2", "Op.erat0r")):
        (told,) = mesh.bodies(name)
        assert alias in told
        assert name in told
        assert mesh.state.reach(alias) is mesh.agent(name)
    known = mesh.agent("codex").id
    back = mesh.run(RegisterAgent(name="operator-2", session="1", kind="codex", resume=known))
    assert back.name == "codex"
    with refused("name_invalid"):
        mesh.register("operator-2", session="9")


# -- room -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
def test_one_agent_cannot_fill_the_inbox_for_others(mesh: Mesh) -> None:
    first, *_ = [mesh.send("alice", "operator").id for _ in range(3)]
    with pytest.raises(TellwireError) as caught:
        mesh.send("alice", "operator")
    assert caught.value.code == "mailbox_full"
    assert "answer" in caught.value.advice
    assert mesh.send("bob", "operator").status == "received"
    found: Needs = mesh.run(ListNeeds(), OPERATOR)
    assert found.full == ["alice"]
    mesh.run(ConfirmMessages(ids=[first]), CLI)
    assert mesh.send("alice", "operator").status == "received"


def test_all_together_have_a_bound_too(mesh: Mesh) -> None:
    for number in range(8):
        mesh.register(f"extra{number}")
        mesh.send(f"extra{number}", "operator")
    with refused("mailbox_full"):
        mesh.send("alice", "operator")


def test_a_question_that_is_read_and_not_answered_counts_as_open(mesh: Mesh) -> None:
    asked = [ask(mesh, ["yes", "no"]).id for _ in range(3)]
    mesh.run(ConfirmMessages(ids=asked), CLI)
    with refused("mailbox_full"):
        ask(mesh)
    mesh.run(AnswerMessage(id=asked[0], body="yes"), CLI)
    assert ask(mesh).status == "received"


# -- questions and answers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choices",
    [[], [""], ["yes", "YES"], ["a\nb"], [" yes"], ["x" * 33], ["a\u202eb"], [str(n) for n in range(10)]],
)
def test_choices_are_a_few_short_words(mesh: Mesh, choices: list[str]) -> None:
    with refused("bad_request"):
        ask(mesh, choices)


def test_choices_are_for_the_operator_alone(mesh: Mesh) -> None:
    for to in ("bob", ["operator", "bob"], "broadcast"):
        with refused("bad_request"):
            mesh.run(SendMessage(to=to, body="x", choices=["yes"]), mesh.caller("alice"))
    with refused("bad_request"):
        ask(mesh, ["yes"], context="words")


def test_needs_are_the_oldest_first_until_read_or_answered(mesh: Mesh) -> None:
    asked = ask(mesh, ["yes", "not now"], context={"file": "a.py"}).id
    told = mesh.send("bob", "operator", "news").id
    found = mesh.run(ListNeeds(), OPERATOR).needs
    assert [(need.id, need.who) for need in found] == [(asked, "alice"), (told, "bob")]
    assert all(need.unread for need in found)
    assert (found[0].choices, found[0].answerable) == (["yes", "not now"], True)
    mesh.run(ConfirmMessages(ids=[asked, told]), CLI)
    (left,) = mesh.run(ListNeeds(), OPERATOR).needs
    assert (left.id, left.unread) == (asked, False)
    assert parse_snapshot(format_snapshot(mesh.state)) == mesh.state
    mesh.run(AnswerMessage(id=asked, body="NOT NOW"), CLI)
    assert mesh.run(ListNeeds(), OPERATOR) == Needs()
    assert mesh.bodies("alice") == ["not now"]
    assert mesh.replayed() == mesh.state


def test_an_answer_is_a_message_with_re_and_a_repeat_is_harmless(mesh: Mesh) -> None:
    asked = ask(mesh, ["yes", "no"]).id
    answer = AnswerMessage(id=asked, body="yes", key=mesh.key("x"))
    first, again = mesh.run(answer, CLI), mesh.run(answer, CLI)
    assert first.id == again.id
    (record,) = [mesh.stored[seq].record() for seq in mesh.agent("alice").pending]
    assert (record.sender, record.re, record.body) == ("operator", asked, "yes")
    assert mesh.states(asked) == {"operator": "answered"}


def test_nothing_is_sent_for_what_is_answered_expired_unknown_or_no_choice(mesh: Mesh) -> None:
    asked, late, plain = ask(mesh, ["yes", "no"]).id, ask(mesh, ["yes"]).id, mesh.send("bob", "operator").id
    for wrong, code in (("maybe", "bad_request"), ("  ", "bad_request")):
        with refused(code):
            mesh.run(AnswerMessage(id=asked, body=wrong), CLI)
    mesh.run(AnswerMessage(id=asked, body="no"), CLI)
    mesh.run(AnswerMessage(id=plain, body="whatever I like"), CLI)
    mesh.pass_time(300)
    with pytest.raises(TellwireError) as caught:
        mesh.run(AnswerMessage(id=asked, body="yes"), TUI)
    assert caught.value.code == "question_closed"
    assert "5 min ago" in caught.value.message
    with pytest.raises(TellwireError) as caught:
        mesh.run(AnswerMessage(id=f"{late}x", body="yes"), CLI)
    assert caught.value.code == "unknown_message"
    assert late in caught.value.advice
    mesh.run(ConfirmMessages(ids=[late]), CLI)
    mesh.pass_time(31 * DAY_S)
    assert not mesh.run(ListNeeds(), OPERATOR).needs
    with refused("question_closed"):
        mesh.run(AnswerMessage(id=late, body="yes"), CLI)
    assert len(mesh.bodies("alice")) == 1


def test_an_asker_that_is_gone_asks_no_more(mesh: Mesh) -> None:
    asked = ask(mesh, ["yes"]).id
    mesh.run(ConfirmMessages(ids=[asked]), CLI)
    mesh.forget("alice")
    assert not mesh.run(ListNeeds(), OPERATOR).needs
    with refused("question_closed"):
        mesh.run(AnswerMessage(id=asked, body="yes"), CLI)


def test_only_a_person_answers(mesh: Mesh) -> None:
    asked = ask(mesh, ["yes"]).id
    for caller in (mesh.caller("bob"), SCRIPT):
        with refused("forbidden"):
            mesh.run(AnswerMessage(id=asked, body="yes"), caller)
    with refused("forbidden"):
        mesh.run(ListNeeds(), mesh.caller("bob"))
    assert not any(isinstance(event, MessagesRead) for _, event in mesh.events)
