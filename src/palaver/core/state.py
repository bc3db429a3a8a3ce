"""All that the broker knows in memory. Only `apply_*` functions change it; a snapshot is its whole.

What is `pending` or `delivered` lives here. A receipt in a final state does not: the store's journal and
the table derived from it tell about the past.
"""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

SNAPSHOT_VERSION = 1


class Receipt(msgspec.Struct, gc=False):
    """One message that one recipient has not read yet."""

    sender: str
    size: int
    deadline: float
    """While pending, when it expires on the awake clock; while leased, the seconds it has left."""
    lease: int = 0
    """The sequence of the hand-over, or 0 while pending."""
    seen_by: str = ""
    """A session that ended without evidence and may have shown the message."""


class Request(msgspec.Struct, gc=False):
    """What a request key was answered with."""

    digest: str
    seq: int
    status: str


class Agent(msgspec.Struct, kw_only=True):
    """One agent and its mailbox."""

    id: str
    name: str
    kind: str
    session: str
    group: str = ""
    process: str = ""
    """The process of its session, as `pid.start`."""
    owner: str = ""
    """The process that *is* the agent, if any: all beneath it speaks as this agent only."""
    capabilities: list[str] = []
    metadata: dict[str, Any] = {}
    online: bool = True
    offline_reason: str = ""
    connected_at: float = 0.0
    gone_at: float = 0.0
    topics: dict[str, None] = {}
    pending: dict[int, Receipt] = {}
    leased: dict[int, Receipt] = {}
    pending_bytes: int = 0
    leased_bytes: int = 0
    earliest: float = inf
    """No pending message expires before this; it may be too early, never too late."""
    calls: dict[str, int] = {}
    """Of a session that fetches its mail: from the word of a call to the lease it got."""
    requests: dict[str, Request] = {}
    request_floor_us: int = -1
    """Keys born at or before this are no longer remembered."""


class State(msgspec.Struct, kw_only=True):
    """Everything, as of event `seq`."""

    version: int = SNAPSHOT_VERSION
    seq: int = 0
    now: float = 0.0
    """Engine time: wall-clock seconds that never go back."""
    awake: float = 0.0
    """Seconds this broker has been running and not suspended, over all its lives: the clock of TTLs."""
    epoch: int = 0
    """The sequence at which this broker's life began; leases below it are from an earlier one."""
    agents: dict[str, Agent] = {}
    names: dict[str, str] = {}
    """From a lower-case name to an agent id."""
    former: dict[str, str] = {}
    """From a lower-case name that an agent had before to its id; a bearer of the name goes before."""
    topics: dict[str, dict[str, None]] = {}
    """From a topic to the ids of its subscribers, in the order they joined."""

    def find(self, name: str) -> Agent | None:
        """The agent of that name."""
        return self.agents.get(self.names.get(name.lower(), ""))

    def reach(self, word: str) -> Agent | None:
        """The agent that a message to `word` is for: of that name, once of that name, or of that id."""
        lower = word.lower()
        return self.agents.get(self.names.get(lower) or self.former.get(lower) or word)

    def waiting(self) -> int:
        """Messages not yet read by their recipients."""
        return sum(len(agent.pending) + len(agent.leased) for agent in self.agents.values())

    def oldest_open(self) -> int:
        """The sequence of the oldest message that is not read; beyond the newest if all are."""
        firsts = [min(box) for agent in self.agents.values() for box in (agent.pending, agent.leased) if box]
        return min(firsts, default=self.seq + 1)


def format_snapshot(state: State) -> bytes:
    """Encode the whole state."""
    return msgspec.msgpack.encode(state)


def parse_snapshot(data: bytes) -> State:
    """Decode a state.

    Raises:
        msgspec.DecodeError: not a snapshot, or of a shape this version does not know.
    """
    state = msgspec.msgpack.decode(data, type=State)
    if state.version != SNAPSHOT_VERSION:
        raise msgspec.ValidationError(f"snapshot of version {state.version}")
    for agent in state.agents.values():
        _share_names(state, agent)
    return state


def _share_names(state: State, agent: Agent) -> None:
    """Decoding made a fresh copy of each sender id: 100,000 receipts should share their agents' own."""
    agents = state.agents
    for box in (agent.pending, agent.leased):
        for receipt in box.values():
            sender = agents.get(receipt.sender)
            if sender is not None:
                receipt.sender = sender.id
