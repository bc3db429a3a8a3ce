"""Committed facts about other machines: pairing, presence, their agents, and how far both lanes got."""

from __future__ import annotations

from typing import TypeAlias

from tellwire.protocol.events.base import Audience, Event, word
from tellwire.protocol.machines import Card
from tellwire.protocol.parcels import RemoteAgent

# -- who is paired --------------------------------------------------------------------------------------


class MachineNamed(Event, tag=word, frozen=True, array_like=True):
    """This machine has an identity, and a label for others."""

    audience = Audience.CONTROL
    id: str
    label: str


class MachinePaired(Event, tag=word, frozen=True, array_like=True):
    """Another machine is paired with this one, or paired again."""

    audience = Audience.CONTROL
    id: str
    label: str
    card: Card
    trust: str = "own"
    carriers: list[str] = []
    by: str = ""
    """The machine that introduced it; empty if a person did."""


class MachineUpdated(Event, tag=word, frozen=True, array_like=True):
    """What is known of a machine changed; None means unchanged."""

    audience = Audience.CONTROL
    id: str
    label: str | None = None
    card: Card | None = None
    carriers: list[str] | None = None
    trust: str | None = None
    shares: list[str] | None = None


class MachineRemoved(Event, tag=word, frozen=True, array_like=True):
    """A machine is out, at once and for ever."""

    audience = Audience.CONTROL
    id: str
    by: str = ""
    """The machine that said so; empty if a person did."""


class MachineOnline(Event, tag=word, frozen=True, array_like=True):
    """A machine was heard again."""

    audience = Audience.CONTROL
    id: str


class MachineOffline(Event, tag=word, frozen=True, array_like=True):
    """A machine was not heard for long; what its agents do is not known."""

    audience = Audience.CONTROL
    id: str
    heard_at: float = 0.0
    """When it was last heard."""


# -- its agents -----------------------------------------------------------------------------------------


class RemoteAgentTold(Event, tag=word, frozen=True, array_like=True):
    """What a machine says of one of its agents; a new one gets this event's sequence as its id here."""

    audience = Audience.CONTROL
    machine: str
    agent: RemoteAgent


class RosterTaken(Event, tag=word, frozen=True, array_like=True):
    """All of a machine's roster is known."""

    audience = Audience.CONTROL
    machine: str
    number: int


class RosterTold(Event, tag=word, frozen=True, array_like=True):
    """Our agents changed: these machines are told."""

    audience = Audience.CONTROL
    machines: list[str]


# -- the lanes ------------------------------------------------------------------------------------------


class ParcelTaken(Event, tag=word, frozen=True, array_like=True):
    """Everything up to this number of a machine's lane has had its effect, in this very commit."""

    audience = Audience.CONTROL
    machine: str
    inc: int
    number: int
    mark: bytes


class ParcelsAcked(Event, tag=word, frozen=True, array_like=True):
    """Everything up to this number of our lane is on the other machine's disk."""

    audience = Audience.CONTROL
    machine: str
    inc: int
    number: int


class IncarnationBegun(Event, tag=word, frozen=True, array_like=True):
    """One of the two stores was put back to an older copy: our lane is numbered anew.

    What is not acknowledged, and what nobody has read, is offered again, marked as a repeat.
    """

    audience = Audience.CONTROL
    machine: str
    inc: int
    follows: bool = False
    """The other machine began one: what it had told before may be lost here."""


class ItemRefused(Event, tag=word, frozen=True, array_like=True):
    """Something that a machine sent was not taken; it is told why."""

    audience = Audience.CONTROL
    machine: str
    seq: int
    """The message's number there."""
    recipient: str
    code: str
    note: str = ""


class MessagesWithdrawn(Event, tag=word, frozen=True, array_like=True):
    """Messages to an agent elsewhere were not confirmed in time: they are taken back if nobody read them."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]


class ReceiptGiven(Event, tag=word, frozen=True, array_like=True):
    """A machine asked after a message of its own, by taking it back or by sending it again: it is told."""

    audience = Audience.CONTROL
    machine: str
    agent: str
    seq: int
    """The message's number there."""
    state: str
    """`received`, `delivered`, a final state, or `expired` if the message is not known here."""
    evidence: str = ""


class ReceiptsTaken(Event, tag=word, frozen=True, array_like=True):
    """Another machine tells how far messages got with an agent of its own that has not read them."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]
    state: str
    """`received` or `delivered`."""


class MessagesRefused(Event, tag=word, frozen=True, array_like=True):
    """Another machine did not take messages, or was removed: they are over."""

    audience = Audience.CONTROL
    agent: str
    seqs: list[int]
    code: str
    note: str = ""


class ParcelsRefused(Event, tag=word, frozen=True, array_like=True):
    """Blobs that no paired machine can have sealed, so many for the same reason since then."""

    audience = Audience.CONTROL
    reason: str
    count: int = 1
    since: float = 0.0


MachineEvent: TypeAlias = (
    MachineNamed
    | MachinePaired
    | MachineUpdated
    | MachineRemoved
    | MachineOnline
    | MachineOffline
    | RemoteAgentTold
    | RosterTaken
    | RosterTold
    | ParcelTaken
    | ParcelsAcked
    | IncarnationBegun
    | ItemRefused
    | MessagesWithdrawn
    | ReceiptGiven
    | ReceiptsTaken
    | MessagesRefused
    | ParcelsRefused
)
