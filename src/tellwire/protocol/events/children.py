"""Committed facts about who is whose peer or child, and who may touch what.

Only what a parent's model has to hear of is for `AGENT`; that scope went on to a grandchild never is (AUD-3).
"""

from __future__ import annotations

from typing import TypeAlias

from tellwire.protocol.events.base import Audience, Event, word
from tellwire.protocol.operations.scopes import ScopeRule

# -- peers --------------------------------------------------------------------------------------------


class PeersJoined(Event, tag=word, frozen=True, array_like=True):
    """Two agents are peers of each other: both directions are this one fact."""

    audience = Audience.CONTROL
    agent: str
    peer: str


class PeersParted(Event, tag=word, frozen=True, array_like=True):
    """Two agents are peers no longer."""

    audience = Audience.CONTROL
    agent: str
    peer: str


class PolicySet(Event, tag=word, frozen=True, array_like=True):
    """Who sees whom in a project: `open`, or `peers` only."""

    audience = Audience.CONTROL
    group: str
    policy: str


# -- scopes -------------------------------------------------------------------------------------------


class ScopeClaimed(Event, tag=word, frozen=True, array_like=True):
    """An agent claimed paths for itself; the same path again replaces the claim."""

    audience = Audience.CONTROL
    agent: str
    rules: list[ScopeRule]
    until: float = 0.0
    """When it ends on the awake clock; 0 for never."""


class ScopeReleased(Event, tag=word, frozen=True, array_like=True):
    """An agent holds these claims no longer."""

    audience = Audience.CONTROL
    agent: str
    rules: list[ScopeRule]
    reason: str
    """`asked`, `expired` or `gone`."""


class ScopeSubDelegated(Event, tag=word, frozen=True, array_like=True):
    """To one agent above: somebody beneath it gave scope on to a child of its own.

    It climbs from parent to parent, one event for each of them, and enters no inbox.
    """

    audience = Audience.CONTROL
    agent: str
    """The agent that is notified."""
    via: str
    """Its own child, which tells it."""
    child: str
    """Who got the scope."""
    rules: list[ScopeRule] = []


# -- children -----------------------------------------------------------------------------------------


class ChildReserved(Event, tag=word, frozen=True, array_like=True):
    """An agent is to be started as a child; its name and scope are taken."""

    audience = Audience.CONTROL
    agent: str
    parent: str
    task: str
    command: list[str] = []
    """What to run, if it is no client that we know."""
    cwd: str = ""
    scoped: bool = False
    """It may write within `rules` only."""
    rules: list[ScopeRule] = []
    listen: bool = False
    headless: bool = False
    key: str = ""
    """The parent's request id: a repeat starts no second child."""
    again: bool = False
    """The agent was known before, and will be after a start that fails."""
    asked: bool = False
    """It is there for one question, and ends with its answer."""


class ChildStarted(Event, tag=word, frozen=True, array_like=True):
    """The process of a child runs."""

    audience = Audience.CONTROL
    agent: str
    process: str
    """As `pid.start`."""
    session: str = ""
    """The word by which the child itself is known."""
    place: str = ""
    """Where a person finds it: a tmux window, or the file with its output."""
    held_by: str = ""
    """What of its client's own holds it to its scope: `sandbox`, `rules`, or nothing."""


class ChildConfirmed(Event, tag=word, frozen=True, array_like=True):
    """A child is up; its task follows."""

    audience = Audience.CONTROL
    agent: str


class ChildFailed(Event, tag=word, frozen=True, array_like=True):
    """A child did not come up: its reservation is gone, and so is its name."""

    audience = Audience.CONTROL
    agent: str
    reason: str
    output: str = ""
    """The end of what it said itself."""


class ChildReported(Event, tag=word, frozen=True, array_like=True):
    """A message has told the parent how a turn of its child ended."""

    audience = Audience.CONTROL
    agent: str
    message: int


class ChildUnheard(Event, tag=word, frozen=True, array_like=True):
    """The parent's inbox had no room for what its child said."""

    audience = Audience.CONTROL
    agent: str
    turn: str


class ChildStopAsked(Event, tag=word, frozen=True, array_like=True):
    """A child is to end."""

    audience = Audience.CONTROL
    agent: str
    by: str


class ChildEnded(Event, tag=word, frozen=True, array_like=True):
    """A child has ended: its scope and its children pass to its parent."""

    audience = Audience.AGENT
    agent: str
    how: str
    """`asked`, `exited` or `killed`."""


ChildEvent: TypeAlias = (
    PeersJoined
    | PeersParted
    | PolicySet
    | ScopeClaimed
    | ScopeReleased
    | ScopeSubDelegated
    | ChildReserved
    | ChildStarted
    | ChildConfirmed
    | ChildFailed
    | ChildReported
    | ChildUnheard
    | ChildStopAsked
    | ChildEnded
)
