"""The model beside the kernel: who should hold what, in which order, by the simplest bookkeeping there is."""

from __future__ import annotations

from collections import Counter
from math import inf

from tellwire.core.agents.names import FORMER_NAMES_MAX
from tellwire.core.state import Agent, Receipt
from tellwire.protocol.events import (
    AgentForgotten,
    AgentOffline,
    Audience,
    Event,
    MessageQueued,
    MessagesDelivered,
    MessagesExpired,
    MessagesRead,
    MessagesReturned,
    SessionStarted,
)
from tests.unit.mesh import Mesh

Pair = tuple[int, str]
"""A message and one of its recipients."""
PULLING = frozenset({"s2", "s3"})
"""Sessions that fetch their mail; to the others it is pushed."""


class Ledger:
    """Reads the events as an outsider would, and keeps its own account of every receipt."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.read_up_to = 0
        self.queued: set[Pair] = set()
        self.settled: set[Pair] = set()
        self.handed: dict[str, list[int]] = {}
        """What each agent's current session was handed and has not given back, in order."""
        self.by_id: set[Pair] = set()
        """What was fetched out of its turn, because the recipient asked for this one."""

    def catch_up(self) -> None:
        """Take the new events over, and object to what no event may do."""
        for seq, event in self.mesh.events[self.read_up_to :]:
            self._take(seq, event)
        self.read_up_to = len(self.mesh.events)

    def _take(self, seq: int, event: Event) -> None:
        if isinstance(event, MessageQueued):
            assert event.audience is Audience.AGENT
            assert event.sender not in event.recipients, "a sender received its own message"
            assert len(set(event.recipients)) == len(event.recipients), "one message twice in one inbox"
            self.queued |= {(seq, agent) for agent in event.recipients}
            return
        assert event.audience is Audience.CONTROL
        if isinstance(event, MessagesDelivered):
            self._hand(event)
        elif isinstance(event, MessagesReturned):
            held = self.handed[event.agent]
            assert event.seqs, "a return of nothing"
            assert set(event.seqs) <= set(held), "gave back what it did not have"
            self.handed[event.agent] = [each for each in held if each not in event.seqs]
            self.by_id -= {(each, event.agent) for each in event.seqs}
        elif isinstance(event, MessagesRead | MessagesExpired):
            pairs = {(each, event.agent) for each in event.seqs}
            assert pairs <= self.queued, "settled what was never sent"
            assert not pairs & self.settled, "settled twice"
            self.settled |= pairs
        elif (
            isinstance(event, AgentForgotten)
            or (isinstance(event, SessionStarted) and not event.keeps)
            or (isinstance(event, AgentOffline) and event.reason != "silent")
        ):
            self.handed.pop(event.agent, None)
            self.by_id = {pair for pair in self.by_id if pair[1] != event.agent}

    def _hand(self, event: MessagesDelivered) -> None:
        held = self.handed.setdefault(event.agent, [])
        held += event.seqs
        assert len(held) == len(set(held)), "a session was handed a message twice"
        assert not self.settled & {(seq, event.agent) for seq in event.seqs}, "handed out what was settled"
        if not event.call:
            assert held == sorted(held), "a session was handed a message out of order"
        for sender in {self.mesh.stored[seq].sender for seq in event.seqs}:
            turn = [seq for seq in held if self._in_turn(seq, event.agent, sender)]
            assert turn == sorted(turn), "a pair's messages were handed out in the wrong order"

    def _in_turn(self, seq: int, agent: str, sender: str) -> bool:
        return self.mesh.stored[seq].sender == sender and (seq, agent) not in self.by_id

    def check(self) -> None:
        """Every receipt is in exactly one place, and every counter is true."""
        self.catch_up()
        found: list[Pair] = []
        for agent in self.mesh.state.agents.values():
            self._check_agent(agent)
            found += [(seq, agent.id) for box in (agent.pending, agent.leased) for seq in box]
        assert len(found) == len(set(found)), "a message stands twice in an inbox"
        assert set(found) == self.queued - self.settled, "a message was lost, or came from nowhere"
        state = self.mesh.state
        assert set(state.names.values()) == set(state.agents)
        assert set(state.former.values()) <= set(state.agents), "a former name of nobody"
        assert max(Counter(state.former.values()).values(), default=0) <= FORMER_NAMES_MAX

    def _check_agent(self, agent: Agent) -> None:
        limits = self.mesh.limits
        pending, leased = agent.pending, agent.leased
        assert agent.pending_bytes == sum(receipt.size for receipt in pending.values())
        assert agent.leased_bytes == sum(receipt.size for receipt in leased.values())
        assert len(pending) + len(leased) <= limits.mailbox_messages_max
        assert list(pending) == sorted(pending), "waiting mail is out of order"
        assert agent.earliest <= min((receipt.deadline for receipt in pending.values()), default=inf)
        assert all(receipt.lease == 0 for receipt in pending.values())
        assert all(0 < receipt.lease <= self.mesh.state.seq for receipt in leased.values())
        assert self.mesh.state.names[agent.name.lower()] == agent.id
        assert all(agent.id in self.mesh.state.topics[topic] for topic in agent.topics)
        in_turn = {seq: receipt for seq, receipt in leased.items() if (seq, agent.id) not in self.by_id}
        assert len(in_turn) <= limits.window_messages_max
        if agent.session in PULLING:
            self._check_calls(agent, in_turn)
        else:
            assert not agent.calls
            assert agent.leased_bytes <= limits.window_bytes_max or len(leased) == 1
            assert list(leased) == sorted(leased), "mail under way is out of order"

    def _check_calls(self, agent: Agent, in_turn: dict[int, Receipt]) -> None:
        assert {receipt.lease for receipt in agent.leased.values()} <= set(agent.calls.values()), (
            "on a lease that no evidence can reach"
        )
        assert len(agent.calls) <= self.mesh.limits.mailbox_messages_max + 1, "calls are never forgotten"
        for sender in {receipt.sender for receipt in in_turn.values()}:
            held = {seq: receipt for seq, receipt in in_turn.items() if receipt.sender == sender}
            waiting = [seq for seq, receipt in agent.pending.items() if receipt.sender == sender]
            assert len({receipt.lease for receipt in held.values()}) == 1, "one pair on two leases at once"
            assert max(held) < min(waiting, default=max(held) + 1), "a later one overtook"
