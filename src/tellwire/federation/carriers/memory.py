"""A carrier in memory, for tests and simulations: it loses, repeats, reorders, delays and forgets, by seed.

A `MemoryWire` joins the two ends of one pair. Time does not pass by itself: `deliver` hands on what is due.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from random import Random

import msgspec

from tellwire.federation.ports import BLOB_BYTES_MAX, Receive, Up


class Faults(msgspec.Struct, kw_only=True):
    """What the wire does to a blob, each with a probability."""

    loss: float = 0.0
    repeat: float = 0.0
    replay: float = 0.0
    """Something that was ever sent is sent again."""
    delay_s: float = 0.0
    """At most; each blob gets its own, so they overtake each other."""


class MemoryWire:
    """The two ends of one pair."""

    def __init__(
        self, ends: tuple[str, str], now: Callable[[], float], *, random: Random, remembered: int = 200
    ) -> None:
        self._now = now
        self._random = random
        self._queue: list[tuple[float, int, str, bytes]] = []
        self._count = 0
        self._past: list[tuple[str, bytes]] = []
        self._remembered = remembered
        self.faults = Faults()
        self.is_up = True
        self.ends = {end: MemoryCarrier(self, end, other) for end, other in (ends, ends[::-1])}

    def put(self, to: str, blob: bytes) -> None:
        """One end has sent a blob to the other."""
        faults, random = self.faults, self._random
        self._past.append((to, blob))
        if len(self._past) > self._remembered:
            self._past.pop(random.randrange(len(self._past)))
        if random.random() >= faults.loss:
            self._schedule(to, blob)
        if random.random() < faults.repeat:
            self._schedule(to, blob)
        if random.random() < faults.replay:
            self._schedule(*random.choice(self._past))

    def _schedule(self, to: str, blob: bytes) -> None:
        self._count += 1
        at = self._now() + self._random.random() * self.faults.delay_s
        heapq.heappush(self._queue, (at, self._count, to, blob))

    def wipe(self) -> None:
        """Whatever is on its way is gone."""
        self._queue = []

    def next_at(self) -> float | None:
        """When the next blob is due."""
        return self._queue[0][0] if self._queue else None

    def deliver(self) -> int:
        """Hand on everything that is due; how many blobs that was."""
        count = 0
        while self._queue and self._queue[0][0] <= self._now():
            _, _, to, blob = heapq.heappop(self._queue)
            self.ends[to].arrive(blob)
            count += 1
        return count


class MemoryCarrier:
    """One end of a wire."""

    name = "memory"

    def __init__(self, wire: MemoryWire, end: str, other: str) -> None:
        self._wire = wire
        self._other = other
        self._receive: Receive | None = None
        self._up: Up | None = None
        self.end = end

    def connect(self, receive: Receive, up: Up) -> None:
        """Begin without a task of its own."""
        self._receive, self._up = receive, up
        up(self._wire.is_up, "" if self._wire.is_up else "switched off")

    def disconnect(self) -> None:
        """Nobody listens at this end."""
        self._receive = self._up = None

    async def run(self, receive: Receive, up: Up) -> None:
        """Serve until cancelled."""
        self.connect(receive, up)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.disconnect()

    def note_up(self) -> None:
        """The wire was switched on or off."""
        if self._up is not None:
            self._up(self._wire.is_up, "" if self._wire.is_up else "switched off")

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Put a blob on the wire."""
        del last  # nothing is kept, so nothing can be let go
        if not self._wire.is_up or len(blob) > BLOB_BYTES_MAX:
            return False
        self._wire.put(self._other, blob)
        return True

    def forget(self, last: int) -> None:
        """Nothing is kept."""

    def arrive(self, blob: bytes) -> None:
        """A blob has come through."""
        if self._receive is not None:
            self._receive(blob)
