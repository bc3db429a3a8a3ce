"""One tick of the engine while it is being put together."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tellwire.broker.delivery import Session
from tellwire.broker.ports import Source
from tellwire.core.context import Caller, EndSession, NoteEvidence, NoteRefusals, ReportTurn, ReturnLease
from tellwire.core.kernel import Command
from tellwire.core.record.stored import StoredMessage
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, MessagesDelivered
from tellwire.protocol.operations.base import Reply

PARKED = (EndSession, NoteEvidence, NoteRefusals, ReportTurn, ReturnLease)
"""What happened whether it can be stored or not: it waits until it can."""
PARKED_MAX = 100_000

Job: TypeAlias = tuple[Source | None, int, Command | TellwireError]
"""From whom, its number, and what; an error is a refusal that waits for its turn."""


class Binding(NamedTuple):
    """A connection that became an agent's client."""

    agent: str
    source: Source
    earlier: Session | None
    """The client before it."""
    moved: tuple[str, Session] | None = None
    """The agent that the connection was until then, and its session."""


class Tick:
    """What one tick has come to so far; nobody outside knows of it before the commit."""

    __slots__ = ("answers", "attached", "events", "fresh", "handed", "refused")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.fresh: dict[int, StoredMessage] = {}
        self.answers: list[tuple[Source, int, Reply | TellwireError]] = []
        self.handed: list[MessagesDelivered] = []
        self.attached: list[Binding] = []
        self.refused: list[tuple[Caller, object, Reply | TellwireError]] = []

    def undo(self) -> None:
        """It never was, but for what is known of its messages."""
        self.events, self.handed, self.attached, self.answers, self.refused = [], [], [], [], []
