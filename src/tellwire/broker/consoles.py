"""The terminals of the person who runs all this: each is offered the operator's mail, none gets it alone.

Nothing is leased to a terminal, so nothing has to be given back when it goes away. What one has shown is
read for all; what another was offered meanwhile it may still show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import msgspec

from tellwire.broker.ports import Source
from tellwire.core.limits import Limits
from tellwire.core.record.stored import StoredMessage
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.frames import format_offer

_encode = msgspec.json.Encoder().encode


class Console:
    """One connection of the operator that wants to be offered mail."""

    __slots__ = ("last", "offered", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.offered: set[int] = set()
        """Its window: what it was offered and nobody has read."""
        self.last = 0
        """Everything up to here was offered to it once."""


class Consoles:
    """The connections at which the operator is offered mail."""

    def __init__(self, load: Callable[[Sequence[int]], list[StoredMessage]], limits: Limits) -> None:
        self._load = load
        self._limits = limits
        self._consoles: dict[int, Console] = {}

    def join(self, source: Source) -> None:
        """Offer this connection what waits, and what comes from now on."""
        self._consoles[id(source)] = Console(source)

    def leave(self, source: Source) -> None:
        """Offer this connection nothing more: it is closed, or reads no mail."""
        self._consoles.pop(id(source), None)

    def __contains__(self, source: Source) -> bool:
        return id(source) in self._consoles

    def unread(self, state: State) -> int:
        """How many messages the operator has not read."""
        operator = state.find(OPERATOR)
        return 0 if operator is None else len(operator.pending)

    def offer_new(self, state: State, fresh: dict[int, StoredMessage]) -> list[Source]:
        """After a commit: offer what is new to each that can take it; those that got something."""
        operator = state.find(OPERATOR) if self._consoles else None
        if operator is None:
            return []
        told: list[Source] = []
        for console in self._consoles.values():
            if console.source.writable and self._offer(console, operator, fresh):
                told.append(console.source)
        return told

    def _offer(self, console: Console, operator: Agent, fresh: dict[int, StoredMessage]) -> bool:
        """Offer a console what fits into its window; False if there is nothing to offer."""
        pending = operator.pending
        console.offered = {seq for seq in console.offered if seq in pending}
        newer = list(takewhile(lambda seq: seq > console.last, reversed(pending)))[::-1]
        room = self._limits.window_messages_max - len(console.offered)
        room_bytes = self._limits.window_bytes_max - sum(pending[seq].size for seq in console.offered)
        seqs: list[int] = []
        for seq in newer[: max(0, room)]:
            room_bytes -= pending[seq].size
            # A message larger than the whole window still goes, alone.
            if room_bytes < 0 and (seqs or console.offered):
                break
            seqs.append(seq)
        if not seqs:
            return False
        console.offered.update(seqs)
        console.last = seqs[-1]
        known = {message.seq: message for message in self._load([seq for seq in seqs if seq not in fresh])}
        frames = [_encode((fresh.get(seq) or known[seq]).record()) for seq in seqs]
        console.source.offer(format_offer(frames, len(newer) - len(seqs)))
        return True
