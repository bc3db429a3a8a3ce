"""One tick of the engine while it is being put together."""

from __future__ import annotations

from palaver.broker.delivery import Session
from palaver.broker.ports import Source
from palaver.core.context import Caller
from palaver.core.records import StoredMessage
from palaver.protocol.errors import PalaverError
from palaver.protocol.events import AnyEvent, MessagesDelivered
from palaver.protocol.operations.base import Reply


class Tick:
    """What one tick has come to so far; nobody outside knows of it before the commit."""

    __slots__ = ("answers", "attached", "events", "fresh", "handed", "refused")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.fresh: dict[int, StoredMessage] = {}
        self.answers: list[tuple[Source, int, Reply | PalaverError]] = []
        self.handed: list[MessagesDelivered] = []
        self.attached: list[tuple[str, Source, Session | None]] = []
        self.refused: list[tuple[Caller, object, Reply | PalaverError]] = []

    def undo(self) -> None:
        """It never was, but for what is known of its messages."""
        self.events, self.handed, self.attached, self.answers, self.refused = [], [], [], [], []
