"""The live feed: every committed event as it happens, for people who watch."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply


class FeedEvent(Reply, frozen=True, kw_only=True):
    """One committed event, in brief."""

    seq: int
    at: float
    type: str
    """The event's word, such as `message_queued`."""
    who: str = ""
    whom: list[str] = []
    text: str = ""
    """Of a message, the beginning of its body."""
    link: str = ""
    """The id of the link it happened on."""
    missed: int = 0
    """So many events before this one were dropped, because the watcher did not read."""


class WatchFeed(Operation[Done], frozen=True, kw_only=True):
    """From now on, get a `feed` frame on this connection for each committed event."""

    reply = Done
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
