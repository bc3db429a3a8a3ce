"""Refusals, collected for the journal: equal ones of one caller within a second are one row."""

from __future__ import annotations

from typing import TypeAlias

from tellwire.core.context import Caller
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import CallRefused
from tellwire.protocol.operations.base import Operation, Reply
from tellwire.protocol.operations.messages import SendMessage, Sent

WINDOW_S = 1.0
KEYS_MAX = 1_000
ROWS_MAX = 10_000
"""Closed rows that wait for the disk."""
NOT_REACHED = frozenset({"denied", "refused"})
_OF_SENDS = frozenset({"rate_limited"})
"""Codes of refusals before the call was parsed; only sends can have them."""

Key: TypeAlias = tuple[str, str, str]
_OTHERS: Key = ("", "", "")
"""The row for refusals beyond the bound, counted together."""


class Refusals:
    """Counts by caller, operation and code; bounded whatever callers do."""

    def __init__(self) -> None:
        self._open: dict[Key, CallRefused] = {}
        self._closed: list[CallRefused] = []

    def note(self, caller: Caller, command: object, answer: Reply | TellwireError, now: float) -> None:
        """Count an answer if it is a refusal."""
        if isinstance(answer, TellwireError):
            if isinstance(command, Operation):
                name = command.wire_name()
            elif isinstance(command, str):
                name = command  # no call: the caller names what was refused
            else:
                name = SendMessage.wire_name() if answer.code in _OF_SENDS else ""
            self._count(caller, name, answer.code, now)
        elif isinstance(answer, Sent):
            if answer.status in NOT_REACHED:
                self._count(caller, SendMessage.wire_name(), answer.status, now)
            for outcome in answer.recipients:
                if outcome.status in NOT_REACHED:
                    self._count(caller, SendMessage.wire_name(), outcome.status, now)

    def take(self, now: float | None = None) -> list[CallRefused]:
        """The rows whose second is over at `now`; all of them without it."""
        rows, self._closed = self._closed, []
        over = [key for key, row in self._open.items() if now is None or _is_over(row, now)]
        return rows + [self._open.pop(key) for key in over]

    def _count(self, caller: Caller, operation: str, code: str, now: float) -> None:
        """Add one to the row of this caller, operation and code, within bounds."""
        key = (caller.agent or caller.kind, operation, code)
        row = self._open.get(key)
        if row is not None and _is_over(row, now) and len(self._closed) < ROWS_MAX:
            self._closed.append(self._open.pop(key))
            row = None
        if row is None and len(self._open) >= KEYS_MAX:
            key = _OTHERS
            row = self._open.get(key)
        if row is None:
            row = CallRefused(*key, 0, now)
        self._open[key] = CallRefused(*key, row.count + 1, row.since)


def _is_over(row: CallRefused, now: float) -> bool:
    """Whether its second is over; it is, too, if the clock was set back."""
    return not 0.0 <= now - row.since < WINDOW_S
