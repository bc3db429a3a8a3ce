"""The model beside the kernel: who should hold what, in which order, by the simplest bookkeeping there is."""

from __future__ import annotations

from math import inf

from palaver.core.state import Agent
from palaver.protocol.events import (
    AgentForgotten,
    Audience,
    Event,
    MessageQueued,
    MessagesDelivered,
    MessagesExpired,
    MessagesRead,
    SessionStarted,
)
from tests.unit.mesh import Mesh

Pair = tuple[int, str]
"""A message and one of its recipients."""


class Ledger:
    """Reads the events as an outsider would, and keeps its own account of every receipt."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.read_up_to = 0
        self.queued: set[Pair] = set()
        self.settled: set[Pair] = set()
        self.handed: dict[str, list[int]] = {}
        """What each agent's current session was handed, in order."""

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
            held = self.handed.setdefault(event.agent, [])
            held += event.seqs
            assert held == sorted(set(held)), "a session was handed a message twice or out of order"
        elif isinstance(event, MessagesRead | MessagesExpired):
            pairs = {(each, event.agent) for each in event.seqs}
            assert pairs <= self.queued, "settled what was never sent"
            assert not pairs & self.settled, "settled twice"
            self.settled |= pairs
        elif isinstance(event, SessionStarted | AgentForgotten):
            self.handed.pop(event.agent, None)

    def check(self) -> None:
        """Every receipt is in exactly one place, and every counter is true."""
        self.catch_up()
        found: list[Pair] = []
        for agent in self.mesh.state.agents.values():
            self._check_agent(agent)
            found += [(seq, agent.id) for box in (agent.pending, agent.leased) for seq in box]
        assert len(found) == len(set(found)), "a message stands twice in an inbox"
        assert set(found) == self.queued - self.settled, "a message was lost, or came from nowhere"

    def _check_agent(self, agent: Agent) -> None:
        limits = self.mesh.limits
        pending, leased = agent.pending, agent.leased
        assert agent.pending_bytes == sum(receipt.size for receipt in pending.values())
        assert agent.leased_bytes == sum(receipt.size for receipt in leased.values())
        assert len(leased) <= limits.window_messages_max
        assert agent.leased_bytes <= limits.window_bytes_max or len(leased) == 1
        assert len(pending) + len(leased) <= limits.mailbox_messages_max
        assert list(pending) == sorted(pending), "waiting mail is out of order"
        assert list(leased) == sorted(leased), "mail under way is out of order"
        assert agent.earliest <= min((receipt.deadline for receipt in pending.values()), default=inf)
        assert all(receipt.lease == 0 for receipt in pending.values())
        assert all(0 < receipt.lease <= self.mesh.state.seq for receipt in leased.values())
        assert self.mesh.state.names[agent.name.lower()] == agent.id
        assert all(agent.id in self.mesh.state.topics[topic] for topic in agent.topics)
