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
    """Tells observers after each tick that committed something."""

    def __init__(self) -> None:
        self._observers: list[Callable[[], None]] = []
        self.events: Sequence[AnyEvent] = ()
        """Of the last tick that had any."""

    def observe(self, observer: Callable[[], None]) -> None:
        """Call this after each commit, behind those that asked before."""
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
    """By agent id; written like a dictionary of words by those who hear a client's hooks."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._doing: dict[str, Doing] = {}
        self._reported: set[str] = set()
        self._observers: list[Callable[[str], None]] = []

    def observe(self, observer: Callable[[str], None]) -> None:
        """Call this with the id of each agent that does something else from now on."""
        self._observers.append(observer)

    def __setitem__(self, agent: str, word: str) -> None:
        if self.get(agent) != word:
            self._set(agent, Doing(word, self._now()))

    def get(self, agent: str, default: str = "") -> str:
        """`busy`, `idle` and so on."""
        doing = self._doing.get(agent)
        return default if doing is None else doing.word

    def doing(self, agent: str) -> Doing:
        """The same, since when and what for."""
        return self._doing.get(agent, Doing())

    def report(self, agent: str, word: str, wants: str) -> None:
        """A program tells of itself what it does; its next session begins with nothing."""
        self._reported.add(agent)
        before = self.doing(agent)
        if (before.word, before.wants) != (word, wants):
            self._set(agent, Doing(word, self._now(), wants))

    def forget_reported(self, agent: str) -> None:
        """A session of a program begins or ends: what the one before told is over."""
        if agent in self._reported:
            self._reported.discard(agent)
            self.pop(agent)

    def pop(self, agent: str, _default: object = None) -> None:
        """Nobody knows any more."""
        if self._doing.pop(agent, None) is not None:
            self._tell(agent)

    def _set(self, agent: str, doing: Doing) -> None:
        self._doing[agent] = doing
        self._tell(agent)

    def _tell(self, agent: str) -> None:
        for observer in self._observers:
            observer(agent)


class ClientFacts:
    """What is known of agents' clients while they run; nothing of it is stored."""

    def __init__(self) -> None:
        self._views: list[ClientView] = []
        self.activities = Activities()
        """By agent id: `busy`, `idle` and so on, as clients tell."""
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
        """What an agent is doing, as far as its client tells; empty if nobody knows."""
        return self.activities.get(agent)

    def paths_of(self, agent: str) -> list[PathRecord]:
        """How mail gets into an agent's model, the best way first."""
        return [path for view in self._views for path in view.paths_of(agent)]

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of the client of an agent that fetches its mail."""
        contacts = (view.contact_of(agent) for view in self._views)
        return next((contact for contact in contacts if contact is not None), None)


class Guest(Protocol):
    """The object that handles one connection."""

    def dismiss(self, error: TellwireError) -> None:
        """Send the reason and close the connection."""
        ...


class Late(Protocol):
    """A connection with a deadline: to complete its first words, or to read its last ones."""

    since: float
    """From when its time runs, on the monotonic clock."""

    def expire(self) -> None:
        """Close the connection if its deadline has passed."""
        ...


class Visit(NamedTuple):
    """A connection as one door hands it to another."""

    transport: asyncio.Transport
    pid: int
    hello: Hello
    data: bytes
    """What came right behind the greeting."""


class Connections:
    """The open connections of one broker; each door adds those that it serves."""

    def __init__(self) -> None:
        self._guests: set[Guest] = set()
        self._late: set[Late] = set()
        self._sweeps: list[Callable[[], None]] = []
        self.stopping = False
        """The broker ends them all."""

    def __len__(self) -> int:
        return len(self._guests)

    def __contains__(self, guest: object) -> bool:
        return guest in self._guests

    def __iter__(self) -> Iterator[Guest]:
        """Those that are open now; they may close meanwhile."""
        return iter(list(self._guests))

    def add(self, guest: Guest) -> None:
        """A connection has begun."""
        self._guests.add(guest)

    def discard(self, guest: Guest) -> None:
        """It is over, or another door's."""
        self._guests.discard(guest)

    def start_deadline(self, late: Late) -> None:
        """Close this connection unless it goes on in time."""
        self._late.add(late)

    def clear_deadline(self, late: Late) -> None:
        """It did, or it is over."""
        self._late.discard(late)

    def add_sweep(self, sweep: Callable[[], None]) -> None:
        """Call this with each look for connections that took too long."""
        self._sweeps.append(sweep)

    def remove_sweep(self, sweep: Callable[[], None]) -> None:
        """No more."""
        self._sweeps.remove(sweep)

    def sweep(self, horizon: float) -> None:
        """Close what was to be done before `horizon`, on the monotonic clock."""
        for late in [each for each in self._late if each.since < horizon]:
            self._late.discard(late)
            late.expire()
        for sweep in self._sweeps:
            sweep()
