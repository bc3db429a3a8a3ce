"""The live view of committed events, for people who watch.

A watcher never harms: one that does not read gets nothing more until it does, and is then told how much it
missed. Of one tick a watcher gets a bounded number of events.

A follower has a place in the journal. What it is sent lies directly behind that place: out of the tick that
was just committed or, if it is behind, out of the journal, a page at a time. So it may read slowly, or come
back after a crash of the broker, and misses nothing; only one that is very far behind gets `gap` and is moved
to the end. With `live` a page ends with the rows of the state that changed, as they are now: those of a page
that lies back may be ahead of its events, and are right when it has caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tellwire.broker.ports import Journal, Source
from tellwire.core.record.audit import NameOf, Wanted, describe, namer, type_name_of, whole_event
from tellwire.core.record.overview import Words, changed_by, rows_of
from tellwire.core.record.stored import Entry, StoredMessage
from tellwire.core.state import State
from tellwire.protocol.addresses import parse_link
from tellwire.protocol.events import AnyEvent, MessageQueued
from tellwire.protocol.frames import format_feed, format_pulse, format_rows
from tellwire.protocol.operations.feed import FeedEvent, Pulse, WatchFeed, Watching
from tellwire.protocol.operations.messages import MessageRecord

EVENTS_PER_TICK_MAX = 256
TEXT_LENGTH_MAX = 200
PAGE_MAX = 256
"""Events sent to one follower at once."""
BEHIND_MAX = 5_000
"""Events that a follower may be behind before it gets `gap`."""
WHOM_MAX = 20
"""Names of recipients in one frame."""


class Watcher:
    """A connection that is sent the feed, and how many events it missed."""

    __slots__ = ("missed", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.missed = 0


# -- those who keep a picture of the state ----------------------------------------------------------------


class Follower:
    """One connection, its position in the journal, and its filters."""

    __slots__ = ("at", "chars", "link", "live", "source", "stale", "told", "wanted")

    def __init__(self, source: Source, asked: WatchFeed, at: int, state: State) -> None:
        self.source = source
        self.at = at
        reached = (state.reach(name) for name in asked.agents)
        agents = frozenset(agent.id for agent in reached if agent is not None)
        self.wanted = Wanted(frozenset(asked.types), agents)
        self.link = "" if asked.link is None else parse_link(asked.link)
        self.chars = asked.chars
        self.live = asked.live
        self.stale: set[str] = set()
        """Agents whose change of activity was not sent to it yet."""
        self.told: dict[str, Pulse] = {}
        """What was sent to it last of each."""

    def wants(self, entry: Entry, told: FeedEvent) -> bool:
        """Whether an event passes its filters."""
        return (not self.link or told.link == self.link) and self.wanted.takes(entry)


class Page:
    """Consecutive events with their bodies; encoded once for all followers."""

    def __init__(self, entries: Sequence[Entry], bodies: dict[int, str]) -> None:
        self.entries = entries
        self._bodies = bodies
        self._told: dict[int, list[tuple[FeedEvent, bytes]]] = {}
        self._rows = b""
        self.agents: set[str] = set()
        """Those of which something changed, once the rows are known."""

    def told(self, chars: int, name_of: NameOf) -> list[tuple[FeedEvent, bytes]]:
        """Each event with so much of its body, and its frame."""
        if chars not in self._told:
            events = [
                whole_event(entry, name_of, text=self._bodies.get(entry.seq, "")[:chars])
                for entry in self.entries
            ]
            self._told[chars] = [(event, format_feed(event)) for event in events]
        return self._told[chars]

    def rows(self, state: State, words_of: Words) -> bytes:
        """The frame of the rows that these events changed."""
        if not self._rows:
            keys = changed_by(state, self.entries)
            self._rows, self.agents = format_rows(rows_of(state, keys, words_of)), keys.agents
        return self._rows


class Followers:
    """All followers; costs nothing while there are none."""

    def __init__(
        self,
        journal: Journal,
        name_of: Callable[[State], NameOf],
        pulse_of: Callable[[str], Pulse | None],
    ) -> None:
        self._journal = journal
        self._name_of = name_of
        self._pulse_of = pulse_of
        self._followers: dict[int, Follower] = {}

    def __contains__(self, source: Source) -> bool:
        return id(source) in self._followers

    def __bool__(self) -> bool:
        return bool(self._followers)

    def add(self, source: Source, asked: WatchFeed, reply: Watching, state: State) -> None:
        """Add a follower; repeating it changes its filters."""
        at = reply.seq if reply.reset or asked.after is None else asked.after
        self._followers[id(source)] = Follower(source, asked, at, state)

    def drop(self, source: Source) -> None:
        """Remove a follower whose connection was closed."""
        self._followers.pop(id(source), None)

    def publish(self, state: State, events: Sequence[AnyEvent], fresh: dict[int, StoredMessage]) -> bool:
        """After a tick: send each what lies behind its place; True if somebody is still behind."""
        first, seq = state.seq - len(events) + 1, state.seq
        page: Page | None = None
        behind = False
        for follower in list(self._followers.values()):
            if not follower.source.writable:
                continue
            if follower.at != seq:
                if follower.at == first - 1 and len(events) <= PAGE_MAX:
                    page = page or _page_of(first, state.now, events, fresh)
                    self._send(follower, page, state)
                else:
                    self._catch_up(follower, state)
                behind = behind or follower.at != seq
            if follower.at == seq:  # before that it may not know the agents
                self._send_pulses(follower)
            follower.source.flush()
        return behind

    def note_activity(self, agent: str) -> None:
        """An agent's activity changed: followers get it with the next tick."""
        for follower in self._followers.values():
            if follower.live:
                follower.stale.add(agent)

    def note_waiting(self, state: State) -> None:
        """Whether those whose mail waits may be woken changes with time alone: look at them again."""
        waiting = {agent.id for agent in state.agents.values() if agent.pending and agent.online}
        for follower in self._followers.values():
            if follower.live:
                follower.stale |= waiting

    def _catch_up(self, follower: Follower, state: State) -> None:
        missed = state.seq - follower.at
        if missed > BEHIND_MAX:
            gap = FeedEvent(seq=state.seq, at=state.now, type="gap", missed=missed)
            follower.source.offer(format_feed(gap))
            follower.at = state.seq
            return
        entries = self._read(follower.at)
        queued = [entry.seq for entry in entries if isinstance(entry.event, MessageQueued)]
        bodies = {message.seq: message.body for message in self._journal.messages(queued)}
        self._send(follower, Page(entries, bodies), state)

    def _read(self, after: int) -> list[Entry]:
        """The next events; after 0, from the beginning of a journal that was never pruned."""
        if after:
            return self._journal.entries(after, 0, PAGE_MAX)
        return self._journal.entries(0, PAGE_MAX + 1, PAGE_MAX)

    def _send(self, follower: Follower, page: Page, state: State) -> None:
        told = page.told(follower.chars, self._name_of(state))
        frames = [
            frame
            for entry, (event, frame) in zip(page.entries, told, strict=True)
            if follower.wants(entry, event)
        ]
        if follower.live:
            frames.append(page.rows(state, self._words_of))
            follower.stale |= page.agents
        if frames:
            follower.source.offer(b"".join(frames))
        follower.at = page.entries[-1].seq if page.entries else state.seq

    def _words_of(self, seqs: list[int]) -> dict[int, MessageRecord]:
        return {message.seq: message.record() for message in self._journal.messages(seqs)} if seqs else {}

    def _send_pulses(self, follower: Follower) -> None:
        stale, follower.stale = follower.stale, set()
        told: list[Pulse] = []
        for agent in sorted(stale):
            pulse = self._pulse_of(agent)
            if pulse is None:
                follower.told.pop(agent, None)
            elif pulse != follower.told.get(agent):
                follower.told[agent] = pulse
                told.append(pulse)
        if told:
            follower.source.offer(b"".join(map(format_pulse, told)))


def _page_of(first: int, at: float, events: Sequence[AnyEvent], fresh: dict[int, StoredMessage]) -> Page:
    entries = [Entry(first + place, at, event) for place, event in enumerate(events)]
    return Page(entries, {seq: message.body for seq, message in fresh.items()})


# -- all of them --------------------------------------------------------------------------------------


class Feed:
    """The connections that watch, and what each is sent."""

    def __init__(
        self,
        former_name: Callable[[str], str],
        journal: Journal,
        pulse_of: Callable[[str], Pulse | None],
    ) -> None:
        self._former_name = former_name
        self.watchers: dict[int, Watcher] = {}
        self.followers = Followers(journal, lambda state: namer(state, former_name), pulse_of)

    def watch(self, source: Source, asked: WatchFeed, reply: Watching, state: State) -> None:
        """Send this connection every event from now on, or after the one it names; repeating is harmless."""
        if asked.after is None:
            self.watchers.setdefault(id(source), Watcher(source))
        else:
            self.followers.add(source, asked, reply, state)

    def forget(self, source: Source) -> None:
        """Remove a watcher whose connection was closed."""
        self.watchers.pop(id(source), None)
        self.followers.drop(source)

    def publish(self, state: State, events: list[AnyEvent], fresh: dict[int, StoredMessage]) -> None:
        """After a commit: send it to the watchers, each as much as it can take."""
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
    """An event as one frame for a watcher: names instead of ids, and the beginning of the text."""
    line = describe(event, seq, name_of)
    message = fresh.get(seq)
    if message is not None:
        text = message.body
    else:
        text = ", ".join(f"{key} {_words(value)}" for key, value in line.detail.items() if value != "")
    return FeedEvent(
        seq=seq,
        at=at,
        type=type_name_of(event),
        who=line.who,
        whom=line.whom[:WHOM_MAX],
        text=text[:TEXT_LENGTH_MAX],
        link=event.link if isinstance(event, MessageQueued) else str(line.detail.get("link", "")),
    )


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType]  # a list of words


def _with_missed(event: FeedEvent, missed: int) -> FeedEvent:
    return msgspec.structs.replace(event, missed=missed)
