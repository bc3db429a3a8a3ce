"""Operations on peers: shake hands, part, write to a peer, and who sees whom in a project."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from tellwire.protocol.operations.base import AGENT, CLI, MCP, SDK, Operation, Reply
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
    """Whose peers they are."""
    peers: list[PeerRecord] = []
    changed: bool = False
    """The call made or ended a relation; asking twice changes nothing."""


class RegisterPeer(Operation[Peers], frozen=True, kw_only=True):
    """Become peers, both of each other; or, for the operator, make two agents peers.

    Peers are colleagues: neither gets a scope, an output or an ending of the other.
    """

    reply = Peers
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str
    other: str | None = None
    """The second agent, for the operator only. Left out: the caller itself."""


class RemovePeer(Operation[Peers], frozen=True, kw_only=True):
    """Be peers no longer, neither of the other."""

    reply = Peers
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, MCP})
    name: str
    other: str | None = None
    """The second agent, for the operator only. Left out: the caller itself."""


class ListPeers(Operation[Peers], frozen=True, kw_only=True):
    """The peers of an agent: one's own, or for the operator anybody's."""

    reply = Peers
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str | None = None
    """Left out: one's own."""


class SendToPeer(Operation[Sent], frozen=True, kw_only=True):
    """Send to a peer, and to nobody who is not one; a child or parent is not."""

    reply = Sent
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, MCP})
    to: str
    """The peer's name."""
    body: Json
    re: str | None = None
    ttl_s: float | None = None
    key: str = ""
    """The caller's request id, as for any send."""


class PolicyState(Reply, frozen=True, kw_only=True):
    """The policy of one project."""

    group: str
    policy: Policy
    changed: bool = False


class MeshPolicy(Operation[PolicyState], frozen=True, kw_only=True):
    """Who sees whom in a project, and for the operator: set it.

    `open`: all agents see each other. `peers`: only parents, children, peers and members of a link do.
    """

    reply = PolicyState
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    group: str = ""
    """The project's folder; left out: the caller's own."""
    policy: Policy | None = None
    """Left out: only tell it."""
