"""Sends, woken turns and late evidence in any order: no chain of wakes is longer than the bound (WAKE-3).

What a human or the operator began is never held back, whatever it was given on the way.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tellwire.core.context import Caller, Context, OfferWaiting
from tellwire.core.limits import Limits
from tellwire.core.mail.notices import held_back
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.listeners import Listen
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR

NAMES = ("ann", "bob", "cat")
AGENTS = st.sampled_from(NAMES)
LISTENERS: dict[str, str] = dict(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))
"""Who hears of the end of each agent's turns."""
BOUND = 2
FRESH = -1
RUN = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class Talk(Conversation):
    """A mesh that knows whose turn a human began."""

    def __init__(self) -> None:
        self.prompted: set[str] = set()
        super().__init__(*NAMES, limits=Limits(chain_turns_max=BOUND))

    def context(self, caller: Caller, group: str = "/project") -> Context:
        """With what the hooks would tell."""
        context = super().context(caller, group)
        context.prompted = lambda agent: self.state.agents[agent].name in self.prompted
        return context


class ChainMachine(RuleBasedStateMachine):
    """The kernel, and beside it for each message the longest chain of woken turns that led to it."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Talk()
        self.depth: dict[int, int] = {}
        """Of each message: so many woken turns in a row led to it; one less for the end of a human's turn."""
        self.fresh: set[int] = set()
        """Messages of the operator: a turn that gets one is new work."""
        self.turns: dict[str, int] = {}
        """The agents in a turn, and the same of that turn; `FRESH` if a human or the operator began it."""

    @initialize()
    def begin(self) -> None:
        self.talk.run(RegisterAgent(name="", session="s-operator", kind="operator"), OPERATOR)
        for name in NAMES:
            self.talk.turn(name, "Ready.", human=True)
        for name, listener in LISTENERS.items():
            self.talk.run(Listen(agent=name), self.talk.caller(listener))

    def wakeable(self) -> list[str]:
        agents = (self.talk.agent(name) for name in NAMES if name not in self.turns)
        return [agent.name for agent in agents if not held_back(agent, self.talk.now)]

    def in_turn(self) -> bool:
        return bool(self.turns)

    # -- turns ----------------------------------------------------------------------------------------

    @precondition(in_turn)
    @rule(to=st.lists(AGENTS, min_size=1, max_size=2, unique=True), place=st.integers(0, 2))
    def send(self, to: list[str], place: int) -> None:
        self.send_as(list(self.turns)[place % len(self.turns)], to)

    def send_as(self, sender: str, to: list[str]) -> None:
        others = [name for name in to if name != sender]
        if not others:
            return
        sent = self.talk.send(sender, others[0] if len(others) == 1 else others)
        self.depth[parse_message_id(sent.id)] = max(0, self.turns[sender])
        if self.turns[sender] == FRESH:
            assert "will not be woken" not in sent.why + sent.note, "held, though the turn began afresh"

    @precondition(lambda self: bool(self.wakeable()))
    @rule(place=st.integers(0, 2), confirms=st.booleans())
    def wake(self, place: int, confirms: bool) -> None:
        names = self.wakeable()
        name = names[place % len(names)]
        self.turns[name] = 0
        self.take(name, confirms=confirms)

    @precondition(in_turn)
    @rule(place=st.integers(0, 2), confirms=st.booleans())
    def hear(self, place: int, confirms: bool) -> None:
        """What waits comes along in the turn under way."""
        self.take(list(self.turns)[place % len(self.turns)], confirms=confirms)

    def take(self, name: str, *, confirms: bool) -> None:
        pending = self.talk.agent(name).pending
        led = [
            self.depth[seq] + 1 for seq, receipt in pending.items() if seq in self.depth and not receipt.weak
        ]
        if self.fresh & pending.keys():
            self.turns[name] = FRESH
        if self.turns[name] != FRESH:
            self.turns[name] = max(self.turns[name], *led) if led else self.turns[name]
            assert self.turns[name] <= BOUND, "woken beyond the bound"
        self.talk.run(OfferWaiting(self.talk.agent(name).id))
        if confirms:
            self.confirm(name)

    @precondition(lambda self: bool(self.wakeable()))
    @rule(place=st.integers(0, 2), to=AGENTS, confirms=st.booleans(), rests=st.booleans())
    def answer(self, place: int, to: str, confirms: bool, rests: bool) -> None:
        """The usual course, so that chains grow: woken, it writes to somebody, and rests."""
        names = self.wakeable()
        name = names[place % len(names)]
        self.wake(place, confirms)
        self.send_as(name, [to])
        if rests:
            self.end_of(name)

    @rule(name=AGENTS)
    def prompt(self, name: str) -> None:
        """A human begins a turn; what waits comes along."""
        if name in self.turns:
            return
        self.turns[name] = FRESH
        self.talk.prompted.add(name)
        self.take(name, confirms=True)

    @rule(name=AGENTS, to=AGENTS)
    def ask(self, name: str, to: str) -> None:
        """The usual course of a human: a prompt, of which a message comes, and rest."""
        if name not in self.turns:
            self.prompt(name)
            self.send_as(name, [to])
            self.end_of(name)

    @precondition(in_turn)
    @rule(place=st.integers(0, 2), outcome=st.sampled_from(["ended", "ended", "interrupted"]))
    def end(self, place: int, outcome: Any) -> None:
        self.end_of(list(self.turns)[place % len(self.turns)], outcome)

    def end_of(self, name: str, outcome: Any = "ended") -> None:
        """Who listens hears of it; what a human's turn said wakes it, whatever that turn had been given."""
        human = name in self.talk.prompted
        turn = self.turns.pop(name)
        self.talk.prompted.discard(name)  # it is over when it is reported
        pending = self.talk.agent(LISTENERS[name]).pending
        before = set(pending)
        self.talk.turn(name, outcome=outcome, human=human)
        told = pending.keys() - before
        self.depth.update(dict.fromkeys(told, FRESH if human else max(0, turn)))
        if human:
            assert any(not pending[seq].weak for seq in told), "who listens to a human's turn sleeps on"

    # -- what else happens ----------------------------------------------------------------------------

    @rule(name=AGENTS)
    def order(self, name: str) -> None:
        """The operator writes: new work."""
        self.fresh.add(parse_message_id(self.talk.send("operator", name).id))
        assert not held_back(self.talk.agent(name), self.talk.now), "held, though the operator wrote"

    @rule(name=AGENTS)
    def confirm(self, name: str) -> None:
        """The transcript shows it, be it late."""
        leased = self.talk.leased(name)
        if leased:
            self.talk.confirm(name, *leased)

    @rule()
    def restart(self) -> None:
        """The next broker knows what the journal has, and a snapshot of that."""
        self.talk.state = parse_snapshot(format_snapshot(self.talk.replayed()))


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_no_chain_of_wakes_is_longer_than_the_bound() -> None:
    run_state_machine_as_test(ChainMachine, settings=RUN)
