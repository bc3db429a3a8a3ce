"""The live view of committed events, for people who watch.

A watcher never harms: one that does not read gets nothing more until it does, and is then told how much it
missed. Of one tick a watcher gets a bounded number of events.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tellwire.broker.ports import Source
from tellwire.core.record.audit import describe, namer, word_of
from tellwire.core.record.stored import StoredMessage
from tellwire.core.state import State
from tellwire.protocol.events import AnyEvent, MessageQueued
from tellwire.protocol.frames import format_feed
from tellwire.protocol.operations.feed import FeedEvent

EVENTS_PER_TICK_MAX = 256
TEXT_LENGTH_MAX = 200
WHOM_MAX = 20
"""Names of recipients in one frame."""


class Watcher:
    """One connection that watches."""

    __slots__ = ("missed", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.missed = 0


class Feed:
    """All watchers."""

    def __init__(self, former_name: Callable[[str], str]) -> None:
        self._former_name = former_name
        self.watchers: dict[int, Watcher] = {}

    def watch(self, source: Source) -> None:
        """Tell this connection of every event from now on; again is harmless."""
        self.watchers.setdefault(id(source), Watcher(source))

    def forget(self, source: Source) -> None:
        """Remove a watcher whose connection was closed."""
        self.watchers.pop(id(source), None)

    def publish(self, state: State, events: list[AnyEvent], fresh: dict[int, StoredMessage]) -> None:
        """After a commit: tell the watchers, each as much as it can take."""
        awake: list[Watcher] = []
        for watcher in self.watchers.values():
            if watcher.source.writable:
                awake.append(watcher)
            else:
                watcher.missed += len(events)
        if not awake:
            return
        first = state.seq - len(events) + 1
        name_of = namer(state, self._former_name)
        told = [
            _brief(event, first + place, state.now, fresh, name_of)
            for place, event in enumerate(events[:EVENTS_PER_TICK_MAX])
        ]
        whole = b"".join(map(format_feed, told))
        for watcher in awake:
            frames = whole
            if watcher.missed:
                head = format_feed(_with_missed(told[0], watcher.missed))
                frames = head + b"".join(map(format_feed, told[1:]))
            watcher.missed = len(events) - len(told)
            watcher.source.offer(frames)
            watcher.source.flush()


def _brief(
    event: AnyEvent, seq: int, at: float, fresh: dict[int, StoredMessage], name_of: Callable[[str], str]
) -> FeedEvent:
    line = describe(event, seq, name_of)
    message = fresh.get(seq)
    if message is not None:
        text = message.body
    else:
        text = ", ".join(f"{key} {_words(value)}" for key, value in line.detail.items() if value != "")
    return FeedEvent(
        seq=seq,
        at=at,
        type=word_of(event),
        who=line.who,
        whom=line.whom[:WHOM_MAX],
        text=text[:TEXT_LENGTH_MAX],
        link=event.link if isinstance(event, MessageQueued) else str(line.detail.get("link", "")),
    )


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType]  # a list of words


def _with_missed(event: FeedEvent, missed: int) -> FeedEvent:
    return msgspec.structs.replace(event, missed=missed)
