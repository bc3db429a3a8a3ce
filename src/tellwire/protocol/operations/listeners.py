"""Operations on listeners, who hear how others' turns end, and on checkpoints, which nobody hears."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import AGENT, CLI, HTTP, SDK, Operation, Reply


class Listening(Reply, frozen=True, kw_only=True):
    """The agents the caller listens to after the call."""

    agents: list[str] = []


class Listen(Operation[Listening], frozen=True, kw_only=True):
    """Hear once per turn that an agent stopped, failed, waits for its human, is gone or overdue."""

    reply = Listening
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    agent: str


class Unlisten(Operation[Listening], frozen=True, kw_only=True):
    """Hear no more of an agent's turns."""

    reply = Listening
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    agent: str


class MarkCheckpoint(Operation[Done], frozen=True, kw_only=True):
    """The next turn of an agent is a checkpoint: its answer crosses no link and is told to no listener."""

    reply = Done
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, HTTP})
    name: str | None = None
    """Another agent's name: not for agents. Left out: oneself."""
