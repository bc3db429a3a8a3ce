"""Operations on children: start an agent with a task and a scope, end it, see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tellwire.protocol.operations.base import AGENT, CLI, MCP, OPERATOR, SDK, Operation, Reply
from tellwire.protocol.operations.scopes import ScopeRule


class ChildRecord(Reply, frozen=True, kw_only=True):
    """One child."""

    id: str
    name: str
    kind: str = ""
    parent: str = ""
    """Empty if those who started it are gone."""
    status: str = ""
    """`reserved`, `started`, `running`, `stopping`; of one that was up and is no more already, `ended`."""
    scoped: bool = False
    rules: list[ScopeRule] = []
    enforced: str = ""
    """Of one with a scope: `enforced` if its client's own sandbox or rules hold it, else `advisory`."""
    why: str = ""
    place: str = ""
    """Where a person finds it: a window of tmux, or the file of its output."""
    since: float = 0.0


class EndedRecord(Reply, frozen=True, kw_only=True):
    """A child that is no more."""

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
    """The last ones that are no more, newest first."""


class SpawnAgent(Operation[ChildRecord], frozen=True, kw_only=True):
    """Start an agent of one's own, with a task and a scope to write in."""

    reply = ChildRecord
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str
    client: str
    """Which agent CLI; `command` for any other program."""
    task: str
    scope: Sequence[ScopeRule | str] | None = None
    """Left out: it may write where nobody has a claim. An empty list: nowhere."""
    cwd: str = ""
    command: list[str] = []
    """For `command`: the program and its words."""
    listen: bool = True
    """Hear how each of its turns ends."""
    headless: bool = False
    """Without a window."""
    key: str = ""
    """The caller's request id: a repeat is answered with the same child."""


class StopAgent(Operation[ChildRecord], frozen=True, kw_only=True):
    """End a child, one's own or a grandchild; for the operator, anybody's."""

    reply = ChildRecord
    callers: ClassVar[frozenset[str]] = frozenset({AGENT, OPERATOR})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str


class ListChildren(Operation[Children], frozen=True, kw_only=True):
    """One's children and theirs; for the operator, all."""

    reply = Children
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
