"""A mesh with one agent that fetches its mail; after every command its accounts must be exact."""

from __future__ import annotations

from typing import Any

from tellwire.core.context import Caller, MarkSilent
from tellwire.core.kernel import Command
from tellwire.core.limits import Limits
from tellwire.core.mail.framing import render_message
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.messages import Inbox, MessageRecord, PeekMessages, Taken
from tests.unit.mesh import SCRIPT, Mesh


class Fetching(Mesh):
    """Alice and carol send, bob fetches."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.loaded: list[int] = []
        """How many messages each look into the store asked for."""
        self.register("alice")
        self.register("carol")
        self.register("bob", pulls=True)

    def run(self, command: Command, caller: Caller = SCRIPT, *, group: str = "/project") -> Any:
        """As ever, and prove that counters and journal are true."""
        reply = super().run(command, caller, group=group)
        for agent in self.state.agents.values():
            assert agent.pending_bytes == sum(receipt.size for receipt in agent.pending.values())
            assert agent.leased_bytes == sum(receipt.size for receipt in agent.leased.values())
            assert list(agent.pending) == sorted(agent.pending)
            assert all(receipt.lease == 0 for receipt in agent.pending.values())
            assert all(receipt.lease > 0 for receipt in agent.leased.values())
        assert self.replayed() == self.state, "the journal tells another story"
        return reply

    def mail(self, *texts: Any, sender: str = "alice", **fields: Any) -> list[str]:
        """Send each of the texts to bob."""
        return [self.send(sender, "bob", text, **fields).id for text in texts]

    def size(self, message: str) -> int:
        """How many characters a message has in its frame."""
        return len(render_message(self.record(message), now=self.now))

    def record(self, message: str) -> MessageRecord:
        """A message as it stands in the store."""
        return self.stored[parse_message_id(message)].record()

    def peek(self, name: str) -> Inbox:
        """Look into the inbox."""
        return self.run(PeekMessages(), self.caller(name))

    def silence(self, name: str) -> None:
        """No sign of life any more."""
        self.run(MarkSilent(self.agent(name).id))

    def _records(self, seqs: list[int]) -> list[MessageRecord]:
        self.loaded.append(len(seqs))
        return super()._records(seqs)


def bodies(taken: Taken) -> list[Any]:
    """The texts that were handed out, in order."""
    return [record.body for record in taken.messages]


def ids(taken: Taken) -> list[str]:
    """The ids that were handed out, in order."""
    return [record.id for record in taken.messages]


def repeats(taken: Taken) -> list[bool]:
    """For each message handed out, whether it is marked as a possible repeat."""
    return [record.repeat for record in taken.messages]
