"""After any sequence of commands: nothing lost, doubled or out of order, and the journal tells it all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from palaver.core.context import (
    ExpireDue,
    ForgetAbsent,
    HandOver,
    MarkAlive,
    MarkSilent,
    StartBroker,
)
from palaver.core.limits import Limits
from palaver.core.state import format_snapshot, parse_snapshot
from palaver.protocol.errors import PalaverError
from palaver.protocol.ids import format_id
from palaver.protocol.operations.agents import UpdateAgent
from palaver.protocol.operations.messages import SendMessage, Sent
from palaver.protocol.operations.topics import Subscribe, Unsubscribe
from tests.properties.world import Ledger
from tests.unit.mesh import Mesh

NAMES = st.sampled_from(["ann", "bob", "cat", "Bob"])
SELDOM = st.integers(0, 5).map(lambda number: number == 3)
TTLS = st.sampled_from([None, 5.0, 500.0])
PLACES = st.integers(0, 5)
LIMITS = Limits(
    window_messages_max=3,
    window_bytes_max=40,
    mailbox_messages_max=6,
    mailbox_bytes_max=120,
    broadcast_unconfirmed_max=3,
    body_bytes_max=50,
    topics_max=2,
    expire_batch_max=2,
    forget_after_s=2_000.0,
    agents_max=6,
)
TEXTS = st.text("xä", max_size=30)
TARGETS = st.one_of(
    NAMES,
    st.just("broadcast"),
    st.sampled_from(["#t", "#u"]),
    st.lists(NAMES, min_size=1, max_size=3),
    st.just("nobody"),
)


class KernelMachine(RuleBasedStateMachine):
    """Agents come, go, send and read in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh = Mesh(LIMITS)
        self.ledger = Ledger(self.mesh)
        self.number = 0
        self.sent: dict[str, tuple[str, SendMessage, Sent]] = {}

    def attempt(self, command: Any, name: str | None = None) -> Any:
        """Run a command; a refusal is an answer too."""
        try:
            caller = self.mesh.caller(name) if name is not None else None
            return self.mesh.run(command, caller) if caller is not None else self.mesh.run(command)
        except PalaverError:
            return None

    def pick(self, place: int) -> str:
        """The name of one of the agents there are."""
        agents = list(self.mesh.state.agents.values())
        return agents[place % len(agents)].name

    def some_agents(self) -> bool:
        return bool(self.mesh.state.agents)

    @initialize()
    def begin(self) -> None:
        """Three agents are there from the start: most of what can go wrong needs mail."""
        for number, name in enumerate(("ann", "bob", "cat")):
            self.mesh.register(name, session=f"s{number}")

    # -- coming and going -----------------------------------------------------------------------------

    @rule(name=NAMES, session=st.integers(0, 3), kind=st.sampled_from(["script", "codex"]))
    def register(self, name: str, session: int, kind: str) -> None:
        try:
            reply = self.mesh.register(name, session=f"s{session}", kind=kind)
        except PalaverError:
            return
        agent = self.mesh.state.agents[reply.id]
        assert agent.online
        assert not agent.leased, "a new session begins with nothing in hand"

    @precondition(some_agents)
    @rule(place=PLACES, how=st.sampled_from(["leave", "lose"]))
    def go(self, place: int, how: str) -> None:
        name = self.pick(place)
        (self.mesh.leave if how == "leave" else self.mesh.lose)(name)
        if not self.mesh.agent(name).online:
            self.ledger.catch_up()
            self.ledger.handed.pop(self.mesh.agent(name).id, None)

    @precondition(some_agents)
    @rule(place=PLACES, kind=st.sampled_from([MarkSilent, MarkAlive]))
    def presence(self, place: int, kind: type[MarkSilent] | type[MarkAlive]) -> None:
        self.attempt(kind(self.mesh.agent(self.pick(place)).id))

    @precondition(some_agents)
    @rule(place=PLACES, meant=SELDOM)
    def forget(self, place: int, meant: bool) -> None:
        if meant:
            self.mesh.forget(self.pick(place))

    @precondition(some_agents)
    @rule(place=PLACES, name=NAMES)
    def rename(self, place: int, name: str) -> None:
        self.attempt(UpdateAgent(name=name), self.pick(place))

    @rule(meant=SELDOM, back=st.booleans())
    def restart(self, meant: bool, back: bool) -> None:
        if not meant:
            return
        sessions = [
            (agent.name, agent.session, agent.kind)
            for agent in self.mesh.state.agents.values()
            if agent.online
        ]
        self.mesh.claims.clear()
        self.mesh.run(StartBroker("x"))
        assert not any(agent.online for agent in self.mesh.state.agents.values())
        for name, session, kind in sessions if back else []:
            assert self.mesh.register(name, session=session, kind=kind).name == name

    @rule(
        seconds=st.sampled_from([1.0, 100.0, 1_000.0]), command=st.sampled_from([ExpireDue(), ForgetAbsent()])
    )
    def wait(self, seconds: float, command: Any) -> None:
        self.mesh.pass_time(seconds)
        self.attempt(command)

    # -- mail -----------------------------------------------------------------------------------------

    @precondition(some_agents)
    @rule(
        place=PLACES,
        to=TARGETS,
        bodies=st.lists(TEXTS, min_size=1, max_size=3),
        ttl_s=TTLS,
        handed=st.booleans(),
    )
    def send(
        self, place: int, to: str | list[str], bodies: list[str], ttl_s: float | None, handed: bool
    ) -> None:
        for body in bodies:
            self.send_one(place, to, body, ttl_s)
        for agent in list(self.mesh.state.agents) if handed else []:
            self.attempt(HandOver(agent))

    def send_one(self, place: int, to: str | list[str], body: str, ttl_s: float | None) -> None:
        self.number += 1
        self.mesh.pass_time(0.001)
        key = self.mesh.key(str(self.number))
        operation = SendMessage(to=to, body=body, ttl_s=ttl_s, key=key, confirm=self.number % 2 == 0)
        name = self.pick(place)
        reply = self.attempt(operation, name)
        if reply is not None and reply.id:
            self.sent[key] = (self.mesh.agent(name).id, operation, reply)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        sender, operation, reply = self.sent[data.draw(st.sampled_from(sorted(self.sent)))]
        if sender not in self.mesh.state.agents:
            return
        count = len(self.mesh.events)
        again = self.mesh.run(operation, self.mesh.caller(self.mesh.state.agents[sender].name))
        assert (again.id, again.status) == (reply.id, reply.status)
        assert len(self.mesh.events) == count, "a repeat had an effect"

    @precondition(some_agents)
    @rule(place=PLACES)
    def hand_over(self, place: int) -> None:
        self.attempt(HandOver(self.mesh.agent(self.pick(place)).id))

    @precondition(some_agents)
    @rule(place=PLACES, count=st.integers(1, 3), how=st.sampled_from(["claim", "confirm"]))
    def take(self, place: int, count: int, how: str) -> None:
        name = self.pick(place)
        held = self.mesh.leased(name)[:count]
        (self.mesh.claim if how == "claim" else self.mesh.confirm)(name, *held)

    @precondition(some_agents)
    @rule(place=PLACES)
    def reply(self, place: int) -> None:
        name = self.pick(place)
        open_mail = [*self.mesh.leased(name), *self.mesh.pending(name)]
        if not open_mail:
            return
        seq = min([*self.mesh.agent(name).leased, *self.mesh.agent(name).pending])
        sender = self.mesh.state.agents.get(self.mesh.stored[seq].sender)
        if sender is not None:
            self.attempt(SendMessage(to=sender.name, body="re", re=format_id("m", seq)), name)

    @precondition(some_agents)
    @rule(
        place=PLACES, topic=st.sampled_from(["t", "#U", "v"]), kind=st.sampled_from([Subscribe, Unsubscribe])
    )
    def topic(self, place: int, topic: str, kind: type[Subscribe] | type[Unsubscribe]) -> None:
        self.attempt(kind(topic=topic), self.pick(place))

    # -- what always holds ----------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_doubled_or_out_of_order(self) -> None:
        self.ledger.check()

    @invariant()
    def a_snapshot_holds_everything(self) -> None:
        assert parse_snapshot(format_snapshot(self.mesh.state)) == self.mesh.state

    def teardown(self) -> None:
        assert self.mesh.replayed() == self.mesh.state, "the journal tells another story"


@pytest.mark.requirement("AUD-2", "NET-4", "NET-6", "REC-3", "SEC-3")
def test_any_sequence_of_commands_keeps_every_promise() -> None:
    run_state_machine_as_test(KernelMachine, settings=RUN)


def walk(seed: int, steps: int) -> KernelMachine:
    """A long day of busy agents: hypothesis finds short sequences well, this goes far."""
    chance, machine = random.Random(seed), KernelMachine()
    machine.begin()
    for _ in range(steps):
        place = chance.randrange(6)
        match chance.choices(range(9), [6, 30, 10, 20, 6, 6, 3, 2, 1])[0]:
            case 0:
                machine.register(chance.choice(["ann", "bob", "cat"]), chance.randrange(4), "script")
            case 1:
                to = chance.choice(["ann", "bob", "cat", "broadcast", "#t", ["ann", "cat"]])
                bodies = ["x" * chance.randrange(25)] * chance.randrange(1, 4)
                machine.send(place, to, bodies, chance.choice([None, 5.0, 500.0]), chance.random() < 0.7)
            case 2:
                machine.take(place, chance.randrange(1, 4), "claim")
            case 3:
                machine.take(place, chance.randrange(1, 4), "confirm")
            case 4:
                machine.reply(place)
            case 5:
                machine.go(place, chance.choice(["leave", "lose"]))
            case 6:
                machine.presence(place, chance.choice([MarkSilent, MarkAlive]))
            case 7:
                machine.wait(chance.choice([1.0, 100.0]), ExpireDue())
            case _:
                machine.restart(True, True)
        machine.topic(place, "t", Subscribe)
        machine.nothing_is_lost_doubled_or_out_of_order()
    return machine


@pytest.mark.requirement("AUD-2", "NET-4", "NET-6", "REC-3")
@pytest.mark.parametrize("seed", range(20))
def test_a_long_day_of_busy_agents_keeps_every_promise(seed: int) -> None:
    machine = walk(seed, 300)
    machine.restart(True, True)
    machine.a_snapshot_holds_everything()
    machine.teardown()
    seen = {type(event).__name__ for _, event in machine.mesh.events}
    assert {"MessagesDelivered", "MessagesRead", "MessageAnswered", "SessionStarted", "BrokerStarted"} <= seen


RUN = settings(
    max_examples=300,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
