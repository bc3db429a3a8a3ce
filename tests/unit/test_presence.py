"""Coming and going: sessions, silence, restarts of the broker, and agents that are long gone."""

from __future__ import annotations

import pytest

from tellwire.core.context import (
    Caller,
    EndSession,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    OfferWaiting,
    StartBroker,
)
from tellwire.core.limits import Limits
from tellwire.protocol.events import Audience, MessageQueued
from tellwire.protocol.operations.agents import GetAgent, Heartbeat, RegisterAgent
from tests.unit.mesh import OPERATOR, Mesh


def reason(mesh: Mesh, name: str) -> str:
    agent = mesh.agent(name)
    return "online" if agent.online else agent.offline_reason


def test_a_broken_connection_ends_its_session() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.pass_time(5.0)
    mesh.lose("alice")
    assert (reason(mesh, "alice"), mesh.agent("alice").gone_at) == ("disconnected", mesh.now)


def test_the_end_of_an_older_connection_does_not_end_the_session_after_it() -> None:
    mesh = Mesh()
    agent = mesh.register("alice", session="1").id
    mesh.lose("alice")
    mesh.register("alice", session="2")
    mesh.run(EndSession(agent, "1"))
    assert reason(mesh, "alice") == "online"


@pytest.mark.parametrize("last", ["left", "disconnected"])
def test_a_session_ends_once(last: str) -> None:
    mesh = Mesh()
    agent = mesh.register("alice", session="1").id
    (mesh.leave if last == "left" else mesh.lose)("alice")
    count = len(mesh.events)
    mesh.run(EndSession(agent, "1"))
    assert (len(mesh.events), reason(mesh, "alice")) == (count, last)


def test_the_end_of_an_unknown_session_is_nothing() -> None:
    mesh = Mesh()
    for command in (EndSession("a9", "x"), MarkSilent("a9"), MarkAlive("a9")):
        assert mesh.run(command) is None
    assert not mesh.events


def test_silence_makes_offline_but_ends_nothing_and_a_sign_of_life_repairs_it() -> None:
    mesh = Mesh()
    agent = mesh.register("alice").id
    mesh.register("bob")
    mesh.send("bob", "alice")
    mesh.run(OfferWaiting(agent))
    held = mesh.leased("alice")
    mesh.run(MarkSilent(agent))
    assert (reason(mesh, "alice"), mesh.leased("alice")) == ("silent", held)
    assert mesh.send("bob", "alice").status == "queued"
    mesh.run(OfferWaiting(agent))
    assert mesh.leased("alice") == held, "nothing is handed to a silent client"
    mesh.run(MarkAlive(agent))
    assert (reason(mesh, "alice"), mesh.leased("alice")) == ("online", held)


def test_a_silent_session_can_still_end() -> None:
    mesh = Mesh()
    agent = mesh.register("alice").id
    mesh.run(MarkSilent(agent))
    mesh.lose("alice")
    assert reason(mesh, "alice") == "disconnected"


def test_a_silent_agent_can_leave_and_what_it_held_waits_again() -> None:
    mesh = Mesh()
    agent = mesh.register("alice").id
    mesh.register("bob")
    message = mesh.send("bob", "alice").id
    mesh.run(OfferWaiting(agent))
    mesh.run(MarkSilent(agent))
    mesh.leave("alice")
    assert (reason(mesh, "alice"), mesh.leased("alice"), mesh.pending("alice")) == ("left", [], [message])


def test_being_silent_or_alive_twice_is_one_fact() -> None:
    mesh = Mesh()
    agent = mesh.register("alice").id
    for command, more in (
        (MarkAlive(agent), 0),
        (MarkSilent(agent), 1),
        (MarkSilent(agent), 0),
        (MarkAlive(agent), 1),
    ):
        count = len(mesh.events)
        mesh.run(command)
        assert len(mesh.events) == count + more


def test_a_sign_of_life_does_not_bring_back_who_has_left() -> None:
    mesh = Mesh()
    agent = mesh.register("alice").id
    mesh.leave("alice")
    mesh.run(MarkAlive(agent))
    assert reason(mesh, "alice") == "left"


def test_after_a_restart_of_the_broker_nobody_is_online_and_all_may_come_back() -> None:
    mesh = Mesh()
    mesh.register("alice", session="1")
    mesh.register("bob")
    mesh.leave("bob")
    mesh.run(StartBroker("0.2"))
    assert (reason(mesh, "alice"), reason(mesh, "bob")) == ("restart", "left")
    assert mesh.state.epoch == mesh.state.seq - 1, "the operator is there from the beginning"
    assert reason(mesh, "operator") == "online"
    mesh.register("alice", session="1")
    assert reason(mesh, "alice") == "online"


def test_after_a_restart_a_name_waits_for_its_session_while_that_process_lives() -> None:
    mesh = Mesh()
    mesh.run(RegisterAgent(name="alice", session="1"), Caller(kind="script", process="7.1"))
    mesh.run(StartBroker("0.2"))
    mesh.alive.add("7.1")
    assert mesh.register("alice", session="2").name == "alice-2"
    mesh.alive.clear()
    assert mesh.register("alice", session="3").name == "alice"


@pytest.mark.requirement("NET-7")
def test_coming_and_going_puts_nothing_into_any_inbox() -> None:
    mesh = Mesh()
    mesh.register("alice")
    agent = mesh.register("bob").id
    mesh.run(MarkSilent(agent))
    mesh.run(MarkAlive(agent))
    mesh.lose("bob")
    mesh.register("bob", session="2")
    mesh.leave("bob")
    mesh.run(StartBroker("0.2"))
    assert mesh.state.waiting() == 0
    assert not mesh.of_type(MessageQueued)
    assert {event.audience for _, event in mesh.events} == {Audience.CONTROL}


def test_a_heartbeat_is_answered_and_is_no_fact() -> None:
    mesh = Mesh()
    mesh.register("alice")
    count = len(mesh.events)
    assert mesh.run(Heartbeat(), mesh.caller("alice")) is not None
    assert len(mesh.events) == count


def test_who_is_long_gone_without_mail_is_forgotten_and_nobody_else() -> None:
    mesh = Mesh(Limits(forget_after_s=100.0))
    for name in ("gone", "mail", "here", "late"):
        mesh.register(name)
    mesh.send("here", "mail")
    mesh.lose("gone")
    mesh.lose("mail")
    mesh.pass_time(60.0)
    mesh.lose("late")
    mesh.pass_time(60.0)
    mesh.run(ForgetAbsent())
    assert sorted(agent.name for agent in mesh.state.agents.values()) == ["here", "late", "mail"]
    assert mesh.replayed() == mesh.state


def test_an_offline_agent_says_why() -> None:
    mesh = Mesh()
    mesh.register("alice")
    mesh.lose("alice")
    record = mesh.run(GetAgent(name="alice"), OPERATOR)
    assert (record.status, record.offline_reason) == ("offline", "disconnected")
