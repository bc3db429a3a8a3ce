"""What a decision asks of the store's past: which messages, which events."""

from __future__ import annotations

from typing import NamedTuple

from tellwire.core.record.terms import Term
from tellwire.protocol.addresses import link_of
from tellwire.protocol.events import AnyEvent


class Query(NamedTuple):
    """Which messages are wanted, newest first."""

    limit: int
    bytes_max: int
    """Of the bodies in one answer; the first message comes whatever its size."""
    agent: str | None = None
    """Sent or received by this agent id; empty for the broker's notices."""
    peer: str | None = None
    """And the other side is this one; only with `agent`."""
    link: str | None = None
    """Said on this link."""
    since: float = 0.0
    until: float = 0.0
    before: int = 0
    """Only below this sequence; 0 for no bound."""
    terms: tuple[Term, ...] = ()

    def concerns(self, sender: str, recipients: list[str], to: str) -> bool:
        """Whether such a message passed between those asked for."""
        if self.link is not None and link_of(to) != self.link:
            return False
        if self.agent is None:
            return True
        if self.peer is None:
            return self.agent == sender or self.agent in recipients
        return (self.agent == sender and self.peer in recipients) or (
            self.peer == sender and self.agent in recipients
        )


class Entry(NamedTuple):
    """One event in its place in the journal."""

    seq: int
    at: float
    event: AnyEvent
