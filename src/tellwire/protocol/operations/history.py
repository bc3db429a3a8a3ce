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
    """Messages, newest first; with `after`, oldest first."""

    messages: list[HistoryRecord] = []
    more: bool = False
    """There may be more; continue with `next`. Even an empty page may be followed by more."""
    next: str = ""
    """The `before` for the next page; if `after` was asked for, that."""


class ReadHistory(Operation[History], frozen=True, kw_only=True):
    """Earlier messages, newest first. An agent sees those that it sent or received; others see all."""

    reply = History
    reads = True
    agent: str | None = None
    """Only what this agent sent or received; an agent can name only itself."""
    peer: str | None = None
    """Only messages between `agent` and this one."""
    link: str | None = None
    """Only messages of this link."""
    since: float = 0.0
    """Only from this time on, in seconds since 1970."""
    until: float = 0.0
    """Only up to this time; 0 for no bound."""
    before: str | None = None
    """Only messages older than this one."""
    limit: int = 50
    after: str | None = None
    """Only messages newer than this one, and the oldest first."""


class SearchMessages(Operation[History], frozen=True, kw_only=True):
    """Search message bodies, newest first; the caller sees the same messages as in `read_history`."""

    reply = History
    reads = True
    query: str
    """All words must occur, in upper or lower case; `"two words"` is a phrase, `wor*` matches the start of a
    word.
    """
    agent: str | None = None
    peer: str | None = None
    link: str | None = None
    since: float = 0.0
    until: float = 0.0
    before: str | None = None
    limit: int = 50
    after: str | None = None


class Purged(Reply, frozen=True, kw_only=True):
    """What this call deleted."""

    messages: int = 0
    commits: int = 0
    more: bool = False
    """There is more to delete: call again."""
    held_by: str = ""
    """The oldest open message; history from there on is kept."""


class Conversation(Reply, frozen=True, kw_only=True):
    """Agents that talk with each other, a link, a topic, or what one agent sent to several at once."""

    key: str
    """`pair:a1 a2`, `link:l4`, `topic:#builds` or `several:a1`, with the ids of agents."""
    kind: str
    """`pair`, `link`, `topic` or `several`."""
    agents: list[str] = []
    """The names of those who take part, as far as the last message tells."""
    agent_ids: list[str] = []
    messages: int = 0
    """How many were sent and are still stored."""
    unread: int = 0
    """Messages between the two, or on the link, that are not read yet; else whether the last one is."""
    at: float = 0.0
    """When the last message was sent."""
    last: str = ""
    """The id of the last message."""
    sender: str = ""
    """The name of its sender."""
    text: str = ""
    """The beginning of its body."""


class Conversations(Reply, frozen=True, kw_only=True):
    """Conversations by their last message, newest first."""

    conversations: list[Conversation] = []
    more: bool = False
    next: str = ""
    """The `before` for the next page."""
    partial: bool = False
    """Very much was said in the last moments; some of it is not counted yet."""


class ListConversations(Operation[Conversations], frozen=True, kw_only=True):
    """Who talks with whom, by the last message, newest first."""

    reply = Conversations
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    before: str | None = None
    """Only those whose last message is older than this one."""
    limit: int = 50
    chars: int = 200
    """How much of each last message to tell."""


class PurgeHistory(Operation[Purged], frozen=True, kw_only=True):
    """Delete settled history older than this, a part per call; messages that are still open are kept."""

    reply = Purged
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    runs = "exclusive"
    older_than_s: float
