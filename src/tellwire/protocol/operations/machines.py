"""Operations on other machines: pair, look, rename, share, remove. They are the operator's alone."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.machines import Card, Trust
from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply

PEOPLE = frozenset({OPERATOR})
READERS = frozenset({OPERATOR, SCRIPT})
SURFACES = frozenset({SDK, CLI})


class MachineRecord(Reply, frozen=True, kw_only=True):
    """One other machine."""

    id: str
    label: str
    status: str
    """`online`, `unreachable` (silent for long), `paired` (never heard yet) or `removed`."""
    trust: str = "own"
    by: str = ""
    """The label of the machine that introduced it."""
    shares: list[str] = []
    """Projects that a `team` machine may see."""
    former: list[str] = []
    """Labels it had; they go on working."""
    carriers: list[str] = []
    heard_at: float = 0.0
    """When it was last heard; 0 for never."""
    carrier: str = ""
    """The carrier in use; empty if none is connected."""
    problem: str = ""
    """If none is connected: why, in the carrier's words."""
    outbox: int = 0
    """Items that it has not acknowledged."""
    outbox_bytes: int = 0
    agents: int = 0
    version: str = ""
    knows: list[str] = []
    sign_key: bytes = b""
    paired_at: float = 0.0
    removed_at: float = 0.0
    incarnation: int = 1
    round_trip_s: float = 0.0
    """Of the last thing that it acknowledged; 0 if that is not known."""


class MachineList(Reply, frozen=True, kw_only=True):
    """This machine, and all others."""

    id: str = ""
    """Of this machine; empty until it has an identity."""
    label: str = ""
    machines: list[MachineRecord] = []


class ListMachines(Operation[MachineList], frozen=True, kw_only=True):
    """List the other machines, removed ones too."""

    reply = MachineList
    reads = True
    callers: ClassVar[frozenset[str]] = READERS
    surfaces: ClassVar[frozenset[str]] = SURFACES


class ShowMachine(Operation[MachineRecord], frozen=True, kw_only=True):
    """Everything that is known about one other machine."""

    reply = MachineRecord
    reads = True
    callers: ClassVar[frozenset[str]] = READERS
    surfaces: ClassVar[frozenset[str]] = SURFACES
    machine: str
    """Its label or its id."""


class PairMachine(Operation[MachineRecord], frozen=True, kw_only=True):
    """Pair with a machine whose card was checked. Pairing again changes only what is new."""

    reply = MachineRecord
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    card: Card
    label: str = ""
    """What to call it here; left out: as it calls itself."""
    trust: Trust = "own"
    carriers: list[str] = []
    """How to reach it, the preferred one first: `ssh DEST` or `redis URL`."""
    here: Card
    """This machine's own card: its identity and its label."""


class RenameMachine(Operation[MachineRecord], frozen=True, kw_only=True):
    """Give a machine another label. The former one goes on working."""

    reply = MachineRecord
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    machine: str
    label: str


class SetTrust(Operation[MachineRecord], frozen=True, kw_only=True):
    """Change how a machine is trusted, what it may see, or how it is reached; what is left out stays."""

    reply = MachineRecord
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    machine: str
    trust: Trust | None = None
    share: list[str] = []
    """Projects that it may see from now on."""
    unshare: list[str] = []
    carriers: list[str] | None = None


class RemoveMachine(Operation[MachineRecord], frozen=True, kw_only=True):
    """Remove a machine, at once and for ever: its keys are dropped and its mail is denied."""

    reply = MachineRecord
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    machine: str


class MachineIdentity(Reply, frozen=True, kw_only=True):
    """This machine as it introduces itself to another one."""

    id: str
    label: str
    words: str
    """Six words that stand for its identity, to be compared by people."""
    card: bytes
    """Its signed card."""
    labels: dict[str, str] = {}
    """The labels that are in use here, in lower case, and whose they are."""
    carrier: str = ""
    """The carrier that was asked for, as the journal names it: without its password."""
    carrier_url: str = ""
    """The same with its password; if none was asked for, the Redis that was used last."""


class MachineCard(Operation[MachineIdentity], frozen=True, kw_only=True):
    """The card of this machine, for pairing. The first call gives the machine its identity."""

    reply = MachineIdentity
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    runs = "deferred"
    label: str = ""
    """What the other machine is to call this one; left out: the first part of the host name."""
    carrier_url: str = ""
    """A Redis to keep for the pairing, with its password."""


class RenewMachine(Operation[MachineIdentity], frozen=True, kw_only=True):
    """Give this machine a new identity. Every other machine has to be paired again."""

    reply = MachineIdentity
    callers: ClassVar[frozenset[str]] = PEOPLE
    surfaces: ClassVar[frozenset[str]] = SURFACES
    runs = "deferred"
    moved: bool = False
    """Keep the identity: this home was moved here as a whole, and the former one is gone."""
