"""What agents and people see of other machines, with two real engines over a wire in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller, TakeItems
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import parse_message_id as message_seq
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
from tellwire.protocol.parcels import (
    Message,
    ReceiptRow,
    Receipts,
    Refused,
    RemoteAgent,
    Roster,
    Unknown,
    Withdraw,
)
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


# -- a machine that does not behave -----------------------------------------------------------------------


def take(host: Host, there: Host, *items: Any) -> None:
    """Have a broker take items as the next ones of another machine's lane."""
    assert host.life is not None
    known = host.life.state.machines[there.id]
    command = TakeItems(there.id, known.peer_inc, known.taken + 1, known.taken_mark, list(items))
    before = known.taken
    host.life.engine.submit_own(command)
    host.turn()
    assert host.life.state.machines[there.id].taken == before + len(items), "the lane goes on"


def told(there: str, name: str, **fields: Any) -> RemoteAgent:
    return RemoteAgent(there, name, "codex", "project", **fields)


TAG = b"12345678"


@pytest.mark.requirement("FED-2", stage="federation")
def test_a_machine_speaks_for_its_own_agents_only(desk: Host, laptop: Host, alice: Program) -> None:
    assert desk.life is not None
    ours = desk.life.state.find("desk-0")
    other = desk.life.state.find("desk-1")
    assert ours is not None
    assert other is not None
    local = ask(desk, SendMessage(to="desk-1", body="between us"), alice)
    take(desk, laptop, Message(1, TAG, 5, told(ours.id, "desk-1"), [other.id], "as you", 60.0))
    take(desk, laptop, Receipts(1, TAG, [ReceiptRow(message_seq(local.id), other.id, "read", "confirm")]))
    take(desk, laptop, Refused(1, TAG, message_seq(local.id), other.id, "unknown_agent"))
    assert state_of(alice, local) == "delivered", "it has no word in what passes between agents here"
    desk.programs[1].confirm(9)
    senders = [each.sender for each in desk.programs[1].seen]
    assert senders[0] == "desk-0"
    assert all(each.startswith("laptop:") for each in senders[1:])


@pytest.mark.requirement("SEC-3")
def test_whatever_a_machine_says_its_lane_goes_on_and_nothing_bad_is_kept(desk: Host, laptop: Host) -> None:
    assert desk.life is not None
    ours = desk.life.state.find("desk-0")
    assert ours is not None
    agents = len(desk.life.state.agents)
    good = told("a3", "laptop-0")
    take(
        desk,
        laptop,
        Message(1, TAG, 1, told("a9", "not a name"), [ours.id], "x", 60.0),
        Message(1, TAG, 2, told("a9", "broadcast"), [ours.id], "x", 60.0),
        Message(1, TAG, 3, good, [], "x", 60.0),
        Message(1, TAG, 4, good, ["a99", "nobody"], "x", 60.0),
        Message(1, TAG, 5, good, [ours.id], "x" * 100_000, 60.0),
        Message(1, TAG, 6, good, [ours.id], "{", 60.0, json=True),
        Message(1, TAG, 7, good, [ours.id], "x", 60.0, mode="shout"),
        Message(1, TAG, 8, good, [ours.id], "x", 60.0, context="[" * 5_000),
    )
    take(desk, laptop, Withdraw(1, TAG, [1, 2, 10**12], "nobody"))
    take(desk, laptop, Receipts(1, TAG, [ReceiptRow(10**15, "a3", "read"), ReceiptRow(1, "?", "what")]))
    take(desk, laptop, Unknown(0, TAG, "dance"))
    assert len(desk.life.state.agents) == agents
    assert not any(each.sender.startswith("laptop:") for each in desk.programs[0].offered.values())
    take(desk, laptop, Roster(1, TAG, 9, [told(f"b{number}", f"bot-{number}") for number in range(900)]))
    assert len(desk.life.state.machines[laptop.id].agents) <= 500


def test_a_message_to_a_full_inbox_is_refused_for_that_agent_only(
    world: World, desk: Host, laptop: Host, bob: Program
) -> None:
    assert desk.life is not None
    desk.programs[0].hang_up()
    world.run(1.0)
    ours = desk.life.state.find("desk-0")
    assert ours is not None
    ours.pending_bytes = 64 << 20
    sent = send(bob, ["desk:desk-0", "desk:desk-1"])
    world.run(RUN_S)
    said = ask(laptop, MessageStatus(id=sent.id), bob)
    assert [(each.name, each.state) for each in said.recipients] == [
        ("desk:desk-0", "denied"),
        ("desk:desk-1", "delivered"),
    ]
