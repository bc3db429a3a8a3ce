"""Operations on what was said before: read it, search it, let it go."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply
from tellwire.protocol.operations.messages import ContentKind, Json, Mode, RecipientStatus


class HistoryRecord(Reply, frozen=True, kw_only=True, rename={"sender": "from", "sent_at": "at"}):
    """One message of the past, and how far it got with each recipient."""

    id: str
    sender: str
    to: str
    body: Json
    sent_at: float
    kind: ContentKind = "request"
    re: str | None = None
    mode: Mode | None = None
    context: Json = None
    recipients: list[RecipientStatus] = []


class History(Reply, frozen=True, kw_only=True):
    """Messages, newest first."""

    messages: list[HistoryRecord] = []
    more: bool = False
    """There may be older ones; go on with `next`. A page without messages can still have more behind it."""
    next: str = ""
    """The `before` of the call for the next page."""


class ReadHistory(Operation[History], frozen=True, kw_only=True):
    """What was sent before, newest first. An agent sees what it sent or received; others see all."""

    reply = History
    reads = True
    agent: str | None = None
    """Only what this agent sent or received; an agent can name itself only."""
    peer: str | None = None
    """Only what passed between the agent and this one."""
    link: str | None = None
    """Only what was said on this link."""
    since: float = 0.0
    """Not older than this time, in seconds since 1970."""
    until: float = 0.0
    """Not newer than this time; 0 for no bound."""
    before: str | None = None
    """Only messages older than the one of this id."""
    limit: int = 50


class SearchMessages(Operation[History], frozen=True, kw_only=True):
    """Find messages by the words of their bodies, newest first; same bounds as reading history."""

    reply = History
    reads = True
    query: str
    """All words must occur, in any case; `"two words"` is a phrase, `wor*` the beginning of a word."""
    agent: str | None = None
    peer: str | None = None
    link: str | None = None
    since: float = 0.0
    until: float = 0.0
    before: str | None = None
    limit: int = 50


class Purged(Reply, frozen=True, kw_only=True):
    """What was let go of by this call."""

    messages: int = 0
    commits: int = 0
    more: bool = False
    """More is to go: call again."""
    held_by: str = ""
    """The oldest open message; history from there on stays."""


class PurgeHistory(Operation[Purged], frozen=True, kw_only=True):
    """Let go now of settled history older than some seconds, a slice per call; never of open messages."""

    reply = Purged
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    older_than_s: float
