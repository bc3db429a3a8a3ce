"""The ways for mail into one agent's model: which there are, whether each works now, and when it last did."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tellwire.core.mail.reach import Contact
from tellwire.core.mail.waking import ENDED, FAILED, LEFT, OFTEN, STOPPED, Leave, describe
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.sessions.client_session import Book
from tellwire.sessions.waking import Waker

MID_TURN, END_OF_TURN, PULL = "mid-turn", "end of turn", "get_messages"
NO_HOLD = Leave()
NO_HOOKS = "no hook of this session has run yet"
DIALOG = "a dialog is waiting for its human"


def list_ways(
    agent: Agent,
    book: Book | None,
    wakers: Sequence[Waker],
    source: object = None,
    hold: Leave = NO_HOLD,
) -> list[PathRecord]:
    """The best first; a `source` that holds a call open gets its mail by that at once."""
    pull = _pull(agent, book, source)
    if not wakers and book is None:
        return [pull]
    bound = is_bound(book)
    note = "" if bound else NO_HOOKS
    if not agent.online:
        bound, note = False, "offline"
    hooks = [
        PathRecord(name=name, works=bound, note=note, unproved=note == NO_HOOKS)
        for name in (MID_TURN, END_OF_TURN)
    ]
    found = [waker.path_of(agent) for waker in wakers]
    wakes = [_for_wake(path, agent, book, hold) for path in found if path is not None]
    paths = [*hooks, *wakes, pull]
    worked = {} if book is None else book.worked
    return [
        each if each.last_at is not None else msgspec.structs.replace(each, last_at=worked.get(each.name))
        for each in paths
    ]


def is_bound(book: Book | None) -> bool:
    """Whether a hook of this very session has been heard, in this life of the broker or an earlier one."""
    return book is not None and bool(book.session)


def tell_contact(
    agent: Agent,
    book: Book | None,
    wakers: Sequence[Waker] | None,
    source: object = None,
    leave: Leave = NO_HOLD,
) -> Contact:
    """What the core has to know of an agent's client; `wakers` is None if it is no agent CLI that we know."""
    holds = bool(getattr(source, "waiters", ()))
    if book is None or not is_bound(book):
        return Contact(hooked=wakers is not None, holds=holds)
    contact = Contact(
        hooked=True,
        bound=True,
        holds=holds,
        state=book.state,
        since=book.heard_at,
        ways={call: given.way for call, given in book.open.items()},
        announced=book.announced,
    )
    turn = book.turns.current
    if not book.is_wakeable:
        since = book.heard_at if turn is None or book.state == "waiting" else turn.began_at
        return contact._replace(since=since)
    found = [waker.path_of(agent) for waker in wakers or ()]
    ways = [path for path in found if path is not None]
    way = next((each.name for each in ways if each.works), "")
    shut = "" if way else "; ".join(f"{each.name}: {each.note}" for each in ways)
    held = describe(leave) if leave.why_not in (ENDED, FAILED, LEFT, OFTEN, STOPPED) else ""
    return contact._replace(idle=True, woken_at=book.woken_at, held=held, way=way, shut=shut)


def _for_wake(path: PathRecord, agent: Agent, book: Book | None, hold: Leave) -> PathRecord:
    """A way that wakes is shut while the agent is away, or after a wake that failed."""
    note = ""
    if not agent.online:
        note = "offline"
    elif not is_bound(book):
        return msgspec.structs.replace(path, works=False, note=NO_HOOKS, unproved=True)
    elif hold.why_not in (ENDED, FAILED, LEFT):
        note = describe(hold)
    elif book is not None and book.state == "waiting":
        note = DIALOG
    return msgspec.structs.replace(path, works=False, note=note) if note else path


def _pull(agent: Agent, book: Book | None, source: object) -> PathRecord:
    holds = bool(getattr(source, "waiters", ()))
    last: float | None = getattr(source, "read_at", None)
    if book is not None:
        last = book.worked.get(PULL, last)
    note = "a call is waiting for mail" if holds else "it fetches its own mail"
    return PathRecord(
        name=PULL,
        works=agent.online,
        note=note if agent.online else "offline",
        last_at=last,
        wakes=holds and agent.online,
    )
