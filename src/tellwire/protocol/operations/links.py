"""Operations on links: conversations that two or more agents share."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import Operation, Reply
from tellwire.protocol.operations.history import History

LinkStatus: TypeAlias = Literal["active", "paused", "closed"]
Share: TypeAlias = Literal["all", "link"]
Made: TypeAlias = Literal["", "created", "reused"]


class MemberRecord(Reply, frozen=True, kw_only=True):
    """One member of a link, or one that was."""

    name: str
    number: int
    role: str = ""
    share: Share = "all"
    """Which of its turns cross: `all`, or only those that had something of the link to answer."""
    joined_at: float
    left_at: float = 0.0
    """0 while it is in."""


class LinkRecord(Reply, frozen=True, kw_only=True):
    """A link as its members see it."""

    id: str
    status: LinkStatus
    reason: str = ""
    """Why it is paused or closed."""
    direct: bool = False
    """The one conversation of two agents; they get no stop notices about each other while it is open."""
    made: Made = ""
    """In the reply to `open_link`: `created` or `reused`."""
    opener: str = ""
    opened_at: float
    closed_at: float = 0.0
    said: int = 0
    """How many messages were sent on it."""
    turns: int = 0
    """How many turns it took since a person last wrote."""
    turns_max: int = 0
    """The number of turns after which it pauses."""
    members: list[MemberRecord] = []


class LinkList(Reply, frozen=True, kw_only=True):
    """Links, newest last."""

    links: list[LinkRecord] = []
    hidden: int = 0
    """How many older ones were left out; name an agent or the link to see them."""


class OpenLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """Open a conversation: a member's final answer in each turn goes to all others.

    With one other agent it is the direct link of the two, created or reused.
    """

    reply = LinkRecord
    members: list[str]
    """Names. An agent that opens a link is a member without being named."""
    roles: dict[str, str] = {}
    """By name."""
    share: Share = "all"
    """Which of the opener's turns are shared."""


class AddMember(Operation[LinkRecord], frozen=True, kw_only=True):
    """Add an agent to a link the caller is in; a direct link then becomes a shared one."""

    reply = LinkRecord
    link: str
    name: str
    role: str = ""
    share: Share = "all"


class LeaveLink(Operation[Done], frozen=True, kw_only=True):
    """Leave a link; it stays open while two members remain."""

    reply = Done
    link: str
    name: str | None = None
    """Another member (not for agents)."""


class CloseLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """Close a link for all its members."""

    reply = LinkRecord
    link: str | None = None
    peer: str | None = None
    """Instead of `link`: the direct link with this agent."""
    message: str | None = None
    """A last message, delivered before the link closes."""


class ResumeLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """Resume a paused link; the count of turns starts again."""

    reply = LinkRecord
    link: str


class ListLinks(Operation[LinkList], frozen=True, kw_only=True):
    """The caller's links with their members; for callers that are not agents, all links."""

    reply = LinkList
    reads = True
    all: bool = False
    """Include closed links."""
    agent: str | None = None
    """Only links of this agent; an agent can name only itself."""
    link: str | None = None
    """Only this one."""


class LinkHistory(Operation[History], frozen=True, kw_only=True):
    """The messages of a link, newest first; a member sees those that it sent or received."""

    reply = History
    reads = True
    link: str
    """Its id, such as l4f2k."""
    before: str | None = None
    """Only messages older than this one."""
    limit: int = 50
    """At most 200."""
