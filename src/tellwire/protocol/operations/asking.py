"""Operations of a question to a fresh agent: ask it, or want the answer no longer."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import AGENT, CLI, MCP, SDK, Operation, Reply


class Answered(Reply, frozen=True, kw_only=True):
    """What an agent that was started for one question answered; it is gone."""

    client: str
    name: str
    """Under which it was known while it worked."""
    text: str
    message: str = ""
    """The id under which history has the answer."""
    took_s: float = 0.0


class AskAgent(Operation[Answered], frozen=True, kw_only=True):
    """Start an agent for one question, and get its answer; nothing of it is left."""

    reply = Answered
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    client: str
    """Which agent CLI; `command` for any other program."""
    question: str
    cwd: str = ""
    command: list[str] = []
    """For `command`: the program and its words."""
    timeout_s: float | None = None
    """Within which it must have answered; left out: five minutes."""
    key: str = ""
    """The caller's request id: a repeat gets the same answer, or learns that it is lost."""


class CancelAsk(Operation[Done], frozen=True, kw_only=True):
    """Want the answer to a question no longer: the agent that was started for it ends."""

    reply = Done
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    key: str
    """Of the question."""
