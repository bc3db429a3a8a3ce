"""What other parts register with engine and server: observers of commits, views of clients, connections.

Engine and server have these from the start, and the parts built after them add themselves: nobody sets their
attributes, and they know none of the parts by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from tellwire.core.context import Doing, Way
from tellwire.core.mail.reach import Contact
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.frames import Hello
from tellwire.protocol.operations.agents import PathRecord


class Commits:
    """Calls observers after each tick that committed something."""

    def __init__(self) -> None:
        self._observers: list[Callable[[], None]] = []
        self.events: Sequence[AnyEvent] = ()
        """The events of the last tick that had any."""

    def observe(self, observer: Callable[[], None]) -> None:
        """Call this after each commit; observers are called in the order they were added."""
        self._observers.append(observer)

    def publish(self, events: Sequence[AnyEvent]) -> None:
        """Call the observers: these events are on disk."""
        self.events = events
        for observer in self._observers:
            observer()


class ClientView(Protocol):
    """A part that serves the sessions of agents' clients."""

    def paths_of(self, agent: str, /) -> list[PathRecord]:
        """How mail gets into an agent's model."""
        ...

    def contact_of(self, agent: str, /) -> Contact | None:
        """What is known of an agent's client; None if this view knows nothing."""
        ...


class Activities:
    """What each agent does, by its id."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._doing: dict[str, Doing] = {}
        self._reported: set[str] = set()
        self._observers: list[Callable[[str], None]] = []

    def observe(self, observer: Callable[[str], None]) -> None:
        """Call this with the id of each agent whose activity changes."""
        self._observers.append(observer)

    def note(self, agent: str, activity: str, wants: str = "") -> None:
        """A client's hooks report what it does and, if it waits for its human, what for."""
        before = self.doing(agent)
        if before.activity != activity:
            self._set(agent, Doing(activity, self._now(), wants))
        elif before.wants != wants:
            self._set(agent, before._replace(wants=wants))

    def get(self, agent: str, default: str = "") -> str:
        """The activity of an agent: `busy`, `idle` and so on."""
        doing = self._doing.get(agent)
        return default if doing is None else doing.activity

    def doing(self, agent: str) -> Doing:
        """The activity of an agent, since when, and what it waits for."""
        return self._doing.get(agent, Doing())

    def report(self, agent: str, activity: str, wants: str) -> None:
        """Record what a program reports about itself; it is forgotten with its session."""
        self._reported.add(agent)
        before = self.doing(agent)
        if (before.activity, before.wants) != (activity, wants):
            self._set(agent, Doing(activity, self._now(), wants))

    def forget_reported(self, agent: str) -> None:
        """A session of a program begins or ends: forget what the one before reported."""
        if agent in self._reported:
            self._reported.discard(agent)
            self.pop(agent)

    def pop(self, agent: str, _default: object = None) -> None:
        """Forget the activity of an agent: it is unknown now."""
        if self._doing.pop(agent, None) is not None:
            self._notify(agent)

    def _set(self, agent: str, doing: Doing) -> None:
        self._doing[agent] = doing
        self._notify(agent)

    def _notify(self, agent: str) -> None:
        for observer in self._observers:
            observer(agent)


class ClientFacts:
    """What is known of agents' clients while they run; nothing of it is stored."""

    def __init__(self) -> None:
        self._views: list[ClientView] = []
        self.activities = Activities()
        """By agent id: `busy`, `idle` and so on, as clients report."""
        self.titles: dict[str, str] = {}
        """By agent id: how its human began the session."""
        self.prompted: set[str] = set()
        """Agents in a turn that their human began."""
        self._ways: Callable[[str], Way] | None = None

    def tell_ways(self, ways: Callable[[str], Way]) -> None:
        """Ask this what is known now of the way to another machine."""
        self._ways = ways

    def way(self, machine: str) -> Way:
        """What is known now of the way to another machine."""
        return Way() if self._ways is None else self._ways(machine)

    def add_view(self, view: ClientView) -> None:
        self._views.append(view)

    def activity(self, agent: str) -> str:
        """What an agent is doing, as far as its client reports; empty if nobody knows."""
        return self.activities.get(agent)

    def paths_of(self, agent: str) -> list[PathRecord]:
        """How mail gets into an agent's model, the best path first."""
        return [path for view in self._views for path in view.paths_of(agent)]

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of the client of an agent that fetches its mail."""
        contacts = (view.contact_of(agent) for view in self._views)
        return next((contact for contact in contacts if contact is not None), None)


class ConnectionHandler(Protocol):
    """The object that handles one connection."""

    def dismiss(self, error: TellwireError) -> None:
        """Send the reason and close the connection."""
        ...


class HasDeadline(Protocol):
    """A connection with a deadline: to complete its greeting, or to read its last frame."""

    since: float
    """When its deadline started to run, on the monotonic clock."""

    def expire(self) -> None:
        """Close the connection if its deadline has passed."""
        ...


class Visit(NamedTuple):
    """A connection that the server hands to a door."""

    transport: asyncio.Transport
    pid: int
    hello: Hello
    data: bytes
    """The bytes that followed the greeting."""


class Connections:
    """The open connections of one broker; each door adds those that it serves."""

    def __init__(self) -> None:
        self._handlers: set[ConnectionHandler] = set()
        self._late: set[HasDeadline] = set()
        self._sweeps: list[Callable[[], None]] = []
        self.stopping = False
        """The broker is stopping and closes all of them."""

    def __len__(self) -> int:
        return len(self._handlers)

    def __contains__(self, handler: object) -> bool:
        return handler in self._handlers

    def __iter__(self) -> Iterator[ConnectionHandler]:
        """A copy: connections may close during the iteration."""
        return iter(list(self._handlers))

    def add(self, handler: ConnectionHandler) -> None:
        """Count an open connection."""
        self._handlers.add(handler)

    def discard(self, handler: ConnectionHandler) -> None:
        """Stop counting a connection that was closed or handed to a door."""
        self._handlers.discard(handler)

    def start_deadline(self, late: HasDeadline) -> None:
        """Close this connection unless its deadline is cleared in time."""
        self._late.add(late)

    def clear_deadline(self, late: HasDeadline) -> None:
        """The connection met its deadline, or was closed."""
        self._late.discard(late)

    def add_sweep(self, sweep: Callable[[], None]) -> None:
        """Call this at every check of deadlines."""
        self._sweeps.append(sweep)

    def remove_sweep(self, sweep: Callable[[], None]) -> None:
        """Stop calling it."""
        self._sweeps.remove(sweep)

    def sweep(self, horizon: float) -> None:
        """Close connections whose deadline started before `horizon`, on the monotonic clock."""
        for late in [each for each in self._late if each.since < horizon]:
            self._late.discard(late)
            late.expire()
        for sweep in self._sweeps:
            sweep()
