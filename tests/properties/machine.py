"""Agents that come, go, send, read and fetch in any order: the rules of a hypothesis state machine."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tellwire.core.context import (
    Caller,
    ExpireDue,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    OfferWaiting,
    StartBroker,
)
from tellwire.core.limits import Limits
from tellwire.core.state import Agent, format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_message_id
from tellwire.protocol.operations.agents import UpdateAgent
from tellwire.protocol.operations.messages import SendMessage, Sent
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe
from tests.properties.world import PULLING, Ledger
from tests.unit.mesh import OPERATOR, Mesh

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
    take_chars_max=260,
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
        self.fetches: dict[tuple[str, str], dict[str, list[str]]] = {}
        """Of each agent's session: by its calls, what they were answered with."""

    def attempt(self, command: Any, name: str | None = None, caller: Caller | None = None) -> Any:
        """Run a command; a refusal is an answer too."""
        try:
            caller = self.mesh.caller(name) if name is not None else caller
            return self.mesh.run(command, caller) if caller is not None else self.mesh.run(command)
        except TellwireError:
            return None

    def pick(self, place: int) -> str:
        """The name of one of the agents there are; the operator has no session to be played."""
        names = self.names()
        return names[place % len(names)]

    def names(self) -> list[str]:
        return [agent.name for agent in self.mesh.state.agents.values() if agent.name != "operator"]

    def some_agents(self) -> bool:
        return bool(self.names())

    @initialize()
    def begin(self) -> None:
        """Three agents are there from the start: most of what can go wrong needs mail."""
        for number, name in enumerate(("ann", "bob", "cat")):
            self.mesh.register(name, session=f"s{number}", pulls=f"s{number}" in PULLING)

    # -- coming and going -----------------------------------------------------------------------------

    @rule(name=NAMES, session=st.integers(0, 3), kind=st.sampled_from(["script", "codex"]))
    def register(self, name: str, session: int, kind: str) -> None:
        word = f"s{session}"
        before = {agent.id: (agent.session, list(agent.leased)) for agent in self.mesh.state.agents.values()}
        try:
            reply = self.mesh.register(name, session=word, kind=kind, pulls=word in PULLING)
        except TellwireError:
            return
        agent = self.mesh.state.agents[reply.id]
        assert agent.online
        earlier, held = before.get(agent.id, ("", []))
        if word in PULLING and earlier == word:
            assert list(agent.leased) == held, "a session that comes back goes on with what it had"
        else:
            assert not agent.leased, "a new session begins with nothing in hand"
            self.fetches.pop((agent.id, word), None)

    @precondition(some_agents)
    @rule(place=PLACES, how=st.sampled_from(["leave", "lose"]))
    def go(self, place: int, how: str) -> None:
        name = self.pick(place)
        (self.mesh.leave if how == "leave" else self.mesh.lose)(name)
        self.ledger.catch_up()
        agent = self.mesh.agent(name)
        if agent.offline_reason in ("left", "disconnected"):
            assert not agent.leased, "a session that is over holds something"
            self.fetches.pop((agent.id, agent.session), None)

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
    @rule(place=PLACES, name=NAMES, suffix=st.booleans())
    def rename(self, place: int, name: str, suffix: bool = False) -> None:
        """The operator may say: the name of somebody who is away; then one goes on as that agent."""
        own = self.mesh.agent(self.pick(place))
        mail = {
            agent.id: sorted([*agent.pending, *agent.leased]) for agent in self.mesh.state.agents.values()
        }
        record = self.attempt(UpdateAgent(agent=own.name, name=name, suffix=suffix), caller=OPERATOR)
        if record is None or record.id == own.id:
            return
        bearer = self.mesh.state.agents[record.id]
        assert (own.id not in self.mesh.state.agents, bearer.session) == (True, own.session)
        assert (list(bearer.pending), bearer.leased, bearer.online) == (mail[bearer.id], {}, True)
        for key, (sender, operation, reply) in self.sent.items():
            if sender == own.id:
                self.sent[key] = (bearer.id, operation, reply)

    @rule(meant=SELDOM, back=st.booleans())
    def restart(self, meant: bool, back: bool) -> None:
        if not meant:
            return
        sessions = [
            (agent.name, agent.session, agent.kind)
            for agent in self.mesh.state.agents.values()
            if agent.online and agent.name != "operator"
        ]
        self.mesh.claims.clear()
        self.mesh.run(StartBroker("x"))
        assert [agent.name for agent in self.mesh.state.agents.values() if agent.online] == ["operator"]
        for name, session, kind in sessions if back else []:
            held, pulls = self.mesh.leased(name), session in PULLING
            assert self.mesh.register(name, session=session, kind=kind, pulls=pulls).name == name
            assert self.mesh.leased(name) == (held if pulls else [])

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
        for agent in list(self.mesh.state.agents.values()) if handed else []:
            self.push(agent)

    def push(self, agent: Agent) -> None:
        """Hand over, as the delivery does: never to a session that fetches."""
        if agent.session not in PULLING:
            self.attempt(OfferWaiting(agent.id))

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
        self.push(self.mesh.agent(self.pick(place)))

    @precondition(some_agents)
    @rule(place=PLACES, count=st.integers(1, 3), how=st.sampled_from(["claim", "confirm"]))
    def take(self, place: int, count: int, how: str) -> None:
        name = self.pick(place)
        held = self.mesh.leased(name)[:count]
        (self.mesh.claim if how == "claim" else self.mesh.confirm)(name, *held)

    # -- fetching -------------------------------------------------------------------------------------

    def fetcher(self, place: int) -> tuple[Agent, dict[str, list[str]]] | None:
        """One of the agents that fetch, and its calls so far."""
        agents = [
            agent for agent in self.mesh.state.agents.values() if agent.online and agent.session in PULLING
        ]
        if not agents:
            return None
        agent = agents[place % len(agents)]
        return agent, self.fetches.setdefault((agent.id, agent.session), {})

    @rule(place=PLACES, limit=st.integers(1, 4), chars=st.sampled_from([0, 0, 90, 200]))
    def fetch(self, place: int, limit: int, chars: int) -> None:
        if (found := self.fetcher(place)) is None:
            return
        agent, calls = found
        self.number += 1
        before = list(agent.pending)
        reply = self.mesh.take(agent.name, str(self.number), limit=limit, chars=chars)
        calls[str(self.number)] = [record.id for record in reply.messages]
        assert len(reply.messages) <= limit
        assert reply.waiting == len(agent.pending) == len(before) - len(reply.messages)
        assert {parse_message_id(record.id) for record in reply.large} <= set(agent.pending)
        if before and not agent.leased:
            assert reply.large, "neither given nor told of"

    @rule(place=PLACES, which=PLACES)
    def fetch_again(self, place: int, which: int) -> None:
        """The same call once more: what of it is still on a lease, and never a new fact."""
        if (found := self.fetcher(place)) is None or not found[1]:
            return
        agent, calls = found
        word = list(calls)[-1 - which % len(calls)]
        if word not in agent.calls:
            return  # it holds nothing any more: its answer has arrived
        count = len(self.mesh.events)
        reply = self.mesh.take(agent.name, word)
        left = [message for message in calls[word] if message in self.mesh.leased(agent.name)]
        assert [record.id for record in reply.messages] == left, "a repeat is not the same"
        assert len(self.mesh.events) == count, "a repeat had an effect"

    @rule(place=PLACES, which=PLACES, chars=st.sampled_from([7, 260]))
    def fetch_one(self, place: int, which: int, chars: int) -> None:
        """A message by its id, part by part, whether it is its turn or not."""
        if (found := self.fetcher(place)) is None or not found[0].pending:
            return
        agent, calls = found
        seq = list(agent.pending)[which % len(agent.pending)]
        self.ledger.catch_up()
        self.ledger.by_id.add((seq, agent.id))
        offset = -1
        while offset:
            self.number += 1
            assert seq in agent.pending
            fields = {"id": format_id("m", seq), "offset": max(offset, 0), "chars": chars}
            offset = self.mesh.take(agent.name, str(self.number), **fields).next_offset
        assert seq in agent.leased
        calls[str(self.number)] = [format_id("m", seq)]

    @rule(place=PLACES, which=PLACES, how=st.sampled_from(["note", "all", "cancel", "foreign"]))
    def conclude(self, place: int, which: int, how: str) -> None:
        """A call's messages were read, or not wanted; or somebody says so whom it does not concern."""
        if (found := self.fetcher(place)) is None or not found[1]:
            return
        agent, calls = found
        word = list(calls)[-1 - which % min(len(calls), 3)]
        held = set(agent.leased)
        if how == "foreign":
            self.mesh.note(agent.name, word, session="elsewhere")
            self.mesh.give_back(agent.name, word, session="elsewhere")
            assert set(agent.leased) == held
        elif how == "cancel":
            self.mesh.give_back(agent.name, word)
            calls[word] = []
            assert held - set(agent.leased) <= set(agent.pending)
        else:
            self.mesh.note(agent.name, *(calls if how == "all" else [word]))
            assert not (held - set(agent.leased)) & set(agent.pending)
            assert how == "note" or not agent.leased, "no evidence reaches it"

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
