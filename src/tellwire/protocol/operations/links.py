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
    """The one conversation of two agents; stop notices between them are silent while it lives."""
    made: Made = ""
    """In the answer to opening: `created` or `reused`."""
    opener: str = ""
    opened_at: float
    closed_at: float = 0.0
    said: int = 0
    """How many things were said on it."""
    turns: int = 0
    """How many turns it took since a person last had a word."""
    turns_max: int = 0
    """At so many it pauses."""
    members: list[MemberRecord] = []


class LinkList(Reply, frozen=True, kw_only=True):
    """Links, newest last."""

    links: list[LinkRecord] = []
    hidden: int = 0
    """So many older ones are left out: name an agent, or the link."""


class OpenLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """Open a conversation: what a member finally says in a turn goes to all others.

    With one other agent it is the direct link of the two, made or reused.
    """

    reply = LinkRecord
    members: list[str]
    """Names; an agent that opens a link is a member by itself."""
    roles: dict[str, str] = {}
    """By name."""
    share: Share = "all"
    """For the opener: which of its turns cross."""


class AddMember(Operation[LinkRecord], frozen=True, kw_only=True):
    """Bring an agent into a link one is in; a direct link then is a shared one."""

    reply = LinkRecord
    link: str
    name: str
    role: str = ""
    share: Share = "all"


class LeaveLink(Operation[Done], frozen=True, kw_only=True):
    """Leave a link; the others go on while two remain."""

    reply = Done
    link: str
    name: str | None = None
    """Another member: not for agents."""


class CloseLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """End a link for all its members at once."""

    reply = LinkRecord
    link: str | None = None
    peer: str | None = None
    """Instead of `link`: the direct link with this agent."""
    message: str | None = None
    """A last word, delivered first."""


class ResumeLink(Operation[LinkRecord], frozen=True, kw_only=True):
    """Let a paused link go on, with a fresh budget of turns."""

    reply = LinkRecord
    link: str


class ListLinks(Operation[LinkList], frozen=True, kw_only=True):
    """The links one is in, with their members; not for an agent: all links."""

    reply = LinkList
    reads = True
    all: bool = False
    """Also closed ones."""
    agent: str | None = None
    """Only links of this agent; an agent can name itself only."""
    link: str | None = None
    """Only this one."""


class LinkHistory(Operation[History], frozen=True, kw_only=True):
    """What was said on a link, newest first; for who was a member, what it sent or received."""

    reply = History
    reads = True
    link: str
    before: str | None = None
    """Only messages older than the one of this id."""
    limit: int = 50
