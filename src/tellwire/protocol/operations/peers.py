"""Operations on peers: shake hands, part, write to a peer, and who sees whom in a project."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from tellwire.protocol.operations.base import CLI, MCP, SDK, SPEAKERS, Operation, Reply
from tellwire.protocol.operations.messages import Json, Sent

Policy: TypeAlias = Literal["open", "peers"]


class PeerRecord(Reply, frozen=True, kw_only=True):
    """One peer, as far as a list needs it."""

    name: str
    kind: str = ""
    status: str = ""
    """`online` or `offline`."""
    group: str = ""


class Peers(Reply, frozen=True, kw_only=True):
    """The peers of an agent after the call."""

    name: str
    """The agent whose peers these are."""
    peers: list[PeerRecord] = []
    changed: bool = False
    """Whether the call changed anything; a repeat does not."""


class RegisterPeer(Operation[Peers], frozen=True, kw_only=True):
    """Become a peer of another agent, and it of the caller; or, for the operator, make two agents peers.

    Peers see each other and can send to each other; they get no scope, output or notice of each other.
    """

    reply = Peers
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str
    other: str | None = None
    """The second agent; operator only. Left out: the caller itself."""


class RemovePeer(Operation[Peers], frozen=True, kw_only=True):
    """End a peer relation, for both."""

    reply = Peers
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str
    other: str | None = None
    """The second agent; operator only. Left out: the caller itself."""


class ListPeers(Operation[Peers], frozen=True, kw_only=True):
    """The peers of an agent: the caller's own, or for the operator anyone's."""

    reply = Peers
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str | None = None
    """Left out: the caller's own."""


class SendToPeer(Operation[Sent], frozen=True, kw_only=True):
    """Send to a peer only; a child or parent does not count as one."""

    reply = Sent
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, MCP})
    repeats = True
    to: str
    """The peer's name."""
    body: Json
    re: str | None = None
    ttl_s: float | None = None
    key: str = ""
    """The caller's request id, as in `send_message`."""


class PolicyState(Reply, frozen=True, kw_only=True):
    """The policy of one project."""

    group: str
    policy: Policy
    changed: bool = False


class MeshPolicy(Operation[PolicyState], frozen=True, kw_only=True):
    """Show who sees whom in a project, or for the operator, set it.

    `open`: all agents see each other. `peers`: only parents, children, peers and members of a link do.
    """

    reply = PolicyState
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    group: str = ""
    """The project's folder. Left out: the caller's own."""
    policy: Policy | None = None
    """Left out: only show it."""
