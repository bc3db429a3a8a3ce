"""Joins, leaves, severs, session ends, turns and restarts in any order, against a plain model of it all."""

from __future__ import annotations

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

from tellwire.core.context import MarkSilent, StartBroker
from tellwire.core.limits import Limits
from tellwire.core.links.links import ENDED
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.operations.links import AddMember, CloseLink, LeaveLink, ResumeLink
from tellwire.protocol.operations.listeners import Listen
from tests.properties.talk_model import Talk
from tests.unit.linking import Conversation

NAMES = ("ann", "bob", "cat", "dan")
AGENTS = st.sampled_from(NAMES)
PLACES = st.integers(0, 5)
TEXTS = st.sampled_from(["", "ok", "thanks", "a fact", "another", "a third"])
OUTCOMES = st.sampled_from(["ended"] * 5 + ["errored", "interrupted", "waiting"])
SELDOM = st.integers(0, 4).map(lambda number: number == 2)
RUN = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
LIMITS = Limits(link_turns_max=5, link_hops_max=1_000, link_members_max=3, links_max=3)


class LinkMachine(RuleBasedStateMachine):
    """The kernel and the model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Conversation(limits=LIMITS)
        self.model = Talk(LIMITS.link_turns_max)
        self.seen = 0
        self.lives = 0

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.talk.register(name)

    # -- helpers --------------------------------------------------------------------------------------

    def fresh(self) -> list[tuple[str, str, list[str]]]:
        """What crossed since the last look: by whom, on which link, to whom; and that it may."""
        events = self.talk.events[self.seen :]
        self.seen = len(self.talk.events)
        crossed: list[tuple[str, str, list[str]]] = []
        for _, event in events:
            if isinstance(event, MessageQueued):
                assert event.sender not in event.recipients, "the sender heard itself"
                for recipient in event.recipients if event.link else ():
                    agent = self.talk.state.agents[recipient]
                    assert agent.offline_reason not in ENDED or agent.online, "sent to a session that is over"
                if event.link:
                    names = [self.talk.state.agents[each].name for each in event.recipients]
                    crossed.append((event.sender_name, event.link, names))
        return crossed

    def attempt(self, command: Any, name: str) -> Any:
        """Run a command; None if it is refused."""
        try:
            return self.talk.run(command, self.talk.caller(name))
        except TellwireError:
            return None

    def present(self, name: str) -> bool:
        agent = self.talk.agent(name)
        return agent.online or agent.offline_reason not in ENDED

    def pick(self, place: int) -> str:
        keys = list(self.model.links)
        return keys[place % len(keys)]

    def some_links(self) -> bool:
        return bool(self.model.links)

    # -- links ----------------------------------------------------------------------------------------

    @rule(
        opener=AGENTS, others=st.sets(AGENTS, min_size=1, max_size=3), share=st.sampled_from(["all", "link"])
    )
    def open(self, opener: str, others: set[str], share: Any) -> None:
        members = [opener, *sorted(others - {opener})]
        pair = len(members) == 2
        known = [key for key in self.model.of(opener) if self.model.links[key].direct]
        mine = [key for key in known if members[-1] in self.model.links[key].members] if pair else []
        fits = all(self.present(name) and len(self.model.of(name)) < LIMITS.links_max for name in members)
        wanted = opener not in others and 2 <= len(members) <= LIMITS.link_members_max
        try:
            record = self.talk.open(opener, *sorted(others), share=share)
        except TellwireError:
            assert not (wanted and (fits or mine)), "refused without a reason"
            return
        assert wanted
        assert (record.made == "reused") == bool(mine)
        if not mine:
            self.model.open(record.id, members, {opener: share})

    @rule(sender=AGENTS, to=AGENTS)
    def direct(self, sender: str, to: str) -> None:
        known = [key for key in self.model.of(sender) if self.model.links[key].direct]
        mine = next((key for key in known if to in self.model.links[key].members), "")
        try:
            sent = self.talk.direct(sender, to, "direct")
        except TellwireError:
            return
        if sender == to:
            assert sent.status == "refused"
            return
        assert (sent.made, sent.link) == (("reused", mine) if mine else ("created", sent.link))
        if not mine:
            self.model.open(sent.link, [sender, to], {})
        key, others = self.model.cross(sent.link, sender)
        assert self.fresh() == [(sender, key, others)]

    @precondition(some_links)
    @rule(place=PLACES, by=AGENTS, name=AGENTS)
    def add(self, place: int, by: str, name: str) -> None:
        key = self.pick(place)
        link = self.model.links[key]
        done = self.attempt(AddMember(link=key, name=name), by)
        if done is None:
            return
        assert by in link.members
        if name not in link.members:
            assert len(link.members) < LIMITS.link_members_max
            link.members.append(name)
            link.direct = False
            link.spoke.pop(name, None)
            link.words.pop(name, None)
            link.shares.pop(name, None)

    @precondition(some_links)
    @rule(place=PLACES, name=AGENTS)
    def leave(self, place: int, name: str) -> None:
        key = self.pick(place)
        link = self.model.links[key]
        may = link.status != "closed" and name in link.members
        assert (self.attempt(LeaveLink(link=key), name) is not None) == may
        if may:
            self.model.leave(key, name)

    @precondition(some_links)
    @rule(place=PLACES, name=AGENTS, seldom=SELDOM)
    def sever(self, place: int, name: str, seldom: bool) -> None:
        key = self.pick(place)
        link = self.model.links[key]
        if not seldom:
            return
        may = link.status != "closed" and name in link.members
        assert (self.attempt(CloseLink(link=key), name) is not None) == may
        if may:
            self.model.close(key)

    @precondition(some_links)
    @rule(place=PLACES, name=AGENTS)
    def resume(self, place: int, name: str) -> None:
        key = self.pick(place)
        link = self.model.links[key]
        may = link.status != "closed" and name in link.members
        assert (self.attempt(ResumeLink(link=key), name) is not None) == may
        if may and link.status == "paused":
            link.resume()

    # -- talking --------------------------------------------------------------------------------------

    @precondition(some_links)
    @rule(place=PLACES, name=AGENTS)
    def say(self, place: int, name: str) -> None:
        key = self.pick(place)
        link = self.model.links[key]
        may = link.status == "active" and name in link.members
        try:
            self.talk.send(name, f"link:{key}", "said")
            refused = False
        except TellwireError:
            refused = True
        assert refused is not may
        if refused:
            assert self.fresh() == []
            return
        _, others = self.model.cross(key, name)
        assert self.fresh() == [(name, key, others)]

    @rule(name=AGENTS, text=TEXTS, outcome=OUTCOMES, human=SELDOM, checkpoint=SELDOM)
    def turn(self, name: str, text: str, outcome: str, human: bool, checkpoint: bool) -> None:
        if not self.present(name):
            return
        self.fresh()
        self.talk.turn(name, text, outcome=outcome, human=human, checkpoint=checkpoint)
        told = "" if checkpoint else text
        expected = self.model.turn(name, told, outcome, human=human and not checkpoint)
        assert sorted(self.fresh()) == sorted((name, key, others) for key, others in expected)

    @rule(name=AGENTS)
    def read(self, name: str) -> None:
        if self.talk.agent(name).online:
            self.talk.read_all(name)
            self.model.read(name)

    @rule(listener=AGENTS, name=AGENTS)
    def listen(self, listener: str, name: str) -> None:
        self.attempt(Listen(agent=name), listener)

    # -- sessions -------------------------------------------------------------------------------------

    @rule(name=AGENTS, how=st.sampled_from(["leave", "lose"]))
    def end(self, name: str, how: str) -> None:
        if not self.present(name):
            return
        if self.talk.agent(name).offline_reason == "restart":
            how = "lose"  # who is not connected cannot say that it leaves
        getattr(self.talk, how)(name)
        for key in self.model.of(name):
            self.model.leave(key, name)

    @rule(name=AGENTS, new=SELDOM)
    def come_back(self, name: str, new: bool) -> None:
        agent = self.talk.agent(name)
        if agent.online:
            return
        self.lives += 1
        ended = not self.present(name)
        session = f"life {self.lives}" if new or ended else agent.session
        self.talk.register(name, session=session)
        for key in self.model.of(name) if session != agent.id and new else ():
            self.model.leave(key, name)

    @rule(name=AGENTS)
    def fall_silent(self, name: str) -> None:
        self.talk.run(MarkSilent(self.talk.agent(name).id))

    @rule(seldom=SELDOM)
    def restart(self, seldom: bool) -> None:
        if seldom:
            self.talk.state = parse_snapshot(format_snapshot(self.talk.replayed()))
            self.talk.run(StartBroker("0"))

    # -- what always holds ----------------------------------------------------------------------------

    @invariant()
    def kernel_and_model_agree(self) -> None:
        state = self.talk.state
        self.fresh()
        for key, expected in self.model.links.items():
            link = state.links[key]
            here = [state.agents[agent].name for agent in link.here()]
            assert (link.status, link.said) == (expected.status, expected.said)
            if expected.status != "closed":
                assert sorted(here) == sorted(expected.members)
                assert (link.turns, link.direct) == (expected.turns, expected.direct), "budgets are exact"
            assert link.turns <= LIMITS.link_turns_max
        for agent in state.agents.values():
            assert sorted(agent.links) == sorted(self.model.of(agent.name))
            assert len(agent.links) <= LIMITS.links_max
        pairs = [
            frozenset(link.members)
            for link in self.model.links.values()
            if link.direct and link.status != "closed"
        ]
        assert len(pairs) == len(set(pairs)), "two direct links of one pair"

    def teardown(self) -> None:
        assert self.talk.state == self.talk.replayed()


@pytest.mark.requirement("SC-1", "SC-2", "SC-4", "SC-6", "SC-7", "SC-8", "SC-11", stage="links")
def test_any_sequence_of_turns_and_ends_keeps_every_promise_of_links() -> None:
    run_state_machine_as_test(LinkMachine, settings=RUN)
