"""Operations on children: start an agent with a task and a scope, end it, see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tellwire.protocol.operations.base import CLI, MCP, SDK, SPEAKERS, Operation, Reply
from tellwire.protocol.operations.scopes import ScopeRule


class ChildRecord(Reply, frozen=True, kw_only=True):
    """One child."""

    id: str
    name: str
    kind: str = ""
    parent: str = ""
    """Empty if the agents that started it are gone."""
    status: str = ""
    """`reserved`, `started`, `running` or `stopping`; `ended` if it started and has already ended."""
    scoped: bool = False
    rules: list[ScopeRule] = []
    enforced: str = ""
    """If it has a scope: `enforced` if its client's own sandbox or rules enforce it, otherwise `advisory`."""
    why: str = ""
    place: str = ""
    """Where a person finds it: a tmux window, or the file with its output."""
    since: float = 0.0


class EndedRecord(Reply, frozen=True, kw_only=True):
    """A child that has ended."""

    name: str
    kind: str = ""
    parent: str = ""
    how: str = ""
    """`asked`, `exited` or `killed`."""
    at: float = 0.0
    result: str = ""
    """The message by which its parent was told what it said last; empty if no turn told."""


class Children(Reply, frozen=True, kw_only=True):
    """Children, and theirs, parents before their children."""

    children: list[ChildRecord] = []
    ended: list[EndedRecord] = []
    """Children that ended recently, newest first."""


class SpawnAgent(Operation[ChildRecord], frozen=True, kw_only=True):
    """Start an agent as a child, with a task and a scope it may write in."""

    reply = ChildRecord
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    runs = "deferred"
    repeats = True
    path_fields = ("scope", "cwd")
    name: str
    client: str
    """Which agent CLI; `command` for any other program."""
    task: str
    scope: Sequence[ScopeRule | str] | None = None
    """Left out: it may write wherever nobody has a claim. An empty list: nowhere."""
    cwd: str = ""
    command: list[str] = []
    """For `command`: the program and its arguments."""
    listen: bool = True
    """Be notified each time it finishes a turn."""
    headless: bool = False
    """Run it without a tmux window."""
    key: str = ""
    """The caller's request id; a repeat returns the same child."""


class StopAgent(Operation[ChildRecord], frozen=True, kw_only=True):
    """Stop a child or grandchild of the caller; for the operator, any child."""

    reply = ChildRecord
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str


class ListChildren(Operation[Children], frozen=True, kw_only=True):
    """The caller's children and their children; for the operator, all."""

    reply = Children
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
