"""What a decision may look up besides the state: messages, receipts, events, presence.

What is asked for in the middle of a tick is looked up in that tick first; nothing of it is on disk yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tellwire.broker.delivery import Delivery
from tellwire.broker.ports import Journal
from tellwire.broker.registrations import ClientFacts
from tellwire.core.context import (
    Caller,
    Context,
)
from tellwire.core.limits import Limits
from tellwire.core.mail.reach import Contact
from tellwire.core.record.final_receipts import final_receipts, settle
from tellwire.core.record.stored import Entry, FinalState, Header, Query, StoredMessage, StoredPage, Talks
from tellwire.core.state import State
from tellwire.protocol.events import AgentRegistered, AnyEvent
from tellwire.protocol.ids import parse_id
from tellwire.protocol.operations.messages import MessageRecord
from tellwire.system.clock import Clock

log = logging.getLogger("tellwire.engine")

NAMES_MAX = 1_000
"""Names of forgotten agents kept in memory."""


class Lookups:
    """Reads the journal, the tick and the sessions for the core."""

    def __init__(
        self,
        journal: Journal,
        delivery: Delivery,
        clock: Clock,
        *,
        state: Callable[[], State],
        tick: Callable[[], tuple[dict[int, StoredMessage], list[AnyEvent]]],
        facts: ClientFacts,
    ) -> None:
        self.kept: dict[str, int] = {}  # bytes of messages that are stored, by their sender
        self._journal = journal
        self._delivery = delivery
        self._clock = clock
        self._state = state
        self._tick = tick
        self._facts = facts
        self._former_names: dict[str, str] = {}

    def context(self, caller: Caller, limits: Limits, alive: Callable[[str], bool]) -> Context:
        """The context of decisions; caller and clock are set for each one."""
        return Context(
            caller=caller,
            now=0.0,
            awake=0.0,
            limits=limits,
            header=self.header,
            settled=self.settled,
            records=self.records,
            find=self.find,
            receipts=self.receipts,
            talks=self.talks,
            entries=self.entries,
            head=self.head,
            former_name=self.former_name,
            last_seen=self.last_seen,
            claimed=self.claimed,
            way=self._facts.way,
            activity=self._facts.activity,
            doing=self._facts.activities.doing,
            title=lambda agent: self._facts.titles.get(agent, ""),
            prompted=self._facts.prompted.__contains__,
            paths=self._facts.paths_of,
            contact=self.contact_of,
            kept=self.kept,
            alive=alive,
        )

    # -- messages -------------------------------------------------------------------------------------

    def header(self, seq: int) -> Header | None:
        fresh, _ = self._tick()
        message = fresh.get(seq)
        return message.header() if message is not None else self._journal.header(seq)

    def records(self, seqs: list[int]) -> list[MessageRecord]:
        fresh, _ = self._tick()
        stored = {message.seq: message for message in self._journal.messages(seqs)}
        found = (fresh.get(seq) or stored.get(seq) for seq in seqs)
        return [message.record() for message in found if message is not None]

    def settled(self, seq: int) -> dict[str, FinalState]:
        _, events = self._tick()
        rows = final_receipts(events, self._state().now)
        return settle(self._journal.settled(seq), rows, seq)

    # -- the past; a tick that is under way is not part of it -------------------------------------------

    def find(self, query: Query) -> StoredPage:
        found = self._journal.find(query)
        return StoredPage([(message.header(), message.record()) for message in found.messages], found.next)

    def receipts(self, seqs: list[int]) -> dict[int, dict[str, FinalState]]:
        rows = final_receipts(self._tick()[1], self._state().now)
        return {seq: settle(known, rows, seq) for seq, known in self._journal.receipts(seqs).items()}

    def talks(self, before: int, limit: int) -> Talks:
        return self._journal.talks(before, limit)

    def entries(self, after: int, before: int, limit: int) -> list[Entry]:
        return self._journal.entries(after, before, limit)

    def head(self) -> str:
        return self._journal.head()[1].hex()

    def former_name(self, agent: str) -> str:
        """The name under which a forgotten agent joined, as long as the journal has it."""
        name = self._former_names.get(agent)
        if name is None:
            seq = parse_id("a", agent) or 0
            entries = self._journal.entries(0, seq + 1, 1) if seq else []
            event = entries[0].event if entries and entries[0].seq == seq else None
            name = event.name if isinstance(event, AgentRegistered) else agent
            if len(self._former_names) >= NAMES_MAX:
                self._former_names.clear()
            self._former_names[agent] = name
        return name

    # -- sessions -------------------------------------------------------------------------------------

    def claimed(self, agent: str) -> list[int]:
        """What the agent's client may have shown and did not confirm."""
        state = self._state()
        leased = state.agents[agent].leased
        return [seq for seq in self._delivery.claimed(state, agent) if seq in leased]

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of an agent's client; None if mail is pushed to it."""
        session = self._delivery.sessions.get(agent)
        if session is None or not session.pulls:
            return None
        try:
            return self._facts.contact_of(agent)
        except Exception:  # a failing lookup must never fail a send
            log.exception("the client of %s cannot be looked at", agent)
            return Contact()

    def last_seen(self, agent: str) -> float:
        """When an agent last gave a sign of life; 0 if it is not connected."""
        session = self._delivery.sessions.get(agent)
        return 0.0 if session is None else self._clock.wall_of(session.source.last_seen)
