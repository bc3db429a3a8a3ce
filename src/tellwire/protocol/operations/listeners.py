"""Operations on listeners, who hear how others' turns end, and on checkpoints, which nobody hears."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import CLI, SDK, SPEAKERS, Operation, Reply


class Listening(Reply, frozen=True, kw_only=True):
    """The agents the caller listens to after the call."""

    agents: list[str] = []


class Listen(Operation[Listening], frozen=True, kw_only=True):
    """Be notified, once per turn, when an agent stops, fails, waits for its human, ends or is overdue."""

    reply = Listening
    callers: ClassVar[frozenset[str]] = SPEAKERS
    agent: str


class Unlisten(Operation[Listening], frozen=True, kw_only=True):
    """Stop listening to an agent."""

    reply = Listening
    callers: ClassVar[frozenset[str]] = SPEAKERS
    agent: str


class MarkCheckpoint(Operation[Done], frozen=True, kw_only=True):
    """Keep an agent's next turn private: its answer goes to no link and to no listener."""

    reply = Done
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str | None = None
    """Another agent's name (not for agents). Left out: the caller."""
