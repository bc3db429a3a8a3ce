"""What other parts register with the engine: who looks at commits, and who knows agents' clients.

The engine gets both when it is built, and the parts built after it add themselves: nobody sets the engine's
attributes, and the engine knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tellwire.core.mail.reach import Contact
from tellwire.protocol.events import AnyEvent
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
        """These are on disk."""
        self.events = events
        for observer in self._observers:
            observer()


class ClientView(Protocol):
    """Whoever serves the sessions of agents' clients."""

    def paths_of(self, agent: str, /) -> list[PathRecord]:
        """How mail gets into an agent's model."""
        ...

    def contact_of(self, agent: str, /) -> Contact | None:
        """What is known of an agent's client; None if this view knows nothing."""
        ...


class ClientFacts:
    """What is known of agents' clients while they run; nothing of it is stored."""

    def __init__(self) -> None:
        self._views: list[ClientView] = []
        self.activities: dict[str, str] = {}
        """By agent id: `busy`, `idle` and so on, as clients tell."""
        self.prompted: set[str] = set()
        """Agents in a turn that their human began."""

    def add_view(self, view: ClientView) -> None:
        """Ask this one too."""
        self._views.append(view)

    def activity(self, agent: str) -> str:
        """What an agent is doing, as far as its client tells; empty if nobody knows."""
        return self.activities.get(agent, "")

    def paths_of(self, agent: str) -> list[PathRecord]:
        """How mail gets into an agent's model, the best way first."""
        return [path for view in self._views for path in view.paths_of(agent)]

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of the client of an agent that fetches its mail."""
        contacts = (view.contact_of(agent) for view in self._views)
        return next((contact for contact in contacts if contact is not None), None)
