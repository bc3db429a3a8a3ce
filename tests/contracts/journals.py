"""Commits as the engine makes them, for suites that try a journal."""

from __future__ import annotations

from tellwire.broker.ports import Journal
from tellwire.core.record.stored import Commit, StoredMessage
from tellwire.core.state import State, format_snapshot
from tellwire.protocol.events import AnyEvent, MessageQueued, format_batch


def queued(body: str = "hi", recipients: tuple[str, ...] = ("a2",)) -> MessageQueued:
    """The fact of a message from a1."""
    return MessageQueued(
        sender="a1",
        sender_name="alice",
        to="bob",
        recipients=list(recipients),
        size=len(body),
        digest="d",
        ttl_s=60.0,
        re="m0",
        mode="agree",
        kind="response",
        json=True,
        context="[1]",
        key="k",
    )


def commit_of(first: int, *events: AnyEvent, at: float = 0.0, body: str = '"hi"') -> Commit:
    """One tick whose first event has the sequence `first`."""
    messages = [
        StoredMessage.of(first + place, at or float(first), event, body)
        for place, event in enumerate(events)
        if isinstance(event, MessageQueued)
    ]
    last = first + len(events) - 1
    return Commit(last, at or float(first), first / 2, format_batch(list(events)), messages)


def fill(journal: Journal, count: int, *, start: int = 1, body: str = '"hi"') -> list[Commit]:
    """Commit `count` messages, one tick each, at times 1, 2, 3, ..."""
    commits = [commit_of(seq, queued(body), body=body) for seq in range(start, start + count)]
    for commit in commits:
        journal.commit(commit)
    return commits


def snapshot_at(journal: Journal, seq: int) -> None:
    """Save a state as of `seq`."""
    journal.save_snapshot(seq, format_snapshot(State(seq=seq)))


def kept(commits: list[Commit]) -> list[Commit]:
    """What a replay gives of commits: the facts, without the texts."""
    return [commit._replace(messages=[]) for commit in commits]
