"""Operations of a question to a fresh agent: ask it, or want the answer no longer."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import CLI, MCP, SDK, SPEAKERS, Operation, Reply


class Answered(Reply, frozen=True, kw_only=True):
    """What an agent that was started for one question answered; it is gone."""

    client: str
    name: str
    """The name it had while it worked."""
    text: str
    message: str = ""
    """The id of the answer in the history."""
    took_s: float = 0.0


class AskAgent(Operation[Answered], frozen=True, kw_only=True):
    """Start an agent for one question and get its answer; it ends afterwards and leaves nothing behind."""

    reply = Answered
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    runs = "deferred"
    repeats = True
    path_fields = ("cwd",)
    client: str
    """Which agent CLI; `command` for any other program."""
    question: str
    cwd: str = ""
    command: list[str] = []
    """For `command`: the program and its arguments."""
    timeout_s: float | None = None
    """How long it may take. Left out: five minutes."""
    key: str = ""
    """The caller's request id; a repeat gets the same answer, or learns that it is lost."""


class CancelAsk(Operation[Done], frozen=True, kw_only=True):
    """Cancel a question: the agent that was started for it is stopped."""

    reply = Done
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    key: str
    """The request id of the question."""
