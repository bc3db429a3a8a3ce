"""What agents and people see of other machines, with two real engines over a wire in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import AgentList, GetAgent, ListAgents, MuteAgent, UnregisterAgent
from tellwire.protocol.operations.links import OpenLink
from tellwire.protocol.operations.listeners import Listen
from tellwire.protocol.operations.machines import (
    ListMachines,
    MachineList,
    MachineRecord,
    PairMachine,
    RemoveMachine,
    RenameMachine,
    SetTrust,
)
from tellwire.protocol.operations.messages import MessageStatus, MessageStatusReply, SendMessage, Sent
from tellwire.protocol.operations.peers import RegisterPeer
from tests.simulation.broker import Port
from tests.simulation.machines_world import OPERATOR, Host, Program, World

RUN_S = 5.0


def ask(host: Host, operation: AnyOperation, program: Program | None = None) -> Any:
    """What a broker answers to an agent, or to the operator."""
    assert host.life is not None
    port = Port(host.life)
    port.caller = OPERATOR
    if program is not None:
        agent = host.life.state.find(program.name)
        assert agent is not None
        port.caller = Caller(kind="agent", agent=agent.id)
    if operation.reads:
        host.life.engine.answer_now(port, 1, operation)
    else:
        host.life.engine.submit(port, 1, operation)
        host.turn()
    ((_, said),) = port.heard
    return said


def refusal(host: Host, operation: AnyOperation, program: Program | None = None) -> str:
    said = ask(host, operation, program)
    assert isinstance(said, TellwireError), said
    return said.code


def send(program: Program, to: str | list[str], body: str = "hello", **fields: Any) -> Sent:
    said = ask(program.host, SendMessage(to=to, body=body, **fields), program)
    assert isinstance(said, Sent), said
    return said


def state_of(program: Program, sent: Sent) -> str:
    said = ask(program.host, MessageStatus(id=sent.id), program)
    assert isinstance(said, MessageStatusReply), said
    return said.recipients[0].state


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def desk(world: World) -> Host:
    return world.hosts[0]


@pytest.fixture
def laptop(world: World) -> Host:
    return world.hosts[1]


@pytest.fixture
def alice(desk: Host) -> Program:
    return desk.programs[0]


@pytest.fixture
def bob(laptop: Host) -> Program:
    return laptop.programs[0]


BOB = "laptop:laptop-0"


# -- messages and receipts --------------------------------------------------------------------------------


@pytest.mark.requirement("NET-10", stage="federation")
def test_a_message_goes_from_queued_to_answered(world: World, alice: Program, bob: Program) -> None:
    bob.hang_up()
    world.run(RUN_S)
    sent = send(alice, BOB)
    assert sent.status == "queued"
    assert state_of(alice, sent) == "pending"
    world.run(RUN_S)
    assert state_of(alice, sent) == "received"
    assert bob.host.life is not None
    bob.connect(bob.host.life)
    world.run(RUN_S)
    assert state_of(alice, sent) == "delivered"
    bob.confirm(1)
    world.run(RUN_S)
    assert state_of(alice, sent) == "read"
    (got,) = bob.seen
    assert got.sender == "desk:desk-0"
    reply = send(bob, got.sender, "yes", re=got.id)
    assert not reply.note, "the message that it answers is known"
    world.run(RUN_S)
    assert state_of(alice, sent) == "answered"
    alice.confirm(1)
    (answer,) = alice.seen
    assert (answer.body, answer.re, answer.sender) == ("yes", sent.id, BOB)


@pytest.mark.requirement("FED-3", stage="federation")
def test_a_send_needs_no_network(world: World, alice: Program, bob: Program) -> None:
    (wire,) = world.wires
    wire.is_up = False
    for end in wire.ends.values():
        end.note_up()
    world.run(200.0)
    sent = send(alice, BOB)
    assert sent.status == "queued"
    assert "last heard" in sent.note
    assert "Do not resend" in sent.note
    world.run(RUN_S)
    assert state_of(alice, sent) == "pending"
    world.heal()
    world.run(RUN_S)
    bob.confirm(9)
    assert [record.body for record in bob.seen] == ["hello"]


def test_a_send_to_several_reaches_agents_here_and_there(world: World, alice: Program, bob: Program) -> None:
    sent = send(alice, ["desk-1", BOB])
    assert sent.status == "sent"
    assert {each.name: each.status for each in sent.recipients} == {"desk-1": "received", BOB: "queued"}
    world.run(RUN_S)
    bob.confirm(1)
    alice.host.programs[1].confirm(1)
    assert [record.body for record in (*bob.seen, *alice.host.programs[1].seen)] == ["hello", "hello"]


def test_what_is_not_confirmed_in_time_is_withdrawn_and_the_sender_told(
    world: World, alice: Program, bob: Program
) -> None:
    (wire,) = world.wires
    wire.is_up = False
    for end in wire.ends.values():
        end.note_up()
    sent = send(alice, BOB, ttl_s=2.0)
    world.run(4.0)
    alice.host.expire()
    world.run(1.0)
    alice.confirm(1)
    assert "it may still arrive" in str(alice.seen[0].body)
    assert state_of(alice, sent) == "pending", "nobody knows yet"
    world.heal()
    world.run(RUN_S)
    assert state_of(alice, sent) == "expired"
    bob.confirm(9)
    assert not bob.seen


def test_a_message_to_an_agent_that_is_gone_is_denied_and_the_sender_told(
    world: World, alice: Program, bob: Program
) -> None:
    (wire,) = world.wires
    wire.is_up = False
    sent = send(alice, BOB)
    ask(bob.host, UnregisterAgent(name="laptop-0", forget=True))
    bob.host.programs.remove(bob)
    world.heal()
    world.run(RUN_S)
    assert state_of(alice, sent) == "denied"
    alice.confirm(1)
    assert "Not delivered to laptop:laptop-0" in str(alice.seen[0].body)


# -- names and listings -----------------------------------------------------------------------------------


@pytest.mark.requirement("NET-1", stage="federation")
def test_a_listing_names_agents_as_a_send_takes_them(world: World, desk: Host, alice: Program) -> None:
    listed = ask(desk, ListAgents(), alice)
    assert isinstance(listed, AgentList)
    there = {each.name: (each.machine, each.status) for each in listed.agents if each.machine}
    assert there == {BOB: ("laptop", "online"), "laptop:laptop-1": ("laptop", "online")}
    for name in there:
        assert send(alice, name).status == "queued"
    world.hosts[1].crash()
    for _ in range(250):
        world.step(0.5)
    listed = ask(desk, ListAgents(), alice)
    assert {each.status for each in listed.agents if each.machine} == {"unreachable"}


def test_near_names_on_other_machines_are_suggested(alice: Program) -> None:
    sent = send(alice, "laptop-0")
    assert sent.status == "denied"
    assert BOB in sent.suggestions
    assert send(alice, "laptop:laptop-9").suggestions
    assert send(alice, "nowhere:bob").status == "denied"
    assert "no machine" in send(alice, "nowhere:bob").note


def test_ones_own_label_means_the_agent_here(world: World, alice: Program) -> None:
    assert send(alice, "desk:desk-1").status == "received"
    assert send(alice, "desk:desk-0").status == "refused"


def test_a_former_label_still_reaches_it(world: World, desk: Host, alice: Program, bob: Program) -> None:
    record = ask(desk, RenameMachine(machine="laptop", label="travel"))
    assert isinstance(record, MachineRecord)
    assert (record.label, record.former) == ("travel", ["laptop"])
    assert send(alice, BOB).status == "queued"
    assert send(alice, "travel:laptop-0", "again").status == "queued"
    world.run(RUN_S)
    bob.confirm(9)
    assert [each.body for each in bob.seen] == ["hello", "again"]


@pytest.mark.parametrize(
    "operation",
    [
        OpenLink(members=[BOB]),
        Listen(agent=BOB),
        RegisterPeer(name=BOB),
        SendMessage(to=BOB, body="x", direct=True),
        SendMessage(to=BOB, body="x", listen=True),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_what_does_not_cross_machines_is_refused(desk: Host, alice: Program, operation: AnyOperation) -> None:
    assert refusal(desk, operation, alice) == "not_across_machines"
    assert refusal(desk, MuteAgent(name=BOB)) == "not_across_machines"


# -- pairing ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("FED-4", stage="federation")
def test_a_removed_machine_is_out_at_once_and_stays_out(
    world: World, desk: Host, laptop: Host, alice: Program, bob: Program
) -> None:
    (wire,) = world.wires
    wire.is_up = False
    sent = send(alice, BOB)
    record = ask(desk, RemoveMachine(machine="laptop"))
    assert record.status == "removed"
    assert state_of(alice, sent) == "denied"
    assert send(alice, BOB).status == "denied"
    assert "was removed" in send(alice, BOB).note
    send(bob, "desk:desk-0", "I am still here")
    world.heal()
    world.run(RUN_S)
    alice.confirm(9)
    assert [str(each.body) for each in alice.seen if each.sender != "tellwire"] == []
    again = PairMachine(card=laptop.card, here=desk.card, carriers=["memory"])
    assert refusal(desk, again) == "machine_removed"
    listed = ask(desk, ListMachines())
    assert isinstance(listed, MachineList)
    assert [(each.label, each.status) for each in listed.machines] == [("laptop", "removed")]


def test_a_label_that_is_taken_is_refused_with_another(world: World, desk: Host) -> None:
    twin = Host("laptop", world.random)
    twin.card = type(twin.card)(sign_key=b"x" * 32, label="laptop", boxes=twin.card.boxes)
    said = ask(desk, PairMachine(card=twin.card, here=desk.card))
    assert isinstance(said, TellwireError)
    assert (said.code, "laptop-2" in said.advice) == ("label_taken", True)
    assert refusal(desk, PairMachine(card=twin.card, here=desk.card, label="desk")) == "label_taken"
    assert refusal(desk, RenameMachine(machine="laptop", label="id")) == "name_invalid"
    assert refusal(desk, RenameMachine(machine="nobody", label="x")) == "unknown_machine"
    assert refusal(desk, PairMachine(card=desk.card, here=desk.card)) == "bad_request"


@pytest.mark.requirement("SEC-1")
def test_only_the_operator_changes_machines(desk: Host, laptop: Host, alice: Program) -> None:
    for operation in (
        PairMachine(card=laptop.card, here=desk.card),
        RemoveMachine(machine="laptop"),
        RenameMachine(machine="laptop", label="mine"),
        SetTrust(machine="laptop", trust="own"),
    ):
        assert refusal(desk, operation, alice) == "forbidden"


def test_a_team_machine_sees_and_reaches_only_what_is_shared(
    world: World, desk: Host, laptop: Host, bob: Program
) -> None:
    ask(desk, SetTrust(machine="laptop", trust="team"))
    world.run(RUN_S)
    assert send(bob, "desk:desk-0").status == "denied", "it is not told of it any more"
    assert refusal(laptop, GetAgent(name="desk:desk-0"), bob) == "unknown_agent"
    ask(desk, SetTrust(machine="laptop", share=["/project"]))
    world.run(RUN_S)
    assert send(bob, "desk:desk-0").status == "queued"
