"""Operations on topics: subscribe and unsubscribe; publishing is a send to `#topic`."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.base import SPEAKERS, Operation, Reply


class Topics(Reply, frozen=True, kw_only=True):
    """The topics the caller is subscribed to after the call."""

    topics: list[str] = []


class Subscribe(Operation[Topics], frozen=True, kw_only=True):
    """Subscribe to a topic, also while offline."""

    reply = Topics
    callers: ClassVar[frozenset[str]] = SPEAKERS
    topic: str


class Unsubscribe(Operation[Topics], frozen=True, kw_only=True):
    """Unsubscribe from a topic; waiting messages are kept."""

    reply = Topics
    callers: ClassVar[frozenset[str]] = SPEAKERS
    topic: str
