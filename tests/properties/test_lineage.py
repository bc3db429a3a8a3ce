"""After any sequence of spawning, giving on, ending, crashing and restarting: no path has two owners, no
scope is left to nobody, no child is lost, and what is for the control plane enters no inbox."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
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

from tellwire.core.children.scopes import ancestors, claims_of, overlaps, owner_of
from tellwire.core.children.spawn import ENDINGS
from tellwire.core.context import EndSession, NoteChildEnd, OfferWaiting, ReserveAsk, StartBroker
from tellwire.core.kernel import APPLIERS
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import Audience, MessageQueued
from tellwire.protocol.events.children import (
    ChildConfirmed,
    ChildEnded,
    ChildFailed,
    ChildReported,
    ChildReserved,
    ChildStarted,
    ScopeReleased,
    ScopeSubDelegated,
)
from tellwire.protocol.operations.agents import UpdateAgent
from tellwire.protocol.operations.asking import AskAgent, CancelAsk
from tellwire.protocol.operations.children import SpawnAgent, StopAgent
from tellwire.protocol.operations.peers import MeshPolicy, RegisterPeer, RemovePeer
from tellwire.protocol.operations.scopes import ClaimScope, ReleaseScope, ScopeRule
from tests.unit.family import Family
from tests.unit.mesh import OPERATOR

PATHS = ["/p", "/p/a", "/p/a/x", "/p/a/x/y", "/p/b", "/q"]
PATH = st.sampled_from(PATHS)
RULES = st.builds(ScopeRule, PATH, st.sampled_from(["write", "write", "read"]), st.booleans())
SCOPES = st.none() | st.lists(RULES, max_size=2)
NAMES = st.sampled_from(["k1", "k2", "k3", "k4", "k5", "k6"])
PLACE = st.integers(0, 7)
WAYS = ["turn", "reply", "output", "failure", "cancel"]
LIMITS = Limits(children_max=3, children_all_max=5, child_depth_max=3, claims_max=4, child_up_s=60.0)


class FamilyMachine(RuleBasedStateMachine):
    """Agents that bear, lend, end and die in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh = Family(LIMITS)
        self.turns = itertools.count()
        self.seen = 0
        self.askers: dict[str, str] = {}

    def attempt(self, command: Any, name: str) -> Any:
        try:
            return self.mesh.run(command, self.mesh.caller(name))
        except TellwireError:
            return None

    def pick(self, place: int) -> str:
        names = self.mesh.names()
        return names[place % len(names)]

    def pick_child(self, place: int) -> str:
        children = list(self.mesh.state.children)
        return self.mesh.state.agents[children[place % len(children)]].name

    def has_children(self) -> bool:
        return bool(self.mesh.state.children)

    @initialize()
    def begin(self) -> None:
        for name in ("ann", "bob"):
            self.mesh.register(name, kind="codex")

    # -- children -------------------------------------------------------------------------------------

    @rule(place=PLACE, name=NAMES, scope=SCOPES, listen=st.booleans())
    def spawn(self, place: int, name: str, scope: list[ScopeRule] | None, listen: bool) -> None:
        operation = SpawnAgent(name=name, client="codex", task=f"task {name}", scope=scope, listen=listen)
        if self.attempt(operation, self.pick(place)) is not None:
            self.mesh.alive.discard(f"{name}.1")

    @rule(place=PLACE, name=NAMES, path=PATH)
    def bear(self, place: int, name: str, path: str) -> None:
        """The whole way at once: most of what can go wrong needs several generations."""
        try:
            self.mesh.bear(self.pick(place), name, path)
        except TellwireError:
            return

    @rule(place=PLACE, steps=st.integers(0, 3), client=st.sampled_from(["codex", "command"]))
    def ask(self, place: int, steps: int, client: str) -> None:
        """A question to a fresh agent, which gets so far."""
        key = self.mesh.key(f"q{next(self.turns)}")
        operation = AskAgent(client=client, question="task asked", key=key)
        asked = self.attempt(ReserveAsk(operation), self.pick(place))
        if asked is None:
            return
        for step in (self.mesh.start, self.mesh.connect, self.mesh.up)[:steps]:
            if step == self.mesh.connect:
                self.mesh.connect(asked.name, kind=client)
            else:
                step(asked.name)

    @precondition(has_children)
    @rule(place=PLACE, how=st.sampled_from(WAYS))
    def settle(self, place: int, how: str) -> None:
        """An answer comes in one of its ways, or none does any more; for other children, nothing."""
        name = self.pick_child(place)
        agent, child = self.mesh.agent(name), self.mesh.child(name)
        parent = self.mesh.state.agents.get(child.parent)
        if not child.asked or parent is None:
            return
        if how == "turn":
            self.mesh.turn(name, f"t{next(self.turns)}", "words")
        elif how == "reply" and agent.pending and agent.online:
            self.mesh.send(name, parent.name, "words", re=next(iter(self.mesh.pending(name))))
        elif how == "cancel":
            self.attempt(CancelAsk(key=child.key), parent.name)
        elif child.process:
            self.mesh.alive.discard(child.process)
            code = 0 if how == "output" else 3
            self.mesh.run(NoteChildEnd(agent.id, "exited", "words", code))

    def bear_within(self, place: int, name: str, chance: random.Random) -> None:
        """A child with a part of what its parent has."""
        parent = self.mesh.agent(self.pick(place))
        owned = [
            path for path in PATHS if (found := owner_of(self.mesh.state, path)) and found[0] == parent.id
        ]
        self.bear(place, name, chance.choice(owned or PATHS))

    @precondition(has_children)
    @rule(place=PLACE)
    def go_on(self, place: int) -> None:
        """The next step of a child's coming up."""
        name = self.pick_child(place)
        child, agent = self.mesh.child(name), self.mesh.agent(name)
        if child.status == "reserved":
            self.mesh.start(name)
        elif not agent.online and child.process:
            self.mesh.connect(name, session=f"s-{name}-{next(self.turns)}")
        else:
            self.mesh.up(name)

    @precondition(has_children)
    @rule(place=PLACE, how=st.sampled_from(["asked", "exited", "killed"]))
    def end(self, place: int, how: Any) -> None:
        self.mesh.end(self.pick_child(place), how)

    @precondition(has_children)
    @rule(place=PLACE)
    def die(self, place: int) -> None:
        """A process is gone, and nobody has noticed."""
        self.mesh.kill(self.pick_child(place))

    @precondition(has_children)
    @rule(place=PLACE, by=PLACE)
    def stop(self, place: int, by: int) -> None:
        self.attempt(StopAgent(name=self.pick_child(place)), self.pick(by))

    @rule(passed=st.sampled_from([0.0, 30.0, 5_000.0]))
    def sweep(self, passed: float) -> None:
        self.mesh.pass_time(passed)
        self.mesh.sweep()
        self.nothing_is_left_to_find()

    @rule(passed=st.sampled_from([30.0, 1_000.0]))
    def wait(self, passed: float) -> None:
        """Time goes by, and nobody looks."""
        self.mesh.pass_time(passed)

    @rule(place=PLACE, other=PLACE)
    def go_on_as(self, place: int, other: int) -> None:
        """An agent takes the name of one that has just gone, and what that one had."""
        held = self.rules_held()
        me, heir = self.mesh.agent(self.pick(place)).id, self.mesh.agent(self.pick(other)).id
        if me != heir:
            self.lose(other)
        self.attempt(UpdateAgent(name=self.pick(other)), self.pick(place))
        if me not in self.mesh.state.agents:
            self.askers = {asked: heir if asker == me else asker for asked, asker in self.askers.items()}
        assert self.rules_held() == held, "a scope went with a name"

    def rules_held(self) -> set[ScopeRule]:
        return {claim.rule for claims in self.mesh.state.claims.values() for claim in claims}

    @rule(dead=st.booleans())
    def restart(self, dead: bool) -> None:
        """The broker dies, with its children or without, and begins from the journal."""
        self.mesh.state = self.mesh.replayed()
        if dead:
            self.mesh.alive.clear()
        self.mesh.run(StartBroker("2"))
        self.mesh.sweep(begun=True)
        self.nothing_is_left_to_find()
        assert all(child.process for child in self.mesh.state.children.values()), "reserved for ever"
        for name in ("ann", "bob"):
            if self.mesh.state.find(name) is not None:
                self.mesh.register(name, kind="codex")

    # -- the rest of life -----------------------------------------------------------------------------

    @rule(place=PLACE, rules=st.lists(RULES, min_size=1, max_size=2), for_s=st.sampled_from([20.0, 900.0]))
    def claim(self, place: int, rules: list[ScopeRule], for_s: float) -> None:
        self.attempt(ClaimScope(rules=rules, for_s=for_s), self.pick(place))

    @rule(place=PLACE, paths=st.lists(PATH, max_size=1))
    def release(self, place: int, paths: list[str]) -> None:
        self.attempt(ReleaseScope(paths=paths), self.pick(place))

    @rule(place=PLACE)
    def lose(self, place: int) -> None:
        agent = self.mesh.agent(self.pick(place))
        self.mesh.run(EndSession(agent.id, agent.session))

    @rule(place=PLACE, meant=st.integers(0, 4))
    def forget(self, place: int, meant: int) -> None:
        name = self.pick(place)
        if meant == 0 and len(self.mesh.state.agents) > 1:
            try:
                self.mesh.forget(name)
            except TellwireError:
                assert name == "operator" or self.mesh.agent(name).id in self.mesh.state.children
        elif self.mesh.state.find("ann") is None:
            self.mesh.register("ann", kind="codex")

    @rule(place=PLACE, read=st.booleans(), outcome=st.sampled_from(["ended", "errored"]))
    def turn(self, place: int, read: bool, outcome: str) -> None:
        name = self.pick(place)
        agent = self.mesh.agent(name)
        if read and agent.online:
            self.mesh.run(OfferWaiting(agent.id))
            self.mesh.confirm(name, *self.mesh.leased(name))
        self.mesh.turn(name, f"t{next(self.turns)}", "words", outcome=outcome)

    @rule(place=PLACE, other=PLACE, kind=st.sampled_from([RegisterPeer, RegisterPeer, RemovePeer]))
    def peer(self, place: int, other: int, kind: Any) -> None:
        self.attempt(kind(name=self.pick(other)), self.pick(place))

    @rule(policy=st.sampled_from(["open", "peers"]))
    def decide_policy(self, policy: Any) -> None:
        self.mesh.run(MeshPolicy(group="/project", policy=policy), OPERATOR)

    def nothing_is_left_to_find(self) -> None:
        """After a look: no child without a process that runs, and no claim beyond its time."""
        for child in self.mesh.state.children.values():
            assert not child.process or child.process in self.mesh.alive, "the dead are not noticed"
        for claims in self.mesh.state.claims.values():
            assert all(not claim.until or claim.until > self.mesh.awake for claim in claims)

    # -- what always holds ----------------------------------------------------------------------------

    @invariant()
    def no_path_has_two_writers(self) -> None:
        state = self.mesh.state
        state.awake, state.now = self.mesh.awake, self.mesh.now
        held = [
            (agent, claim.rule)
            for agent in state.claims
            for claim in claims_of(state, agent)
            if claim.rule.access == "write"
        ]
        for (one, first), (two, second) in itertools.combinations(held, 2):
            if one != two and overlaps(first, second):
                related = one in ancestors(state, two) or two in ancestors(state, one)
                assert related, f"{one} and {two} both hold {first} and {second}"
        for path in PATHS:
            found = owner_of(state, path)
            owning = [
                name for name in self.mesh.names() if self.mesh.judge(name, path).reason == "It is yours."
            ]
            assert owning == ([] if found is None else [state.agents[found[0]].name])
            if found is not None:
                assert not found[1].until or found[1].until > self.mesh.awake, "by a claim that is over"
                assert self.mesh.writers(path) == owning, "another one may write there too"

    @invariant()
    def no_scope_is_left_to_nobody(self) -> None:
        state = self.mesh.state
        assert set(state.claims) <= set(state.agents)
        assert all(state.claims.values()), "an empty list of claims"
        for agent, claims in state.claims.items():
            if any(not claim.until for claim in claims):
                assert agent in state.children, "a scope outlived its child"

    @invariant()
    def no_child_is_lost(self) -> None:
        state = self.mesh.state
        for agent, child in state.children.items():
            assert agent in state.agents
            assert child.parent == "" or child.parent in state.agents
            assert agent not in ancestors(state, agent), "its own ancestor"
            if child.parent:
                assert agent in state.children_of[child.parent], "a parent does not know its child"
            if child.status in ("running", "stopping") and not child.task:
                for above in ancestors(state, agent):
                    assert agent in state.children_of[above], "one above was not told"
        for agent, known in state.children_of.items():
            assert agent in state.agents
            assert known
            assert all(agent in ancestors(state, child) for child in known)

    @invariant()
    def peers_are_reciprocal(self) -> None:
        peers = self.mesh.state.peers
        assert all(agent in peers[peer] != agent for agent, known in peers.items() for peer in known)
        assert set(peers) <= set(self.mesh.state.agents)

    @invariant()
    def control_enters_no_inbox(self) -> None:
        new = self.mesh.events[self.seen :]
        self.seen = len(self.mesh.events)
        for seq, event in new:
            if isinstance(event, ChildReserved):
                self.askers[event.agent] = event.parent
            if isinstance(event, ScopeSubDelegated):
                assert event.audience is Audience.CONTROL
                assert event.agent not in self.told_with(seq), "it entered the inbox of one above"
            if isinstance(event, MessageQueued):
                body = self.mesh.stored[seq].body
                known = ("task ", "words", "Your child ", "task of ", "Not delivered", "It expired", "ask-")
                assert body.startswith(known) or "expired" in body or "deliver" in body, body

    def told_with(self, seq: int) -> set[str]:
        """Who got a message in the same commit as event `seq`, but for the task of a child."""
        ends = [batch.seq for batch in self.mesh.batches]
        last = next(end for end in ends if end >= seq)
        first = max((end for end in ends if end < last), default=0)
        batch = [event for at, event in self.mesh.events if first < at <= last]
        return {
            agent
            for event in batch
            if isinstance(event, MessageQueued) and event.kind == "notification"
            for agent in event.recipients
        }

    @invariant()
    def what_is_asked_is_for_one_question(self) -> None:
        """It has nothing, its asker hears of it by its answer only, and an answer ends it."""
        state = self.mesh.state
        for agent, child in state.children.items():
            if child.asked:
                assert child.scoped
                assert agent not in state.claims
                assert child.parent in ("", self.askers[agent]), "one who did not ask waits for its answer"
                for other in state.agents.values():
                    assert child.result not in {*other.pending, *other.leased}, "the answer is mail besides"
                assert not child.result or child.status == "stopping", "it goes on after its answer"
        for agent in state.agents.values():
            assert not agent.name.startswith("ask-") or agent.id in state.children, "forgotten with its end"

    @invariant()
    def a_snapshot_holds_everything(self) -> None:
        assert parse_snapshot(format_snapshot(self.mesh.state)) == self.mesh.state

    def teardown(self) -> None:
        assert self.mesh.replayed() == self.mesh.state, "the journal tells another story"
        self.repeats_change_nothing()
        confirmed: dict[str, bool] = {}
        answered = {event.agent for event in self.mesh.of_type(ChildReported)}
        for _, event in self.mesh.events:
            if isinstance(event, ChildReserved):
                assert event.agent not in confirmed, "one child reserved twice"
                confirmed[event.agent] = False
            elif isinstance(event, ChildConfirmed):
                assert not confirmed[event.agent], "one child came up twice"
                confirmed[event.agent] = True
            elif isinstance(event, ChildFailed | ChildEnded):
                was_up = confirmed.pop(event.agent)
                assert was_up is isinstance(event, ChildEnded) or event.agent in answered
        assert set(confirmed) == set(self.mesh.state.children), "a child went without a word"
        tasks = [
            message
            for message in self.mesh.stored.values()
            if message.kind == "request" and message.body.startswith("task ")
        ]
        assert len(tasks) == len(self.mesh.of_type(ChildConfirmed)), "each task is given once"
        bodies = [message.body for message in self.mesh.stored.values()]
        for how, words in ENDINGS.items():
            told = [body for body in bodies if body.startswith("Your child ") and f" {words}." in body]
            ended = [event for event in self.mesh.of_type(ChildEnded) if event.how == how]
            assert len(told) <= len(ended), "an end was told twice"

    def repeats_change_nothing(self) -> None:
        """Facts about how a child came up, met once more when it is up (AUD-2)."""
        state = parse_snapshot(format_snapshot(self.mesh.state))
        for _, event in self.mesh.events:
            if isinstance(event, ChildReserved | ChildStarted | ChildConfirmed):
                child = state.children.get(event.agent)
                if child is not None and child.status in ("running", "stopping"):
                    APPLIERS[type(event)](state, event)
        assert state == self.mesh.state


@pytest.mark.requirement("PEER-1", "AUD-2", "AUD-3", "CHILD-2", "CHILD-4", "CHILD-6", stage="lineage")
def test_any_life_of_families_keeps_every_promise() -> None:
    run_state_machine_as_test(FamilyMachine, settings=RUN)


RUN = settings(
    max_examples=120,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def act(machine: FamilyMachine, chance: random.Random) -> None:
    """One thing that happens, more often births than deaths."""
    place, name = chance.randrange(8), f"k{chance.randrange(1, 7)}"
    some = [ScopeRule(path) for path in chance.sample(PATHS, 2)]
    deeds: list[tuple[int, Callable[[], object]]] = [
        (20, lambda: machine.bear(place, name, chance.choice(PATHS))),
        (20, lambda: machine.bear_within(place, name, chance)),
        (10, lambda: machine.spawn(place, name, chance.choice([None, [], some]), True)),
        (8, lambda: machine.claim(place, some[:1], 900.0)),
        (4, lambda: machine.release(place, [])),
        (10, lambda: machine.turn(place, True, "ended")),
        (6, lambda: machine.ask(place, chance.randrange(4), chance.choice(["codex", "command"]))),
        (8, lambda: machine.has_children() and machine.settle(place, chance.choice(WAYS))),
        (4, lambda: machine.peer(place, chance.randrange(8), RegisterPeer)),
        (3, lambda: machine.sweep(chance.choice([0.0, 30.0]))),
        (2, lambda: machine.restart(chance.random() < 0.2)),
        (3, lambda: machine.lose(place)),
        (2, lambda: machine.wait(chance.choice([30.0, 1_000.0]))),
        (3, lambda: (machine.claim(0, some[:1], 900.0), machine.go_on_as(0, 1 + place))),
        (2, lambda: machine.forget(place, chance.randrange(5))),
        (8, lambda: machine.has_children() and machine.go_on(place)),
        (5, lambda: machine.has_children() and machine.end(place, chance.choice(["asked", "exited"]))),
        (3, lambda: machine.has_children() and machine.die(place)),
        (3, lambda: machine.has_children() and machine.stop(place, chance.randrange(8))),
        (2, lambda: machine.decide_policy(chance.choice(["open", "peers"]))),
    ]
    ((_, do),) = chance.choices(deeds, [weight for weight, _ in deeds])
    do()


@pytest.mark.requirement("AUD-3", "CHILD-2", "CHILD-4", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_long_day_of_families_keeps_every_promise(seed: int) -> None:
    chance, machine = random.Random(seed), FamilyMachine()
    machine.begin()
    deepest = 0
    for _ in range(400):
        act(machine, chance)
        machine.no_path_has_two_writers()
        machine.no_scope_is_left_to_nobody()
        machine.no_child_is_lost()
        machine.peers_are_reciprocal()
        machine.control_enters_no_inbox()
        machine.what_is_asked_is_for_one_question()
        state = machine.mesh.state
        deepest = max([deepest, *(len(ancestors(state, agent)) for agent in state.children)])
    machine.a_snapshot_holds_everything()
    machine.teardown()
    assert deepest >= 2, "families of three generations"
    happened = {type(event) for _, event in machine.mesh.events}
    assert {ChildEnded, ChildFailed, ScopeSubDelegated, ScopeReleased, ChildReported} <= happened
