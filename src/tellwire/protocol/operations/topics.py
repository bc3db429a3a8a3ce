"""Operations on topics: subscribe and unsubscribe; publishing is a send to `#topic`."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.base import CLI, SDK, SPEAKERS, Operation, Reply


class Topics(Reply, frozen=True, kw_only=True):
    """The topics the caller is subscribed to after the call."""

    topics: list[str] = []


class TopicRecord(Reply, frozen=True, kw_only=True):
    """One topic that somebody is subscribed to."""

    topic: str
    subscribers: list[str] = []
    """Their names, as far as the caller sees them."""


class TopicList(Reply, frozen=True, kw_only=True):
    """The topics, by name."""

    topics: list[TopicRecord] = []


class ListTopics(Operation[TopicList], frozen=True, kw_only=True):
    """All topics and who is subscribed to them; an agent sees those of agents that it sees."""

    reply = TopicList
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})


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
