"""After any sequence of commands: nothing lost, doubled or out of order, and the journal tells it all."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tellwire.core.context import ExpireDue, MarkAlive, MarkSilent
from tellwire.protocol.events import MessagesDelivered, SessionStarted
from tellwire.protocol.operations.topics import Subscribe
from tests.properties.machine import KernelMachine


@pytest.mark.requirement("REC-2", "REC-3", "REC-4", stage="mcp")
@pytest.mark.requirement("AUD-2", "NET-4", "NET-6", "REC-3", "SEC-3")
def test_any_sequence_of_commands_keeps_every_promise() -> None:
    run_state_machine_as_test(KernelMachine, settings=RUN)


def send_some(machine: KernelMachine, chance: random.Random, place: int) -> None:
    to = chance.choice(["ann", "bob", "cat", "broadcast", "#t", ["ann", "cat"]])
    bodies = ["x" * chance.randrange(25)] * chance.randrange(1, 4)
    machine.send(place, to, bodies, chance.choice([None, 5.0, 500.0]), chance.random() < 0.7)


def take_over(machine: KernelMachine, chance: random.Random, place: int) -> None:
    """One reads all its mail and goes on as another who has just gone."""
    name, other = machine.pick(place), machine.pick(chance.randrange(6))
    machine.mesh.confirm(name, *machine.mesh.leased(name), *machine.mesh.pending(name))
    machine.go([agent.name for agent in machine.mesh.state.agents.values()].index(other), "lose")
    machine.rename(place, other)


def fetch_in_vain(machine: KernelMachine, chance: random.Random, place: int) -> None:
    machine.fetch(place, chance.randrange(1, 4), 0)
    machine.conclude(place, 0, "cancel")


def come(machine: KernelMachine, chance: random.Random, _place: int) -> None:
    number = chance.randrange(4)
    machine.register(("ann", "bob", "cat", "cat")[number], number, "script")


ACTIONS: list[tuple[int, Callable[[KernelMachine, random.Random, int], None]]] = [
    (12, come),
    (3, lambda m, c, _: m.register(c.choice(["ann", "bob", "cat"]), c.randrange(4), "script")),
    (25, send_some),
    (10, lambda m, c, place: m.take(place, c.randrange(1, 4), "claim")),
    (12, lambda m, c, place: m.take(place, c.randrange(1, 4), "confirm")),
    (6, lambda m, _, place: m.reply(place)),
    (6, lambda m, c, place: m.go(place, c.choice(["leave", "lose"]))),
    (3, lambda m, c, place: m.presence(place, c.choice([MarkSilent, MarkAlive]))),
    (2, lambda m, c, _: m.wait(c.choice([1.0, 100.0]), ExpireDue())),
    (2, lambda m, _, __: m.restart(True, True)),
    (25, lambda m, c, place: m.fetch(place, c.randrange(1, 4), c.choice([0, 90, 200]))),
    (4, lambda m, c, place: m.fetch_again(place, c.randrange(3))),
    (3, lambda m, c, place: m.fetch_one(place, c.randrange(6), c.choice([7, 260]))),
    (15, lambda m, c, place: m.conclude(place, c.randrange(3), c.choice(["note", "all", "foreign"]))),
    (8, fetch_in_vain),
    (3, take_over),
]


def walk(seed: int, steps: int) -> KernelMachine:
    """A long day of busy agents: hypothesis finds short sequences well, this goes far."""
    chance, machine = random.Random(seed), KernelMachine()
    machine.begin()
    weights = [weight for weight, _ in ACTIONS]
    for _ in range(steps):
        place = chance.randrange(6)
        _, act = chance.choices(ACTIONS, weights)[0]
        act(machine, chance, place)
        machine.topic(place, "t", Subscribe)
        machine.nothing_is_lost_doubled_or_out_of_order()
    return machine


@pytest.mark.requirement("REC-3", stage="mcp")
@pytest.mark.requirement("AUD-2", "NET-4", "NET-6", "REC-3")
@pytest.mark.parametrize("seed", range(20))
def test_a_long_day_of_busy_agents_keeps_every_promise(seed: int) -> None:
    machine = walk(seed, 500)
    machine.restart(True, True)
    machine.a_snapshot_holds_everything()
    machine.teardown()
    seen = {type(event).__name__ for _, event in machine.mesh.events}
    assert {"MessagesDelivered", "MessagesRead", "MessageAnswered", "SessionStarted", "BrokerStarted"} <= seen
    assert {"MessagesReturned", "AgentForgotten"} <= seen
    assert len([event for event in machine.mesh.of_type(MessagesDelivered) if event.call]) > 10
    assert any(event.keeps for event in machine.mesh.of_type(SessionStarted))
    assert any(event.was for event in machine.mesh.of_type(SessionStarted))


RUN = settings(
    max_examples=300,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
