"""Ports: what the broker needs from outside, and what it offers to `sessions`, `mcp` and `children`.

`Journal` and `Source` are the engine's needs. `MeshView`, `Mesh`, `Deliveries` and `SessionMesh` are what
`sessions`, `mcp` and `children` get instead of the engine: each constructor names the least that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tellwire.broker.registrations import ClientFacts
from tellwire.core.context import (
    Caller,
)
from tellwire.core.kernel import Command, OwnCommand
from tellwire.core.limits import Limits
from tellwire.core.record.stored import (
    Commit,
    Entry,
    FinalState,
    Header,
    MessagePage,
    Pruned,
    Query,
    StoredMessage,
    Talks,
)
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.base import Reply

NOBODY = Caller(kind="script")


class Journal(Protocol):
    """A durable journal; `store.sqlite_journal` and its in-memory twin pass one contract suite."""

    def commit(self, commit: Commit) -> None:
        """Save one tick, on disk when this returns.

        Raises:
            TellwireError: `storage_full` (nothing saved, may clear), `storage_gone` (nothing saved, a
                person has to act) or `storage_broken` (unknown).
        """
        ...

    def check(self) -> None:
        """Check that the next start will find what was written; raises `storage_gone`."""
        ...

    def probe(self) -> None:
        """Try whether a commit would pass; raises like `commit`."""
        ...

    def save_snapshot(self, seq: int, data: bytes, keep: int = 2) -> None:
        """Save the state as of the last commit; only the newest `keep` stay."""
        ...

    def snapshots(self) -> list[tuple[int, bytes]]: ...

    def replay(self, after: int) -> Iterable[Commit]:
        """All commits behind `after`, in order."""
        ...

    def header(self, seq: int) -> Header | None:
        """A stored message without its body."""
        ...

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Stored messages, by sequence; deleted ones are left out."""
        ...

    def settled(self, seq: int) -> dict[str, FinalState]:
        """Final receipts of a message, by recipient."""
        ...

    def receipts(self, seqs: Sequence[int]) -> dict[int, dict[str, FinalState]]:
        """Final receipts of several messages, by recipient."""
        ...

    def find(self, query: Query) -> MessagePage:
        """One page of messages, newest first, in bounded time; it may be empty and still have a next."""
        ...

    def entries(self, after: int, before: int, limit: int) -> list[Entry]:
        """Events in order: the first behind `after` if it is above 0, else the last ones before `before`."""
        ...

    def oldest(self) -> tuple[int, float] | None:
        """Sequence and time of the first commit that is kept."""
        ...

    def head(self) -> tuple[int, bytes]: ...

    def save_head(self) -> None:
        """Write the head into a file of its own; raises `storage_full`."""
        ...

    def talks(self, before: int, limit: int) -> Talks:
        """Conversations whose last message lies below `before`, or all if it is 0; newest first."""
        ...

    def indexed(self) -> int:
        """Up to which event messages are indexed for searching."""
        ...

    def index(self) -> bool:
        """Index a slice more; True if more may be left."""
        ...

    def derived(self) -> int:
        """Up to which event the derived tables are filled."""
        ...

    def derive(self, commits_max: int) -> bool:
        """Fill them a little further; True if more is left."""
        ...

    def kept(self) -> dict[str, int]:
        """Bytes of the messages that are stored, by the id of their sender."""
        ...

    def prune(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete some history older than `before` on the awake clock; returns what was deleted."""
        ...

    def purge(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete some history from before the time `before`; returns what was deleted."""
        ...

    def close(self) -> None: ...


class Source(Protocol):
    """One connection, as the engine sees it."""

    caller: Caller
    group: str

    @property
    def writable(self) -> bool:
        """Whether its client reads what it is sent; else it gets no offers."""
        ...

    @property
    def last_seen(self) -> float:
        """When its client last showed life, on the monotonic clock."""
        ...

    def answer(self, n: int, reply: Reply) -> None:
        """Put the answer to call `n` into the outgoing bytes."""
        ...

    def refuse(self, n: int, error: TellwireError) -> None:
        """Put the refusal of call `n` into the outgoing bytes."""
        ...

    def offer(self, frame: bytes) -> None:
        """Put an encoded offer into the outgoing bytes."""
        ...

    def mail(self, waiting: int) -> None:
        """Tell a client that fetches its mail how many messages are waiting."""
        ...

    def flush(self) -> None:
        """Send what was put together, in one write."""
        ...

    def attach(self, agent: str, *, is_own_client: bool) -> None:
        """From now on this connection speaks as `agent`."""
        ...

    def detach(self) -> None:
        """Detach the connection from its agent."""
        ...

    def dismiss(self, error: TellwireError) -> None:
        """Send the reason and close the connection."""
        ...


class ClockView(Protocol):
    """The engine's times; see `system.clock`."""

    @property
    def now(self) -> float: ...

    @property
    def awake(self) -> float:
        """Seconds in which the broker ran and was not suspended."""
        ...

    def read(self) -> float:
        """Bring both up to date and return `now`."""
        ...


class MeshView(Protocol):
    """The state of the mesh, read-only."""

    @property
    def state(self) -> State:
        """Agents, links, children and claims as of now; only the engine changes it."""
        ...

    @property
    def limits(self) -> Limits: ...

    @property
    def clock(self) -> ClockView: ...


class Mesh(MeshView, Protocol):
    """The mesh, for parts that also submit commands."""

    @property
    def scheduled(self) -> bool:
        """Whether a tick will run soon: something may not be on disk yet."""
        ...

    @property
    def ending(self) -> set[str]:
        """Processes whose end will be reported; until then they count as alive."""
        ...

    def submit(self, source: Source | None, n: int, command: Command | TellwireError) -> None:
        """Put a command into the next tick; `source` hears of call `n`."""
        ...

    def submit_own(self, command: OwnCommand) -> None:
        """Put a command of the broker's own into the next tick."""
        ...


class ConnectedClient(Protocol):
    """One connected client of one agent."""

    @property
    def source(self) -> Source: ...

    @property
    def pulls(self) -> bool:
        """It fetches its mail, and is only notified that some waits."""
        ...


class Deliveries(Protocol):
    """Who is connected, and what each client was given."""

    @property
    def sessions(self) -> Mapping[str, ConnectedClient]: ...

    def client_of(self, agent: str) -> Source | None:
        """The connection of the agent's own client."""
        ...

    def claim(self, state: State, agent: str, ids: list[str]) -> None:
        """Remember what a client may have shown."""
        ...


class SessionMesh(Mesh, Protocol):
    """The mesh for parts that serve clients' sessions: they deliver mail, and report what clients do."""

    @property
    def delivery(self) -> Deliveries: ...

    @property
    def facts(self) -> ClientFacts: ...
