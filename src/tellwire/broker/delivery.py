"""Who is connected, what each client holds, and the hand-over of what waits.

Hand-over happens in the tick that queued the message: the lease is committed together with it, and the
offer leaves after the commit. An offer is also the answer to the claim for a while: within it nobody else can
get the messages, so the client may show them without asking, and all of them count as claimed. What else a
session has claimed is kept here, in memory only: it matters until the session ends, and after a crash of the
broker every lease counts as claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tellwire.broker.ports import Source
from tellwire.core.record.stored import StoredMessage
from tellwire.core.state import Agent, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
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
from tellwire.protocol.frames import format_offer
from tellwire.protocol.ids import format_id, parse_id

CLAIMED_MAX = 1_024
ENDED = ("This agent was removed by the operator.", "Connect again to come back.")
"""The error for a client whose agent was removed."""

_encode = msgspec.json.Encoder().encode


class Session:
    """One connected client of one agent."""

    __slots__ = ("claimed", "grants", "id", "pulls", "source")

    def __init__(self, source: Source, session: str, *, pulls: bool, grants: bool) -> None:
        self.source = source
        self.id = session
        self.pulls = pulls
        """It fetches its mail, and is only notified that some waits."""
        self.claimed: set[str] = set()
        """Ids granted to it; those confirmed since are left in until there are too many."""
        self.grants = grants
        """What is offered to it may be shown without asking, for a while."""


class Delivery:
    """The sessions by agent id, and which of them have something to be handed over."""

    def __init__(self, load: Callable[[Sequence[int]], list[StoredMessage]], grant_s: float = 0.0) -> None:
        self._load = load
        self._grant_s = grant_s
        """How long after its last sign of life an offer is granted to a client; 0: it always claims."""
        self._endings: list[str] = []
        self._leaving: set[int] = set()
        """The connections that left by themselves in this tick."""
        self._callable: list[str] = []
        self.sessions: dict[str, Session] = {}
        self.dirty: set[str] = set()

    # -- sessions -------------------------------------------------------------------------------------

    def attach(
        self, agent: str, source: Source, session: str, *, pulls: bool = False, grants: bool = False
    ) -> Session | None:
        """`source` is now the client of `agent`; returns the session before it."""
        earlier = self.sessions.get(agent)
        self.sessions[agent] = Session(source, session, pulls=pulls, grants=grants and self._grant_s > 0)
        self.dirty.add(agent)
        return earlier

    def client_of(self, agent: str) -> Source | None:
        """The connection of the agent's own client."""
        session = self.sessions.get(agent)
        return None if session is None else session.source

    def claim(self, state: State, agent: str, ids: list[str]) -> None:
        """Remember what a client may show: it counts as seen if its session ends without evidence."""
        claimed = self.sessions[agent].claimed
        claimed.update(ids)
        if len(claimed) > CLAIMED_MAX:
            held = {format_id("m", seq) for seq in state.agents[agent].leased}
            claimed.intersection_update(held)

    def claimed(self, state: State, agent: str) -> list[int]:
        """What the agent's client may have shown, confirmed or not."""
        session = self.sessions.get(agent)
        if session is None:
            return []
        if session.grants:
            return sorted(state.agents[agent].leased)
        return sorted(seq for text in session.claimed if (seq := parse_id("m", text)) is not None)

    # -- the tick -------------------------------------------------------------------------------------

    def observe(self, state: State, event: AnyEvent) -> None:
        """Note which agents may have something to be delivered after this event."""
        if type(event) is MessageQueued:
            for agent in event.recipients:
                if agent in self.sessions:
                    self.dirty.add(agent)
        elif type(event) is MessagesRead:
            if state.agents[event.agent].pending:  # the window has room again
                self.dirty.add(event.agent)
        elif isinstance(event, SessionStarted | AgentOnline | MessagesReturned):
            self.dirty.add(event.agent)
        elif isinstance(event, AgentForgotten | AgentOffline):
            self._endings.append(event.agent)

    def leave(self, source: Source) -> None:
        """A connection has said that its agent, or another one, leaves."""
        self._leaving.add(id(source))

    def forget_tick(self) -> None:
        """Undo the tick: its sessions did not end, and every agent may have mail waiting."""
        self._endings.clear()
        self._leaving.clear()
        self._callable.clear()
        self.dirty.update(self.sessions)

    def settle(self, state: State) -> None:
        """After the commit: forget sessions that are over.

        A client that may show what it was offered, and did not end its session itself, has to know of the
        end: the next session gets the same messages.
        """
        for agent_id in self._endings:
            agent, session = state.agents.get(agent_id), self.sessions.get(agent_id)
            ended = agent is None or (not agent.online and agent.offline_reason != "silent")
            if session is not None and ended:
                del self.sessions[agent_id]
                session.source.detach()
                if session.grants and id(session.source) not in self._leaving:
                    session.source.dismiss(TellwireError("forbidden", *ENDED))
        self._endings.clear()
        self._leaving.clear()

    def ready(self) -> list[str]:
        """Agents that may get something now; each is returned once."""
        ready: list[str] = []
        for agent in self.dirty:
            session = self.sessions.get(agent)
            if session is not None and session.source.writable:
                (self._callable if session.pulls else ready).append(agent)
        self.dirty.clear()
        return ready

    def note_waiting(self, agent: str) -> None:
        """Tell a client whose window is full how much more mail is waiting."""
        self._callable.append(agent)

    def notify(self, state: State) -> list[Source]:
        """After the commit: say to clients that fetch their mail, or are behind with it, how much waits."""
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
                frame = encoded.get(seq)
                if frame is None:
                    message = fresh.get(seq)
                    if message is None:
                        older.append(seq)
                        continue
                    frame = encoded[seq] = _encode(message.record())
                frames.append(frame)
            if older:
                frames = [*self._reload(agent, older), *frames]
            source = session.source
            # A session is replaced after a longer silence only: who reads this in time has it alone.
            until = source.last_seen + self._grant_s if session.grants else 0.0
            source.offer(format_offer(frames, len(agent.pending), until))
            sources.append(source)
        return sources

    def _reload(self, agent: Agent, seqs: list[int]) -> list[bytes]:
        """Messages of earlier ticks, marked if another session may have shown them."""
        frames: list[bytes] = []
        for message in self._load(seqs):
            receipt = agent.leased.get(message.seq)
            repeat = receipt is not None and receipt.seen_by not in ("", agent.session)
            frames.append(_encode(message.record(repeat=repeat)))
        return frames
