"""What passes between the rules, the engine and a store: commits, messages, and queries about both."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tellwire.core.record.terms import Term
from tellwire.protocol.addresses import link_of
from tellwire.protocol.events import AnyEvent, MessageQueued, parse_batch
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.messages import MessageRecord

# -- what a decision asks, and what it gets -------------------------------------------------------------


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
    re: str | None = None
    """Only direct answers to this message, by its id."""
    after: int = 0
    """Above 0: only above this sequence, and the oldest first."""

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


class Header(msgspec.Struct, frozen=True):
    """What the store remembers of a message besides its body."""

    seq: int
    sender: str
    sender_name: str
    to: str
    recipients: tuple[str, ...]
    at: float


class FinalState(msgspec.Struct, frozen=True):
    """A receipt in a final state, out of the store."""

    state: str
    evidence: str
    at: float


class StoredPage(msgspec.Struct, frozen=True):
    """One page of messages out of the store."""

    messages: list[tuple[Header, MessageRecord]] = []
    next: int = 0
    """Go on below this sequence; 0 if nothing older can be found."""


# -- what the engine saves ------------------------------------------------------------------------------


class StoredMessage(NamedTuple):
    """One row of history: the event's fields, and the body."""

    seq: int
    sender: str
    sender_name: str
    recipients: str
    to: str
    re: str
    at: float
    mode: str
    kind: str
    json: int
    context: str
    body: str

    @classmethod
    def of(cls, seq: int, at: float, event: MessageQueued, body: str) -> StoredMessage:
        """The row of a message that was just queued."""
        to, kind, mode, re = event.to, event.kind, event.mode, event.re
        recipients, json, facts = " ".join(event.recipients), event.json, event.context
        row = (seq, event.sender, event.sender_name, recipients, to, re, at, mode, kind, json, facts, body)
        # Not by `cls(...)`: one call less for every message.
        return tuple.__new__(cls, row)  # pyright: ignore[reportUnknownMemberType]

    def header(self) -> Header:
        """The message without its body."""
        recipients = tuple(self.recipients.split())
        return Header(self.seq, self.sender, self.sender_name, self.to, recipients, self.at)

    def record(self, *, repeat: bool = False) -> MessageRecord:
        """The message as its recipient gets it."""
        return MessageRecord(
            format_id("m", self.seq),
            self.sender_name,
            self.to,
            msgspec.json.decode(self.body) if self.json else self.body,
            self.at,
            self.kind,  # pyright: ignore[reportArgumentType]  # only such words are stored
            self.re or None,
            self.mode or None,  # pyright: ignore[reportArgumentType]
            msgspec.json.decode(self.context) if self.context else None,
            repeat,
        )


class Commit(NamedTuple):
    """The events of one tick, saved together or not at all."""

    seq: int
    """Of the last event."""
    at: float
    awake: float
    data: bytes
    """The events, without bodies."""
    messages: list[StoredMessage]


class MessagePage(NamedTuple):
    """One page of messages that match a query."""

    messages: list[StoredMessage]
    next: int = 0
    """Go on below this sequence, or with `after` above it; 0 if nothing more can be found."""


class Talk(NamedTuple):
    """One conversation: its key (`protocol/addresses`), its last message, and how many there are."""

    key: str
    last: int
    messages: int


class Talks(NamedTuple):
    """One page of conversations, by their last words, newest first."""

    talks: list[Talk]
    more: bool = False
    partial: bool = False
    """So much was said lately that some of it is not counted yet."""


class Pruned(NamedTuple):
    """What a store deleted in one slice."""

    commits: int = 0
    messages: int = 0
    more: bool = False
    """More may be left to go."""
    freed: dict[str, int] = {}
    """The bytes of the messages that went, by sender."""


def entries_of(seq: int, at: float, data: bytes) -> list[Entry]:
    """The events of one commit, each with its own sequence."""
    batch = parse_batch(data)
    first = seq - len(batch) + 1
    return [Entry(first + place, at, event) for place, event in enumerate(batch)]
