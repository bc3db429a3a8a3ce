"""Operations on one message: all of it, why it has not been read yet, and the thread it belongs to."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.base import CLI, SDK, Operation, Reply
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.messages import ReceiptState


class FoundMessage(Reply, frozen=True, kw_only=True):
    """One message with its receipts, and where it belongs."""

    message: HistoryRecord
    link: str = ""
    """The id of the link on which it was said."""
    root: str = ""
    """The first message of its thread, as far as it is still stored; its own id if it answers nothing."""


class GetMessage(Operation[FoundMessage], frozen=True, kw_only=True):
    """One message by its id. An agent sees what it sent or received; others see all."""

    reply = FoundMessage
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    id: str


class Step(Reply, frozen=True, kw_only=True):
    """One thing that happened to a message on its way to one recipient, or to that recipient meanwhile."""

    at: float
    what: str
    """`stored`, `delivered`, `returned`, `read`, `answered`, `expired`, `offline`, `online`, `muted` or
    `unmuted`."""
    note: str = ""
    """The evidence, the reason, or until when."""


class Explained(Reply, frozen=True, kw_only=True):
    """Where a message is with one recipient, what it waits for, and what happens next."""

    name: str
    state: ReceiptState
    evidence: str = ""
    gate: str = ""
    """What it waits for, in one word: `offline`, `busy`, `dialog`, `muted`, `often`, `stopped`, `failed`,
    `left`, `ended`, `unwakeable`, `weak`, `chain`, `behind`, `waking`, `fetch`, `deaf`, `large`, `program`,
    `evidence`, `fetched`, `unconfirmed` or `unseen`. Empty once it waits for nothing."""
    why: str = ""
    """The same for people."""
    next: str = ""
    """What happens next, and what a person can do about it."""
    next_at: float = 0.0
    """When that is, if it is known."""
    expires_at: float = 0.0
    """When it expires if nothing happens; 0 if it does not wait, or is handed over."""
    steps: list[Step] = []
    """What happened so far, the oldest first."""
    more: bool = False
    """Later steps may be missing: too much else happened since."""


class Explanation(Reply, frozen=True, kw_only=True, rename={"sender": "from"}):
    """How far a message got with each recipient, why no further, and what happens next."""

    id: str
    sender: str
    to: str
    at: float
    text: str = ""
    """The beginning of the body."""
    recipients: list[Explained] = []


class ExplainMessage(Operation[Explanation], frozen=True, kw_only=True):
    """Why a message has not been read yet, and what happens next; open to those who may read it."""

    reply = Explanation
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    id: str


class Thread(Reply, frozen=True, kw_only=True):
    """The messages of a thread, oldest first."""

    root: str
    """The first message of the thread, as far as it is still stored and the caller may read it."""
    messages: list[HistoryRecord] = []
    more: bool = False
    """There are later ones: continue with `after=next`."""
    next: str = ""
    cut: bool = False
    """The thread is larger than one call looks at: some of its branches are missing."""


class ReadThread(Operation[Thread], frozen=True, kw_only=True):
    """The thread of a message: up its answers to the first message, and all answers to that, oldest first.

    An agent sees what it sent or received; others see all.
    """

    reply = Thread
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    id: str
    """Any message of the thread."""
    after: str | None = None
    """Only messages behind this one."""
    limit: int = 50
