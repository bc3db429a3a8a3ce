"""What every engine under measurement must offer: a server with a process id, and clients of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

Handle: TypeAlias = bytes | str | int


class Missing(Exception):  # noqa: N818  (a state to report, not a fault)
    """The engine cannot be measured on this machine; the text says why."""


class RoundFailed(Exception):  # noqa: N818  (reported in the table, the run goes on)
    """A round ran but did not keep its own rules, so its figures count for nothing."""


class Received(NamedTuple):
    """A message as its receiver got it; `handle` is what `confirm` takes."""

    handle: Handle
    body: str


class Client(Protocol):
    """One agent: each call returns only after the engine has answered."""

    async def send(self, to: int, body: str) -> None:
        """Send to the client with the number `to`; returns when the engine calls it stored."""
        ...

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; an empty answer means that none came for a while."""
        ...

    async def confirm(self, handles: Sequence[Handle]) -> None:
        """Tell the engine that these were handled; returns when it calls that stored."""
        ...

    async def close(self) -> None:
        """Leave."""
        ...


class Engine(Protocol):
    """A server that is started in a folder of its own, again and again."""

    @property
    def name(self) -> str:
        """As shown in the tables."""
        ...

    @property
    def pid(self) -> int:
        """The server's process, while it runs."""
        ...

    def start(self, folder: Path) -> None:
        """Start on what lies in `folder` and return when it accepts connections.

        Raises:
            Missing: it is not installed here.
        """
        ...

    async def client(self, number: int) -> Client:
        """Connect the client with this number."""
        ...

    def stop(self) -> None:
        """End the server; harmless if it does not run."""
        ...
