"""What passes between the engine and a store: one commit, one stored message."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tellwire.core.context import Header
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.messages import MessageRecord


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
        # What `cls` would do by way of one more call, for every message.
        return tuple.__new__(cls, row)  # pyright: ignore[reportUnknownMemberType]

    def header(self) -> Header:
        """All but the text."""
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


class Found(NamedTuple):
    """One page of an answer to a query."""

    messages: list[StoredMessage]
    next: int = 0
    """Go on below this sequence; 0 if nothing older can be found."""


class Pruned(NamedTuple):
    """What a store let go of in one slice."""

    commits: int = 0
    messages: int = 0
    more: bool = False
    """More may be left to go."""
    freed: dict[str, int] = {}
    """The bytes of the messages that went, by sender."""
