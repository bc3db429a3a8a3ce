"""Operations on the broker itself: how it is, and stop."""

from __future__ import annotations

from typing import ClassVar

from palaver.protocol.operations.agents import Done
from palaver.protocol.operations.base import CLI, HTTP, OPERATOR, SCRIPT, SDK, Operation, Reply


class BrokerState(Reply, frozen=True, kw_only=True):
    """The broker at a glance."""

    pid: int
    version: str
    uptime_s: float
    agents: int
    """Known agents."""
    online: int
    pending: int
    """Messages that wait or are on the way."""
    connections: int
    sequence: int
    """Events journaled so far."""
    storage: str = "ok"
    """`ok`, or why nothing can be stored at the moment."""
    home: str = ""


class BrokerStatus(Operation[BrokerState], frozen=True, kw_only=True):
    """How the broker is."""

    reply = BrokerState
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, HTTP})


class StopBroker(Operation[Done], frozen=True, kw_only=True):
    """Stop the broker after the replies under way; agents cannot ask for it."""

    reply = Done
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
