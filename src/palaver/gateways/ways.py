"""The ways for mail into one agent's model: which there are, whether each works now, and when it last did."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palaver.core.state import Agent
from palaver.gateways.books import Book
from palaver.gateways.waking import Waker
from palaver.protocol.operations.agents import PathRecord

MID_TURN, END_OF_TURN, PULL = "mid-turn", "end of turn", "get_messages"
NO_HOOKS = "no hook of this session has been heard of"


def list_ways(
    agent: Agent, book: Book | None, wakers: Sequence[Waker], source: object = None
) -> list[PathRecord]:
    """The best first; a `source` that holds a call open gets its mail by that at once."""
    pull = _pull(agent, book, source)
    if not wakers and book is None:
        return [pull]
    heard = book is not None and book.heard > 0
    note = "" if heard else NO_HOOKS
    if not agent.online:
        heard, note = False, "offline"
    hooks = [PathRecord(name=name, works=heard, note=note) for name in (MID_TURN, END_OF_TURN)]
    found = [waker.path_of(agent) for waker in wakers]
    wakes = [_for_wake(path, agent, book) for path in found if path is not None]
    paths = [*hooks, *wakes, pull]
    worked = {} if book is None else book.worked
    return [
        each if each.last_at is not None else msgspec.structs.replace(each, last_at=worked.get(each.name))
        for each in paths
    ]


def _for_wake(path: PathRecord, agent: Agent, book: Book | None) -> PathRecord:
    """A way that wakes is shut while the agent is away or failed on a wake."""
    note = ""
    if not agent.online:
        note = "offline"
    elif book is not None and book.has_failed:
        note = "it errored after a wake"
    return msgspec.structs.replace(path, works=False, note=note) if note else path


def _pull(agent: Agent, book: Book | None, source: object) -> PathRecord:
    holds = bool(getattr(source, "waiters", ()))
    last: float | None = getattr(source, "read_at", None)
    if book is not None:
        last = book.worked.get(PULL, last)
    note = "a call waits for mail" if holds else "it fetches its mail itself"
    return PathRecord(
        name=PULL,
        works=agent.online,
        note=note if agent.online else "offline",
        last_at=last,
        wakes=holds and agent.online,
    )
