"""What federation needs from outside: carriers that move blobs, a seal that closes them, and the broker.

One `Carrier` serves one paired machine. A pair may have several; the first that is up is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tellwire.core.kernel import OwnCommand
from tellwire.core.state import Machine, State
from tellwire.protocol.machines import BoxKey
from tellwire.protocol.parcels import Item

Receive: TypeAlias = Callable[[bytes], None]
"""Takes one blob as it came. It never raises and returns quickly."""
Up: TypeAlias = Callable[[bool, str], None]
"""Hears whether the carrier is connected from now on, and if not, why: in words for people."""

BLOB_BYTES_MAX = 256 * 1024
"""The largest blob; a carrier drops what is larger."""


class Carrier(Protocol):
    """Moves opaque sealed blobs to and from one other machine.

    It may lose, repeat, reorder, delay or forget anything, and needs no durability: the exchange sends again
    what was not acknowledged. While it is connected it should keep the order.
    """

    @property
    def name(self) -> str:
        """`redis`, `ssh` or `memory`."""
        ...

    async def run(self, receive: Receive, up: Up) -> None:
        """Connect, and connect again with growing delays, until cancelled; raises nothing else."""
        ...

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Send one blob; False if it is not connected or full, and then nothing was sent.

        `last` grows with the numbers inside: see `forget`. 0 if the blob holds nothing that is numbered.
        """
        ...

    def forget(self, last: int) -> None:
        """Whatever was sent with at most this `last` has arrived: the carrier need not keep it."""
        ...


class Seal(Protocol):
    """Closes blobs for one machine each, and opens what came from one that is paired."""

    def learn(self, machine: str, sign_key: bytes, boxes: Sequence[BoxKey]) -> None:
        """These are the keys of a paired machine now."""
        ...

    def forget(self, machine: str) -> None:
        """The machine was removed: nothing opens under its keys any more."""
        ...

    def seal(self, machine: str, plain: bytes) -> bytes:
        """Close a text for one machine."""
        ...

    def open(self, blob: bytes) -> tuple[str, bytes] | None:
        """The machine that sealed a blob for us, and its text; None if it does not open."""
        ...


class Broker(Protocol):
    """What federation needs of the running broker."""

    @property
    def state(self) -> State:
        """As of the last commit: federation is never called in the middle of a tick."""
        ...

    def awake(self) -> float:
        """Seconds on the clock that stops while the machine sleeps."""
        ...

    def monotonic(self) -> float: ...

    def submit(self, command: OwnCommand) -> None:
        """Put a command into the next tick."""
        ...

    def load(self, machine: Machine, numbers: Sequence[int]) -> list[Item]:
        """What these numbers of the outbox say now, ready to be sealed; those that are void as `Skip`."""
        ...
