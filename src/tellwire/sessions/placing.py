"""What is learned of a session after it has joined, and who it is then: by its conversation and its pane.

A shim joins before any hook tells which conversation of the client it serves, so the name it got may
belong to another. That is set right before anything is handed over; `core/agents/seats` decides.
"""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

from tellwire.broker.ports import Deliveries, MeshView
from tellwire.core.agents.seats import is_seated
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import Registered
from tellwire.protocol.operations.base import Reply

log = logging.getLogger("tellwire.hooks")


@runtime_checkable
class Placeable(Protocol):
    """A session that can be told where it is after it has joined: a shim's."""

    async def place(self, conversation: str, pane: str) -> Reply:
        """Say which conversation it serves, and in which pane."""
        ...


class Placing:
    """Corrects the names of sessions once their conversation is known."""

    def __init__(self, mesh: MeshView, delivery: Deliveries) -> None:
        self._mesh = mesh
        self._delivery = delivery
        self.notes: dict[str, str] = {}
        """By agent, what its model should hear of its name; until it was told."""

    async def place(self, agent: Agent, conversation: str, pane: str = "") -> Agent:
        """The agent that a session is, now that its conversation is known."""
        if not conversation or (not pane and is_seated(agent, conversation)):
            return agent
        source = self._delivery.client_of(agent.id)
        if not isinstance(source, Placeable):
            return agent
        try:
            reply = await source.place(conversation, pane)
        except TellwireError as error:
            log.warning("the session of %s could not be placed: %s", agent.name, error)
            return agent
        if not isinstance(reply, Registered):
            return agent
        if reply.note:
            log.info("a session of %s: %s", agent.name, reply.note)
            self.notes.pop(agent.id, None)
            self.notes[reply.id] = reply.note
        return self._mesh.state.agents.get(reply.id, agent)

    def take_note(self, agent: str) -> str:
        """What its model should hear of its name, once."""
        note = self.notes.pop(agent, "")
        return f"tellwire: {note}" if note else ""
