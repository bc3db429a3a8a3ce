"""The operation on the journal as a record: who did what to whom, and what was refused."""

from __future__ import annotations

from typing import Any, ClassVar

from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply


class AuditRow(Reply, frozen=True, kw_only=True):
    """One event; a body appears by its digest only."""

    seq: int
    at: float
    type: str
    """The event's word, such as `message_queued`."""
    who: str = ""
    whom: list[str] = []
    detail: dict[str, Any] = {}


class Audit(Reply, frozen=True, kw_only=True):
    """Events in the order of the journal."""

    rows: list[AuditRow] = []
    more: bool = False
    """There are more rows in the requested direction."""
    head: str = ""
    """The hash of the newest commit, in hex; `audit --verify --head` can check the past against it later."""
    next: int = 0
    """If there are more rows: the `after` or `before` to continue with; even an empty page may have one."""


class Acknowledged(Reply, frozen=True, kw_only=True):
    """The losses that are no longer reported."""

    count: int


class AcknowledgeLosses(Operation[Acknowledged], frozen=True, kw_only=True):
    """Acknowledge what was lost from the journal, so that it is no longer reported; only for a person."""

    reply = Acknowledged
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR})
    surfaces: ClassVar[frozenset[str]] = frozenset({CLI})


class ReadAudit(Operation[Audit], frozen=True, kw_only=True):
    """The journal, one row per event: the newest rows, or the first ones after `after`."""

    reply = Audit
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    after: int = 0
    """Above 0: the first rows after this event. 0: the newest rows."""
    before: int = 0
    """Only rows before this event; 0 for no bound."""
    limit: int = 100
    types: list[str] = []
    """Only events of these types, such as `message_queued`."""
    agent: str | None = None
    """Only events that concern this agent."""
