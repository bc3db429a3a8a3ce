"""The part of the SQLite journal that only reads the past: pages of messages, rows of events, the head."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tellwire.core.record.queries import Entry, Query
from tellwire.core.record.stored import Found
from tellwire.protocol.events import parse_batch
from tellwire.store import search
from tellwire.store.failures import explained
from tellwire.store.head import Head, save_head


class SqliteHistory:
    """Questions about what was committed; answered on the journal's own connection."""

    path: Path
    _db: sqlite3.Connection
    _hash: bytes
    _seq: int
    _head_saved: int = -1

    def find(self, query: Query) -> Found:
        """A page of messages, newest first."""
        with explained(self.path):
            return search.find(self._db, query)

    def indexed(self) -> int:
        """Up to which event messages are indexed."""
        with explained(self.path):
            return search.indexed(self._db)

    def entries(self, after: int, before: int, limit: int) -> list[Entry]:
        """Events in order: the first behind `after` if it is above 0, else the last ones before `before`."""
        with explained(self.path):
            return read_forwards(self._db, after, before, limit) if after else self._last(before, limit)

    def _last(self, before: int, limit: int) -> list[Entry]:
        # The commit in which `before` stands is named by its last event.
        rows = self._db.execute(
            "select seq, at, data from journal where ? = 0 or seq <= coalesce("
            " (select min(seq) from journal where seq >= ? - 1), ?) order by seq desc",
            (before, before, before),
        )
        found: list[Entry] = []
        for seq, at, data in rows:
            entries = [entry for entry in entries_of(seq, at, data) if not before or entry.seq < before]
            found = [*entries[-(limit - len(found)) :], *found]
            if len(found) >= limit:
                break
        return found

    def oldest(self) -> tuple[int, float] | None:
        """Sequence and time of the first commit that is kept."""
        with explained(self.path):
            return self._db.execute("select seq, at from journal order by seq limit 1").fetchone()

    def head(self) -> tuple[int, bytes]:
        """The newest commit and its hash."""
        return self._seq, self._hash

    def save_head(self) -> None:
        """Write the head into its own file, unless it is there already.

        Raises:
            TellwireError: `storage_full`; the older one stands.
        """
        if self._head_saved != self._seq:
            save_head(self.path, Head(self._seq, self._hash.hex()))
            self._head_saved = self._seq


def read_forwards(db: sqlite3.Connection, after: int, before: int, limit: int) -> list[Entry]:
    """The first events behind `after`."""
    found: list[Entry] = []
    for seq, at, data in db.execute("select seq, at, data from journal where seq > ? order by seq", (after,)):
        for entry in entries_of(seq, at, data):
            if entry.seq > after and (not before or entry.seq < before):
                found.append(entry)
        if len(found) >= limit or (before and seq >= before):
            break
    return found[:limit]


def entries_of(seq: int, at: float, data: bytes) -> list[Entry]:
    """The events of one commit, each with its own sequence."""
    batch = parse_batch(data)
    first = seq - len(batch) + 1
    return [Entry(first + place, at, event) for place, event in enumerate(batch)]
