"""Committed facts. Each event class names its audience and its version; the journal holds nothing else.

`AGENT` events may enter a model's context and may wake it; `CONTROL` events never do (AUD-1). Applying
an event never looks at the audience (AUD-2). A changed shape gets a higher `version`, hence a new tag in the
journal, and an upcaster from the old one; golden samples of every released shape must load for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from tellwire.protocol.events.base import Audience, Event
from tellwire.protocol.events.base import second_word as _second_word
from tellwire.protocol.events.base import word as _word
from tellwire.protocol.events.children import ChildEvent
from tellwire.protocol.events.links import ConversationEvent
from tellwire.protocol.events.machines import MachineEvent
from tellwire.protocol.operations.base import snake_case


class BrokerStarted(Event, tag=_word, frozen=True, array_like=True):
    """A broker's life began: an epoch. Nobody is connected yet."""

    audience = Audience.CONTROL
    version_text: str


class AgentRegistered(Event, tag=_second_word, frozen=True, array_like=True):
    """A new agent, with its first session; its id is this event's sequence."""

    audience = Audience.CONTROL
    version = 2
    name: str
    kind: str
    session: str
    group: str = ""
    capabilities: list[str] = []
    metadata: dict[str, Any] = {}
    process: str = ""
    """The client's process, as `pid.start`."""
    owner: str = ""
    """The process that *is* the agent, if any: all beneath it speaks as this agent only."""


class SessionStarted(Event, tag=_second_word, frozen=True, array_like=True):
    """A known agent came (back) online; leases of an earlier session return."""

    audience = Audience.CONTROL
    version = 2
    agent: str
    session: str
    group: str = ""
    capabilities: list[str] = []
    metadata: dict[str, Any] = {}
    process: str = ""
    owner: str = ""
    seen: list[int] = []
    """Leased messages that the earlier session had claimed: it may have shown them."""
    keeps: bool = False
    """It is the same session come back, and its leases go on."""
    was: str = ""
    """The agent that this session was until now, and that is forgotten with this."""


class SessionPlaced(Event, tag=_word, frozen=True, array_like=True):
    """Where the session of an agent is, and which conversation of its client."""

    audience = Audience.CONTROL
    agent: str
    folder: str
    pane: str = ""
    conversation: str = ""
    """Empty: not known, or as before."""
    provisional: bool = False
    """The agent is new, and may turn out to be another."""


class AgentUpdated(Event, tag=_word, frozen=True, array_like=True):
    """An agent changed what it says of itself; None means unchanged."""

    audience = Audience.CONTROL
    agent: str
    name: str | None = None
    capabilities: list[str] | None = None
    metadata: dict[str, Any] | None = None
    kind: str | None = None


class AgentOnline(Event, tag=_word, frozen=True, array_like=True):
    """A silent agent showed life again; its session never ended."""

    audience = Audience.CONTROL
    agent: str


class AgentOffline(Event, tag=_word, frozen=True, array_like=True):
    """An agent went. `left` and `disconnected` end its session and return its leases; `silent` does not."""

    audience = Audience.CONTROL
    agent: str
    reason: str
    seen: list[int] = []


class AgentMuted(Event, tag=_word, frozen=True, array_like=True):
    """An agent is to be left alone from now on, or no longer."""

    audience = Audience.CONTROL
    agent: str
    muted: bool
    until: float = 0.0
    """When that ends by itself; 0 for never."""


class AgentForgotten(Event, tag=_word, frozen=True, array_like=True):
    """An agent and its mailbox are gone; its name is free."""

    audience = Audience.CONTROL
    agent: str


class MessageQueued(Event, tag=_word, frozen=True, array_like=True):
    """A message is in its recipients' inboxes. The body is only in the store's `messages`."""

    audience = Audience.AGENT
    sender: str
    """The agent's id; empty for the broker's own notices."""
    sender_name: str
    to: str
    recipients: list[str]
    size: int
    digest: str
    ttl_s: float
    kind: str = "request"
    re: str = ""
    mode: str = ""
    json: bool = False
    """The body is a JSON value in text form, not plain text."""
    context: str = ""
    key: str = ""
    several: bool = False
    """It was addressed to more than one: answered `sent`."""
    link: str = ""
    """The link on which it was said."""
    said: int = 0
    """Its number there."""
    hops: int = 0
    """How many turns, each started by the one before, led to it since a person's message."""
    turn: str = ""
    """It is what was finally said in this turn of the sender; empty if it was sent."""
    weak: bool = False
    """It waits for the recipient's next turn, and begins none."""
    origin: int = 0
    """If it came from another machine: its number there."""
    repeat: bool = False
    """It may have come before: a store was put back to an older copy."""


class MessagesDelivered(Event, tag=_word, frozen=True, array_like=True):
    """Messages were handed to an agent's client, on a lease: this event's sequence."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]
    call: str = ""
    """The call by which the client fetched them; empty if they were pushed to it."""


class MessagesReturned(Event, tag=_word, frozen=True, array_like=True):
    """A lease ended without evidence, and its session goes on: the messages wait again."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]


class MessagesRead(Event, tag=_word, frozen=True, array_like=True):
    """There is evidence that messages entered the recipient's context."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]
    evidence: str


class MessageAnswered(Event, tag=_word, frozen=True, array_like=True):
    """The recipient replied to a message."""

    audience = Audience.CONTROL
    agent: str
    seq: int


class MessagesExpired(Event, tag=_second_word, frozen=True, array_like=True):
    """Messages waited past their time to live, or their recipient was forgotten."""

    audience = Audience.CONTROL
    version = 2
    agent: str
    seqs: list[int]
    shown: list[int] = []
    """Those of them that a session may have shown before it ended without a word of it."""


class TopicJoined(Event, tag=_word, frozen=True, array_like=True):
    """An agent subscribed to a topic."""

    audience = Audience.CONTROL
    agent: str
    topic: str


class TopicLeft(Event, tag=_word, frozen=True, array_like=True):
    """An agent unsubscribed from a topic."""

    audience = Audience.CONTROL
    agent: str
    topic: str


class CallRefused(Event, tag=_word, frozen=True, array_like=True):
    """A caller was refused, `count` times for the same reason within a second."""

    audience = Audience.CONTROL
    caller: str
    """The agent's id, or `operator` or `script`."""
    operation: str
    """Empty if the call could not be read."""
    code: str
    """The error's code, or the status of a send that reached nobody."""
    count: int = 1
    since: float = 0.0
    """When the first of them came."""


AnyEvent: TypeAlias = (
    BrokerStarted
    | AgentRegistered
    | SessionStarted
    | SessionPlaced
    | AgentUpdated
    | AgentOnline
    | AgentOffline
    | AgentMuted
    | AgentForgotten
    | MessageQueued
    | MessagesDelivered
    | MessagesReturned
    | MessagesRead
    | MessageAnswered
    | MessagesExpired
    | TopicJoined
    | TopicLeft
    | ConversationEvent
    | CallRefused
    | ChildEvent
    | MachineEvent
)

EVENTS: dict[str, type[Event]] = {snake_case(kind.__name__): kind for kind in AnyEvent.__args__}

Upcaster: TypeAlias = Callable[[list[Any]], list[Any]]


def _name_owner(word: str, place: int) -> Upcaster:
    """An upcaster from the time when an event said only whether the process before `place` was the agent."""

    def lifted(row: list[Any]) -> list[Any]:
        rest = row[1:]
        if len(rest) > place and isinstance(rest[place], bool):
            rest[place] = rest[place - 1] if rest[place] else ""
        return [word, *rest]

    return lifted


UPCASTERS: dict[str, Upcaster] = {
    "agent_registered": _name_owner("agent_registered.2", 7),
    "session_started": _name_owner("session_started.2", 6),
    "messages_expired": lambda row: ["messages_expired.2", *row[1:]],
}
"""From a retired journal word to a function that rewrites such an event into its next shape."""

_batch_decoder = msgspec.json.Decoder(list[AnyEvent])
_encoder = msgspec.json.Encoder()


def format_batch(events: list[AnyEvent]) -> bytes:
    return _encoder.encode(events)


def parse_batch(data: bytes) -> list[AnyEvent]:
    """Decode the events of one commit, lifting retired shapes to today's.

    Raises:
        msgspec.ValidationError: an event this version does not know.
    """
    try:
        return _batch_decoder.decode(data)
    except msgspec.ValidationError:
        rows = msgspec.json.decode(data, type=list[list[Any]])
        return msgspec.convert([lift(row) for row in rows], list[AnyEvent])


def lift(row: list[Any], upcasters: dict[str, Upcaster] = UPCASTERS) -> list[Any]:
    """Rewrite a retired event shape step by step into today's."""
    while row and (upcaster := upcasters.get(row[0])) is not None:
        row = upcaster(row)
    return row
