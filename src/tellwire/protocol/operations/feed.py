"""What a console shows: tables of rows as of one event, then each event and what changed with it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import AGENT, CLI, OPERATOR, SCRIPT, SDK, Operation, Reply
from tellwire.protocol.operations.scopes import ScopeRule

Activity: TypeAlias = Literal["", "busy", "idle", "waiting", "errored"]
TABLES = ("agents", "links", "children", "claims", "policies", "topics", "mail")


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a table; only what the journal decides, nothing that passes with time."""


class AgentRow(Row, frozen=True, kw_only=True):
    """One agent in brief."""

    name: str
    kind: str
    group: str = ""
    online: bool = False
    offline_reason: str = ""
    connected_at: float = 0.0
    gone_at: float = 0.0
    muted: bool = False
    """With `muted_until` in the past it no longer counts."""
    muted_until: float = 0.0
    pending: int = 0
    """Messages that wait in its inbox."""
    pending_since: float = 0.0
    """Since when the oldest of them waits that may begin a turn; 0 if none does."""
    delivered: int = 0
    """Messages handed to its client, without evidence that they were read."""
    delivered_since: float = 0.0
    """When the oldest of them was handed over."""
    overdue: bool = False
    """Those who listen to it were told that it has finished no turn for long."""
    terminal: str = ""
    folder: str = ""
    process: str = ""
    """Its process, as `pid.start`."""


class LinkRow(Row, frozen=True, kw_only=True):
    """One link that is not closed."""

    members: list[str]
    """The ids of the agents that are in."""
    direct: bool = False
    status: str = "active"
    reason: str = ""
    opened_at: float = 0.0
    said: int = 0
    """Messages so far."""
    turns: int = 0
    """Turns since a person's last message."""
    paused_at: float = 0.0
    """If it is paused: since when."""


class ChildRow(Row, frozen=True, kw_only=True):
    """One child that has not ended."""

    parent: str
    status: str
    cwd: str = ""
    scoped: bool = False
    place: str = ""


class ClaimRow(Row, frozen=True, kw_only=True):
    """What one agent has claimed."""

    rules: list[ScopeRule]


class MailRow(Row, frozen=True, kw_only=True):
    """One message that the operator has not read, or a question that it has not answered."""

    sender: str
    """The agent's id; empty for the broker's notices."""
    unread: bool = False
    asks: bool = False
    """It offers choices, and has no answer yet."""
    at: float = 0.0
    text: str = ""
    """The beginning of its body."""
    choices: list[str] = []
    """The answers to choose from; empty if any will do."""


class Rows(Reply, frozen=True, kw_only=True):
    """Rows of the state as of event `seq`, by id; null for a row that is gone."""

    seq: int
    agents: dict[str, AgentRow | None] = {}
    links: dict[str, LinkRow | None] = {}
    children: dict[str, ChildRow | None] = {}
    claims: dict[str, ClaimRow | None] = {}
    policies: dict[str, str | None] = {}
    """From a project to its policy, where that is not `open`."""
    topics: dict[str, list[str] | None] = {}
    """From a topic to the ids of its subscribers."""
    mail: dict[str, MailRow | None] = {}
    """The operator's, by message id."""
    whole: list[str] = []
    """The tables that are complete here: rows of them that are missing are gone."""


class Pulse(Reply, frozen=True, kw_only=True):
    """What an agent is doing now, as far as its client tells; never stored."""

    agent: str
    activity: str = ""
    """`busy`, `idle`, `waiting` (for its human) or `errored`; empty if nobody knows."""
    since: float = 0.0
    wants: str = ""
    """If it waits for its human: what for."""
    place: str = ""
    """Its terminal: a tmux pane such as `%3`, or a tty."""
    held: str = ""
    """If it is idle and may not be woken now: why."""
    shut: str = ""
    """If no path can get mail to it before its next turn: why."""
    way: str = ""
    """If it is idle: the path by which it is woken."""


class OverviewPage(Reply, frozen=True, kw_only=True):
    """The whole state in brief, page by page; `watch_feed` goes on from the first page's `seq`."""

    seq: int
    at: float
    rows: Rows
    pulses: list[Pulse] = []
    recent: list[FeedEvent] = []
    """The last events that went wrong: children that did not come up, expired messages, refusals."""
    next: str = ""
    """The `after` for the next page of agents; empty if this was the last."""


class Overview(Operation[OverviewPage], frozen=True, kw_only=True):
    """Agents, links, children, claims, policies, topics and the operator's open mail, as of one event.

    Follow it with `watch_feed(after=seq, live=true)` for a picture that stays true.
    """

    reply = OverviewPage
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    after: str = ""
    """The next page of agents, behind this id; the other tables come with the first page."""
    limit: int = 500


class ReportActivity(Operation[Done], frozen=True, kw_only=True):
    """Tell what this agent is doing, for listings and consoles; kept until it leaves, never stored.

    For programs: of agent CLIs their hooks tell.
    """

    reply = Done
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    activity: Activity
    wants: str = ""
    """With `waiting`: what it needs from its human."""


class FeedEvent(Reply, frozen=True, kw_only=True):
    """One committed event, in brief; with `after`, with all its ids.

    A frame of type `gap` is no event: `missed` events up to `seq` are left out, because the watcher did not
    read. Ask for `overview` then.
    """

    seq: int
    at: float
    type: str
    """The event's word, such as `message_queued`."""
    who: str = ""
    whom: list[str] = []
    text: str = ""
    """Of a message, the beginning of its body."""
    link: str = ""
    """The id of the link it happened on."""
    missed: int = 0
    """How many events before this one were dropped, because the watcher did not read."""
    agent: str = ""
    """With `after`: the id of the agent it is about; of a message, its sender's."""
    whom_ids: list[str] = []
    """With `after`: the ids of `whom`."""
    ids: list[str] = []
    """With `after`: the messages it is about, all of them."""
    detail: dict[str, Any] = {}
    """With `after`: what else `read_audit` tells of it."""


class Watching(Reply, frozen=True, kw_only=True):
    """From where the feed goes on."""

    seq: int = 0
    """With `after`: the newest event; what is behind `after` comes first."""
    reset: bool = False
    """`after` is too old, or of another journal: the feed goes on at `seq`; ask for `overview` again."""


class WatchFeed(Operation[Watching], frozen=True, kw_only=True):
    """From now on, get a `feed` frame on this connection for each committed event.

    With `after` the events behind that one come first, and none is left out; without, only new ones come, and
    their details are put into `text`.
    """

    reply = Watching
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    after: int | None = None
    """The last event that the caller knows: go on behind it."""
    agents: list[str] = []
    """With `after`: only events that concern one of these agents."""
    types: list[str] = []
    """With `after`: only events of these types, such as `message_queued`."""
    link: str | None = None
    """With `after`: only events of this link."""
    chars: int = 200
    """With `after`: how much of each body to tell."""
    live: bool = False
    """With `after`: also `rows` frames with changed state, and `pulse` frames with what agents do."""
