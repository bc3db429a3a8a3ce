"""Operations on the broker itself: how it is, what is wrong, and stop."""

from __future__ import annotations

from typing import ClassVar, Literal

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply


class BrokerState(Reply, frozen=True, kw_only=True):
    """The broker at a glance."""

    pid: int
    version: str
    uptime_s: float
    agents: int
    """Registered agents."""
    online: int
    pending: int
    """Messages that are waiting or being delivered."""
    connections: int
    sequence: int
    """Events journaled so far."""
    storage: str = "ok"
    """`ok`, or why nothing can be stored at the moment."""
    storage_advice: str = ""
    """What to do about it."""
    lost: list[str] = []
    """What was lost from the journal and has not been acknowledged."""
    home: str = ""


class BrokerStatus(Operation[BrokerState], frozen=True, kw_only=True):
    """The state of the broker."""

    reply = BrokerState
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})


class HookFault(Reply, frozen=True, kw_only=True):
    """Hooks of a client that could not be understood, in this life of the broker."""

    client: str
    count: int
    last_at: float
    error: str
    """Of the last one."""


class OldLease(Reply, frozen=True, kw_only=True):
    """Messages handed to an agent a while ago, of which nothing shows that they were read."""

    agent: str
    ids: list[str]
    since: float
    stuck: bool = False
    """The client is idle and has had longer than its path needs: nothing will settle it by itself."""


class SessionFault(Reply, frozen=True, kw_only=True):
    """What keeps mail from one online agent, or makes it wait for somebody."""

    agent: str
    kind: str
    what: Literal["deaf", "failed", "dialog"]
    """No hook of its session was heard; its last wake failed; a dialog waits for its human."""
    why: str
    since: float = 0.0
    """Since when; 0 if that is not known."""
    started_at: float = 0.0
    """When the client's process started; 0 if that is not known."""
    waiting: int = 0
    """Messages waiting for it."""


class Diagnosis(Reply, frozen=True, kw_only=True):
    """What the broker knows to be wrong, and cannot be seen from outside."""

    faults: list[HookFault] = []
    leases: list[OldLease] = []
    """The oldest first, at most a hundred."""
    sessions: list[SessionFault] = []
    """At most a hundred."""
    hooks_port: int = 0
    """The port on which it listens for hooks over HTTP; 0 if it does not."""
    typing: bool = True
    """Whether typing into tmux is enabled."""


class Diagnose(Operation[Diagnosis], frozen=True, kw_only=True):
    """The problems that the broker knows of."""

    reply = Diagnosis
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})


class StopBroker(Operation[Done], frozen=True, kw_only=True):
    """Stop the broker once pending replies are sent; not for agents."""

    reply = Done
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
