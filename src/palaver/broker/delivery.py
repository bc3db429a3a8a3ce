"""Who is connected, what each client holds, and the hand-over of what waits.

Hand-over happens in the tick that queued the message: the lease is committed together with it, and the
offer leaves after the commit. What a session has claimed is kept here, in memory only: it matters until the
session ends, and after a crash of the broker every lease counts as claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from palaver.broker.ports import Source
from palaver.core.records import StoredMessage
from palaver.core.state import Agent, State
from palaver.protocol.events import (
    AgentForgotten,
    AgentOffline,
    AgentOnline,
    AnyEvent,
    MessageQueued,
    MessagesDelivered,
    MessagesRead,
    MessagesReturned,
    SessionStarted,
)
from palaver.protocol.frames import format_offer
from palaver.protocol.ids import format_id, parse_id

CLAIMED_MAX = 1_024

_encode = msgspec.json.Encoder().encode


class Session:
    """One connected client of one agent."""

    __slots__ = ("claimed", "pulls", "source", "word")

    def __init__(self, source: Source, word: str, *, pulls: bool) -> None:
        self.source = source
        self.word = word
        self.pulls = pulls
        """It fetches its mail; it is only told that some waits."""
        self.claimed: set[str] = set()
        """Ids granted to it; those confirmed since are left in until there are too many."""


class Delivery:
    """The sessions by agent id, and which of them have something to be handed over."""

    def __init__(self, load: Callable[[Sequence[int]], list[StoredMessage]]) -> None:
        self._load = load
        self._endings: list[str] = []
        self._callable: list[str] = []
        self.sessions: dict[str, Session] = {}
        self.dirty: set[str] = set()

    # -- sessions -------------------------------------------------------------------------------------

    def attach(self, agent: str, source: Source, word: str, *, pulls: bool = False) -> Session | None:
        """`source` is now the client of `agent`; returns the session before it."""
        earlier = self.sessions.get(agent)
        self.sessions[agent] = Session(source, word, pulls=pulls)
        self.dirty.add(agent)
        return earlier

    def claim(self, state: State, agent: str, ids: list[str]) -> None:
        """Remember what was granted."""
        claimed = self.sessions[agent].claimed
        claimed.update(ids)
        if len(claimed) > CLAIMED_MAX:
            held = {format_id("m", seq) for seq in state.agents[agent].leased}
            claimed.intersection_update(held)

    def claimed(self, agent: str) -> list[int]:
        """What the agent's client has taken over, confirmed or not."""
        session = self.sessions.get(agent)
        if session is None:
            return []
        return sorted(seq for text in session.claimed if (seq := parse_id("m", text)) is not None)

    # -- the tick -------------------------------------------------------------------------------------

    def observe(self, state: State, event: AnyEvent) -> None:
        """See what an applied event means for what can be handed over."""
        if isinstance(event, MessageQueued):
            sessions = self.sessions
            for agent in event.recipients:
                if agent in sessions:
                    self.dirty.add(agent)
        elif isinstance(event, MessagesRead):
            if state.agents[event.agent].pending:  # the window has room again
                self.dirty.add(event.agent)
        elif isinstance(event, SessionStarted | AgentOnline | MessagesReturned):
            self.dirty.add(event.agent)
        elif isinstance(event, AgentForgotten | AgentOffline):
            self._endings.append(event.agent)

    def forget_tick(self) -> None:
        """The tick never was: its sessions did not end, and everybody may have something waiting."""
        self._endings.clear()
        self._callable.clear()
        self.dirty.update(self.sessions)

    def settle(self, state: State) -> None:
        """After the commit: let go of sessions that are over."""
        for agent_id in self._endings:
            agent, session = state.agents.get(agent_id), self.sessions.get(agent_id)
            ended = agent is None or (not agent.online and agent.offline_reason != "silent")
            if session is not None and ended:
                del self.sessions[agent_id]
                session.source.detach()
        self._endings.clear()

    def ready(self) -> list[str]:
        """Agents that something may be handed to now; each is returned once."""
        ready: list[str] = []
        for agent in self.dirty:
            session = self.sessions.get(agent)
            if session is not None and session.source.writable:
                (self._callable if session.pulls else ready).append(agent)
        self.dirty.clear()
        return ready

    def tell(self, state: State) -> list[Source]:
        """After the commit: say to clients that fetch their mail that some waits."""
        told: list[Source] = []
        for agent_id in self._callable:
            agent, session = state.agents.get(agent_id), self.sessions.get(agent_id)
            if agent is not None and agent.pending and session is not None:
                session.source.mail(len(agent.pending))
                told.append(session.source)
        self._callable.clear()
        return told

    def offer(
        self, state: State, handed: list[MessagesDelivered], fresh: dict[int, StoredMessage]
    ) -> list[Source]:
        """After the commit: give the handed messages to their clients' connections."""
        # Nobody can have seen a message that was queued in this very tick: all recipients get the same bytes.
        encoded: dict[int, bytes] = {}
        sources: list[Source] = []
        for event in handed:
            session = self.sessions.get(event.agent)
            if session is None:
                continue
            agent = state.agents[event.agent]
            frames: list[bytes] = []
            older: list[int] = []
            for seq in event.seqs:
                message = fresh.get(seq)
                if message is None:
                    older.append(seq)
                    continue
                if seq not in encoded:
                    encoded[seq] = _encode(message.record())
                frames.append(encoded[seq])
            if older:
                frames = [*self._reload(agent, older), *frames]
            session.source.offer(format_offer(frames, len(agent.pending)))
            sources.append(session.source)
        return sources

    def _reload(self, agent: Agent, seqs: list[int]) -> list[bytes]:
        """Messages of earlier ticks, marked if another session may have shown them."""
        frames: list[bytes] = []
        for message in self._load(seqs):
            receipt = agent.leased.get(message.seq)
            repeat = receipt is not None and receipt.seen_by not in ("", agent.session)
            frames.append(_encode(message.record(repeat=repeat)))
        return frames
