"""Operations on scopes: claim paths, give them back, ask whose a path is, see them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

import msgspec

from tellwire.protocol.operations.base import CLI, MCP, SDK, SPEAKERS, Operation, Reply

Access: TypeAlias = Literal["read", "write"]


class ScopeRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One path and what may be done there. Not recursive: the path itself and what lies directly in it."""

    path: str
    """Absolute, without `..`, symbolic links resolved."""
    access: Access = "write"
    recursive: bool = True

    def __str__(self) -> str:
        return f"{self.access} {self.path}" + ("" if self.recursive else " (not beneath)")


class ClaimRecord(Reply, frozen=True, kw_only=True):
    """One rule that an agent holds."""

    path: str
    access: Access
    recursive: bool = True
    until: float = 0.0
    """When it ends if it is not claimed again, in Unix seconds; 0 for never."""


class ScopeRecord(Reply, frozen=True, kw_only=True):
    """The claims of one agent."""

    name: str
    parent: str = ""
    """Whose child it is; empty for nobody's."""
    scoped: bool = False
    """It may write within its rules only; else also where nobody has a claim."""
    enforced: str = ""
    """`enforced`: its client's own sandbox or rules hold it; `advisory`: a hook asks it to."""
    why: str = ""
    """Why it is enforced or only advisory."""
    status: str = ""
    """`online` or `offline`."""
    rules: list[ClaimRecord] = []


class Scopes(Reply, frozen=True, kw_only=True):
    """All claims, parents before their children."""

    scopes: list[ScopeRecord] = []


class Claims(Reply, frozen=True, kw_only=True):
    """What the caller holds after the call."""

    name: str
    rules: list[ClaimRecord] = []
    changed: bool = False


class ClaimScope(Operation[Claims], frozen=True, kw_only=True):
    """Claim paths, so that no other agent writes there. Claiming again extends the claim.

    All rules are granted or none. Writing is exclusive on the machine; reading is shared.
    """

    reply = Claims
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    path_fields = ("rules",)
    rules: Sequence[ScopeRule | str]
    """A plain path means: write there and below."""
    for_s: float | None = None
    """How long, unless released. Left out: the default time."""


class ReleaseScope(Operation[Claims], frozen=True, kw_only=True):
    """Release claims: those on these paths, or all."""

    reply = Claims
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    path_fields = ("paths",)
    paths: list[str] = []
    """Empty: all of them."""


class Ownership(Reply, frozen=True, kw_only=True):
    """Who owns a path, and whether the caller may write there."""

    path: str
    owner: str = ""
    """The only agent that may write there; empty if nobody has claimed it."""
    rule: ClaimRecord | None = None
    """The claim that decides it."""
    through: list[str] = []
    """The parents that passed the scope on, nearest first."""
    readers: list[str] = []
    """Agents with a read claim there."""
    may_write: bool = True
    """Whether the caller may write there."""
    reason: str = ""
    enforced: str = ""
    """How a refusal is held up: `enforced` or `advisory`; empty if the caller may write."""
    why: str = ""


class WhoOwns(Operation[Ownership], frozen=True, kw_only=True):
    """Who owns a path, and whether the caller may write there."""

    reply = Ownership
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    path_fields = ("path",)
    path: str


class ListScopes(Operation[Scopes], frozen=True, kw_only=True):
    """All scopes on this machine, as a tree of parents and children."""

    reply = Scopes
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
