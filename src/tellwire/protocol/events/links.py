"""Facts of conversations: turns that end, links and their members, listeners. See `protocol.events`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tellwire.protocol.events.base import Audience, Event
from tellwire.protocol.events.base import word as _word


class TurnEnded(Event, tag=_word, frozen=True, array_like=True):
    """A turn of an agent is over, or waits for a person. What was said is in messages only."""

    audience = Audience.AGENT
    agent: str
    turn: str
    outcome: str
    size: int = 0
    """Of what was finally said, in bytes."""
    digest: str = ""
    human: bool = False
    """A person's word started it."""
    checkpoint: bool = False
    """The turn was a checkpoint: it is not sent to anybody."""
    bare: bool = False
    """Nothing but an acknowledgement was said."""


class NewMember(msgspec.Struct, frozen=True, array_like=True):
    """An agent as it joins a link."""

    agent: str
    name: str
    number: int
    role: str = ""
    share: str = "all"


class LinkOpened(Event, tag=_word, frozen=True, array_like=True):
    """A conversation of several agents began; its id is this event's sequence."""

    audience = Audience.CONTROL
    members: list[NewMember]
    direct: bool = False
    opener: str = ""
    """The agent's id, or `operator` or `script`."""


class LinkJoined(Event, tag=_word, frozen=True, array_like=True):
    """An agent came into a link; with a third member it is no longer direct."""

    audience = Audience.CONTROL
    link: str
    member: NewMember
    by: str = ""


class LinkLeft(Event, tag=_word, frozen=True, array_like=True):
    """A member is out of a link: it left, was taken out, or its session ended."""

    audience = Audience.CONTROL
    link: str
    agent: str
    reason: str = ""


class LinkPaused(Event, tag=_word, frozen=True, array_like=True):
    """A link reached a bound: nothing crosses until it is resumed."""

    audience = Audience.CONTROL
    link: str
    reason: str


class LinkResumed(Event, tag=_word, frozen=True, array_like=True):
    """A paused link was resumed; its count of turns starts again."""

    audience = Audience.CONTROL
    link: str
    by: str = ""


class LinkClosed(Event, tag=_word, frozen=True, array_like=True):
    """A link is over for all its members."""

    audience = Audience.CONTROL
    link: str
    by: str = ""
    reason: str = ""


class ListenerAdded(Event, tag=_word, frozen=True, array_like=True):
    """An agent wants to hear how another's turns end."""

    audience = Audience.CONTROL
    agent: str
    """Who is listened to."""
    listener: str
    waits: bool = False
    """It gave that agent something to do, and waits for the end of it."""


class ListenerRemoved(Event, tag=_word, frozen=True, array_like=True):
    """An agent no longer wants to hear of another."""

    audience = Audience.CONTROL
    agent: str
    listener: str


class AgentOverdue(Event, tag=_word, frozen=True, array_like=True):
    """An agent that others listen to was given something, and told of no end for too long."""

    audience = Audience.AGENT
    agent: str


class CheckpointMarked(Event, tag=_word, frozen=True, array_like=True):
    """The next turn of an agent will be a checkpoint."""

    audience = Audience.CONTROL
    agent: str
    busy: bool = False
    """The current turn is not the checkpoint; the one after it is."""


ConversationEvent: TypeAlias = (
    TurnEnded
    | LinkOpened
    | LinkJoined
    | LinkLeft
    | LinkPaused
    | LinkResumed
    | LinkClosed
    | ListenerAdded
    | ListenerRemoved
    | AgentOverdue
    | CheckpointMarked
)
