"""A mesh whose agents are in conversation: opening links, taking turns, reading what crossed."""

from __future__ import annotations

from typing import Any

from tellwire.core.context import OfferWaiting, ReportTurn
from tellwire.core.limits import Limits
from tellwire.core.state import Link
from tellwire.protocol.operations.links import LinkRecord, OpenLink
from tellwire.protocol.operations.messages import Sent
from tests.unit.mesh import Mesh


class Conversation(Mesh):
    """Agents that talk turn by turn."""

    def __init__(self, *names: str, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.number = 0
        for name in names:
            self.register(name)

    def open(self, opener: str, *others: str, **fields: Any) -> LinkRecord:
        """Open a link as `opener`."""
        return self.run(OpenLink(members=list(others), **fields), self.caller(opener))

    def direct(self, sender: str, to: str, body: str = "hello") -> Sent:
        """Send on the direct link of the two."""
        return self.send(sender, to, body, direct=True)

    def link(self, link_id: str) -> Link:
        """The link as the kernel has it."""
        return self.state.links[link_id]

    def read(self, name: str) -> list[tuple[str, str]]:
        """Take all that waits into the agent's context: who said it, and what; our own notices left out."""
        return [(sender, body) for sender, body in self.read_all(name) if sender != "tellwire"]

    def notices(self, name: str) -> list[str]:
        """The same, only our own notices."""
        return [body for sender, body in self.read_all(name) if sender == "tellwire"]

    def read_all(self, name: str) -> list[tuple[str, str]]:
        """Everything, in order."""
        agent = self.agent(name)
        self.run(OfferWaiting(agent.id))
        leased = self.leased(name)
        if not leased:
            return []
        rows = [self.stored[seq] for seq in agent.leased]
        self.confirm(name, *leased)
        return [(row.sender_name, row.body) for row in rows]

    def turn(
        self,
        name: str,
        text: str = "",
        *,
        outcome: Any = "ended",
        human: bool = False,
        checkpoint: bool = False,
        turn: str = "",
    ) -> None:
        """The agent's turn is over: this is what it finally said."""
        self.number += 1
        agent = self.agent(name)
        word = turn or f"t{self.number}"
        self.run(ReportTurn(agent.id, agent.session, word, outcome, text, human, checkpoint))
