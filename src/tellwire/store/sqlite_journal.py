"""The journal in one SQLite file: one connection, one writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from time import monotonic

from tellwire.core.record.space import kept_of
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
    entries_of,
)
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import parse_batch
from tellwire.store import conversations, kept, search
from tellwire.store.chain import Head, next_hash, save_head
from tellwire.store.database import MIGRATIONS, SCHEMA_VERSION, Database, Migration, explain, explained
from tellwire.store.derived_receipts import DerivedReceipts
from tellwire.store.losses import Loss, keep_log, note_loss

SNAPSHOTS_KEPT = 2
CHECK_EVERY_S = 0.05
"""A commit looks whether the file is still there, but not more often than this."""


class SqliteJournal:
    """Journal, messages and snapshots in one file."""

    def __init__(
        self,
        path: Path,
        *,
        bytes_max: int = 0,
        migrations: dict[int, Migration] | None = None,
        schema_version: int = SCHEMA_VERSION,
    ) -> None:
        self.path = path
        keep_log(path)
        self._database = Database(
            path,
            bytes_max=bytes_max,
            migrations=MIGRATIONS if migrations is None else migrations,
            schema_version=schema_version,
        )
        self._db = self._database.connection
        self._cursor = self._db.cursor()
        try:
            with explained(path):
                self._hash, self._seq, self._at = _newest(self._db)
        except BaseException:
            self._db.close()
            raise
        self._check_at = 0.0
        self._head_saved = -1
        self._receipts = DerivedReceipts(self._database, self.replay)

    def note_loss(self) -> Loss | None:
        """What the journal lacks of what the head file names; to be asked before anything is written.

        Raises:
            TellwireError: `storage_full`: it cannot be noted.
        """
        return note_loss(self._db, self.path)

    # -- writing --------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> None:
        """Save one tick: all of it, on disk, or nothing.

        Raises:
            TellwireError: `storage_full`, `storage_gone`: nothing was saved; `storage_broken`: unknown, stop.
        """
        now = monotonic()
        if now >= self._check_at:
            self._check_at = now + CHECK_EVERY_S
            self._database.check()
        digest = next_hash(self._hash, commit)
        execute = self._cursor.execute
        try:
            execute("begin immediate")
            execute(
                "insert into journal values (?,?,?,?,?)",
                (commit.seq, commit.at, commit.awake, digest, commit.data),
            )
            if commit.messages:
                self._cursor.executemany(  # plain tuples: a third less time than with named ones
                    "insert into messages values (?,?,?,?,?,?,?,?,?,?,?,?)", map(tuple, commit.messages)
                )
            if commit.at < self._at:
                search.note_step(self._db, self._seq + 1)
            execute("commit")
        except BaseException as error:
            self._database.roll_back()
            if isinstance(error, sqlite3.Error):
                raise explain(self.path, error) from error
            raise
        self._hash, self._seq, self._at = digest, commit.seq, commit.at

    def check(self) -> None:
        self._database.check()

    def probe(self) -> None:
        """Try whether the file can be written.

        Raises:
            TellwireError: not yet.
        """
        with self._database.transaction() as db:
            db.execute("update cursors set seq = seq where name = 'receipts'")
            db.execute("create table probe (page blob)")
            db.execute("insert into probe values (zeroblob(65536))")
            db.execute("drop table probe")

    def save_snapshot(self, seq: int, data: bytes, keep: int = SNAPSHOTS_KEPT) -> None:
        """Save the state as of `seq`, the last commit; only the newest few are kept."""
        with self._database.transaction() as db:
            db.execute("insert or replace into snapshots values (?,?,?)", (seq, self._hash, data))
            db.execute(
                "delete from snapshots where seq not in"
                " (select seq from snapshots order by seq desc limit ?)",
                (keep,),
            )

    # -- reading --------------------------------------------------------------------------------------

    def snapshots(self) -> list[tuple[int, bytes]]:
        with explained(self.path):
            return self._db.execute("select seq, data from snapshots order by seq desc").fetchall()

    def replay(self, after: int) -> Iterator[Commit]:
        """All commits behind `after`, in order, the chain of hashes proved on the way.

        Raises:
            TellwireError: `database_corrupt`.
        """
        with explained(self.path):
            previous = _hash_at(self._db, self.path, after)
            rows = self._db.execute(
                "select seq, at, awake, data, hash from journal where seq > ? order by seq", (after,)
            )
            for seq, at, awake, data, digest in rows:
                commit = Commit(seq, at, awake, data, [])
                intact = isinstance(data, bytes) and digest == next_hash(previous, commit)
                previous = digest
                if not intact:
                    raise TellwireError(
                        "database_corrupt", f"The journal of {self.path} is damaged at {seq}."
                    )
                yield commit

    def header(self, seq: int) -> Header | None:
        with explained(self.path):
            row = self._db.execute("select * from messages where seq = ?", (seq,)).fetchone()
        return None if row is None else StoredMessage(*row).header()

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Stored messages, by sequence; ones that are gone are left out."""
        rows: list[StoredMessage] = []
        with explained(self.path):
            for start in range(0, len(seqs), 500):
                part = seqs[start : start + 500]
                marks = ",".join("?" * len(part))
                found = self._db.execute(
                    f"select * from messages where seq in ({marks}) order by seq",
                    part,
                )
                rows += [StoredMessage(*row) for row in found]
        return rows

    def settled(self, seq: int) -> dict[str, FinalState]:
        return self._receipts.settled(seq)

    def receipts(self, seqs: Sequence[int]) -> dict[int, dict[str, FinalState]]:
        return self._receipts.settled_all(seqs)

    def find(self, query: Query) -> MessagePage:
        with explained(self.path):
            return search.find(self._db, query)

    def talks(self, before: int, limit: int) -> Talks:
        with explained(self.path):
            return conversations.listed(self._db, before, limit)

    def indexed(self) -> int:
        with explained(self.path):
            return search.indexed(self._db)

    def entries(self, after: int, before: int, limit: int) -> list[Entry]:
        """Events in order: the first behind `after` if it is above 0, else the last ones before `before`."""
        with explained(self.path):
            return (
                read_forwards(self._db, after, before, limit)
                if after
                else read_backwards(self._db, before, limit)
            )

    def oldest(self) -> tuple[int, float] | None:
        with explained(self.path):
            return self._db.execute("select seq, at from journal order by seq limit 1").fetchone()

    def head(self) -> tuple[int, bytes]:
        return self._seq, self._hash

    def save_head(self) -> None:
        """Write the head into its own file, unless it is there already.

        Raises:
            TellwireError: `storage_full`; the old file is unchanged.
        """
        if self._head_saved != self._seq:
            save_head(self.path, Head(self._seq, self._hash.hex()))
            self._head_saved = self._seq

    # -- derived and old ------------------------------------------------------------------------------

    def derived(self) -> int:
        return self._receipts.derived()

    def derive(self, commits_max: int) -> bool:
        return self._receipts.derive(commits_max, self._seq)

    def index(self) -> bool:
        """Make a few more messages searchable; True if more may be left."""
        with self._database.transaction() as db:
            return search.index(db) or conversations.index(db)

    def kept(self) -> dict[str, int]:
        with explained(self.path):
            found = kept.load(self._db)
            tail = kept_of(parse_batch(commit.data) for commit in self.replay(self.derived()))
        return {sender: found.get(sender, 0) + tail.get(sender, 0) for sender in {*found, *tail}}

    def prune(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete history older than `before` on the awake clock, a few rows at a time."""
        reach = min(open_from - 1, self.derived())
        return _delete(self._database, "awake", before, reach=reach, rows_max=rows_max)

    def purge(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete history from before the time `before`, a few rows at a time."""
        reach = min(open_from - 1, self.derived())
        return _delete(self._database, "at", before, reach=reach, rows_max=rows_max)

    def close(self) -> None:
        """Close the file; the log of writes is folded into it."""
        self._db.close()


def _newest(db: sqlite3.Connection) -> tuple[bytes, int, float]:
    """Hash, sequence and time of the last commit; of the anchor, if all commits are deleted."""
    row = db.execute("select hash, seq, at from journal order by seq desc limit 1").fetchone()
    return row or db.execute("select hash, seq, 0.0 from anchor").fetchone()


def _hash_at(db: sqlite3.Connection, path: Path, seq: int) -> bytes:
    """The hash of the commit `seq`, which may be known only by a snapshot or the anchor."""
    row = db.execute("select hash from journal where seq = ?", (seq,)).fetchone()
    row = row or db.execute("select hash from snapshots where seq = ?", (seq,)).fetchone()
    row = row or db.execute("select hash from anchor where seq = ?", (seq,)).fetchone()
    if row is None:
        raise TellwireError("database_corrupt", f"The journal of {path} does not reach back to {seq}.")
    return row[0]


def read_backwards(db: sqlite3.Connection, before: int, limit: int) -> list[Entry]:
    """The last events before `before`, or of all if it is 0; in order."""
    # A commit is stored under the sequence of its last event.
    rows = db.execute(
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


def read_forwards(db: sqlite3.Connection, after: int, before: int, limit: int) -> list[Entry]:
    """The first events behind `after`, in order."""
    found: list[Entry] = []
    for seq, at, data in db.execute("select seq, at, data from journal where seq > ? order by seq", (after,)):
        for entry in entries_of(seq, at, data):
            if entry.seq > after and (not before or entry.seq < before):
                found.append(entry)
        if len(found) >= limit or (before and seq >= before):
            break
    return found[:limit]


def _delete(database: Database, clock: str, before: float, *, reach: int, rows_max: int) -> Pruned:
    """Delete the first rows, up to `reach` or one that is not older by that clock.

    Commits that no snapshot has passed stay. The index rows go first, in slices of their own.
    """
    (snapshot,) = database.connection.execute("select coalesce(min(seq), 0) from snapshots").fetchone()
    with database.transaction() as db:
        rows = db.execute(
            f"select seq, hash, {clock}, data from journal where seq <= ? order by seq limit ?",
            (min(snapshot, reach), rows_max),
        )
        # Times can go back: what was written while the clock was wrong does not pull others along.
        old = list(takewhile(lambda row: row[2] < before, rows))
        if not old:
            return Pruned()
        last = old[-1][:2]
        if search.unindex(db, last[0]):
            return Pruned(more=True)
        conversations.forget(db, last[0])
        messages = db.execute("delete from messages where seq <= ?", (last[0],)).rowcount
        db.execute("delete from receipts where message <= ?", (last[0],))
        freed = kept_of(parse_batch(row[3]) for row in old)
        kept.subtract(db, freed)
        commits = db.execute("delete from journal where seq <= ?", (last[0],)).rowcount
        db.execute("update anchor set seq = ?, hash = ?", last)
        search.forget_steps(db, last[0])
    return Pruned(commits, messages, more=True, freed=freed)
