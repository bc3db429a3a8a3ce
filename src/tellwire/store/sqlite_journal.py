"""The journal in one SQLite file: WAL, `synchronous=FULL`, one connection, one writer.

A damaged or newer file is refused with a clear error and never written to.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from time import monotonic

from tellwire.core.context import Header, Settled
from tellwire.core.record.final_receipts import FinalReceipt, final_receipts, settle
from tellwire.core.record.space import kept_of
from tellwire.core.record.stored import Commit, Pruned, StoredMessage
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import parse_batch
from tellwire.store import kept, search
from tellwire.store.chain import next_hash
from tellwire.store.failures import explain, explained
from tellwire.store.history import SqliteHistory
from tellwire.store.losses import Loss, keep_log, note_loss

SCHEMA_VERSION = 1
APPLICATION_ID = 0x546C7772
"""Marks the file as tellwire's: `Tlwr`."""
SNAPSHOTS_KEPT = 2
CHECK_EVERY_S = 0.05
"""A commit looks whether the file is still there, but not more often than this."""
PAGE_BYTES = 4096

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: dict[int, Migration] = {}
"""From a schema version to the step that lifts it by one."""


class SqliteJournal(SqliteHistory):
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
        self._migrations = MIGRATIONS if migrations is None else migrations
        self._schema_version = schema_version
        self._tail: dict[int, list[FinalReceipt]] = {}
        """Final receipts behind the derived table's cursor, filled when somebody asks."""
        self._tail_seq = 0
        self._check_at = 0.0
        keep_log(path)
        _create_private(path)
        with explained(path):
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0, cached_statements=64)
            self._cursor = self._db.cursor()
            try:
                self._open(bytes_max)
                self._hash, self._seq, self._at = self._head()
                self._files = {file: os.stat(file) for file in (str(path), f"{path}-wal")}
            except BaseException:
                self._db.close()
                raise

    # -- opening --------------------------------------------------------------------------------------

    def _open(self, bytes_max: int) -> None:
        db = self._db
        version = self._check_kind()
        db.execute(f"pragma page_size={PAGE_BYTES}")
        db.execute("pragma journal_mode=wal")
        db.execute("pragma synchronous=full")
        db.execute("pragma wal_autocheckpoint=1000")
        db.execute("pragma cache_size=-2048")
        if bytes_max:
            db.execute(f"pragma max_page_count={max(64, bytes_max // PAGE_BYTES)}")
        if version == 0:
            self._create()
        elif version < self._schema_version:
            self._migrate(version)
        kept.prepare(db)

    def _check_kind(self) -> int:
        """The schema version of the file, 0 if it is empty; nothing is written before this passed."""
        (version,) = self._db.execute("pragma user_version").fetchone()
        (application,) = self._db.execute("pragma application_id").fetchone()
        (tables,) = self._db.execute("select count(*) from sqlite_master").fetchone()
        if version == 0 and application == 0 and tables == 0:
            return 0
        if application != APPLICATION_ID or version == 0:
            raise TellwireError("database_corrupt", f"{self.path} is a database, but not one of tellwire's.")
        if version > self._schema_version:
            raise TellwireError(
                "database_newer",
                f"{self.path} is from a newer tellwire (schema {version}, not {self._schema_version}).",
            )
        return version

    def _create(self) -> None:
        schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
        self._db.executescript(
            f"begin immediate; {schema}; insert into cursors values ('{kept.CURSOR}', 0);"
            f" pragma application_id={APPLICATION_ID};"
            f" pragma user_version={self._schema_version}; commit"
        )

    def _migrate(self, version: int) -> None:
        backup = self.path.with_name(f"{self.path.name}.v{version}")
        if not backup.exists():
            _create_private(backup)
            self._db.execute("vacuum into ?", (str(backup),))
        while version < self._schema_version:
            self._db.execute("begin immediate")
            try:
                self._migrations[version](self._db)
                version += 1
                self._db.execute(f"pragma user_version={version}")
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise

    def note_loss(self) -> Loss | None:
        """What the journal lacks of what the head file names; to be asked before anything is written.

        Raises:
            TellwireError: `storage_full`: it cannot be noted.
        """
        return note_loss(self._db, self.path)

    def _head(self) -> tuple[bytes, int, float]:
        row = self._db.execute("select hash, seq, at from journal order by seq desc limit 1").fetchone()
        return row or self._db.execute("select hash, seq, 0.0 from anchor").fetchone()

    # -- writing --------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> None:
        """Save one tick: all of it, on disk, or nothing.

        Raises:
            TellwireError: `storage_full`, `storage_gone`: nothing was saved; `storage_broken`: unknown, stop.
        """
        now = monotonic()
        if now >= self._check_at:
            self._check_at = now + CHECK_EVERY_S
            self.check()
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
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise explain(self.path, error) from error
            raise
        self._hash, self._seq, self._at = digest, commit.seq, commit.at

    def check(self) -> None:
        """See that the file is still the one that was opened: what is written to another is lost.

        Raises:
            TellwireError: `storage_gone`.
        """
        for file, before in self._files.items():
            try:
                status = os.stat(file)
            except (FileNotFoundError, NotADirectoryError):
                raise TellwireError("storage_gone", f"{file} was removed while the broker ran.") from None
            except OSError:
                continue  # nobody knows; the commit will tell
            if status.st_ino != before.st_ino:
                raise TellwireError("storage_gone", f"{file} was replaced while the broker ran.")
            if status.st_size < before.st_size:  # SQLite itself makes neither of them shorter
                raise TellwireError("storage_gone", f"{file} was emptied or cut while the broker ran.")
            self._files[file] = status

    def probe(self) -> None:
        """Try whether the file can be written.

        Raises:
            TellwireError: not yet.
        """
        with self._transaction() as db:
            db.execute("update cursors set seq = seq where name = 'receipts'")
            db.execute("create table probe (page blob)")
            db.execute("insert into probe values (zeroblob(65536))")
            db.execute("drop table probe")

    def save_snapshot(self, seq: int, data: bytes, keep: int = SNAPSHOTS_KEPT) -> None:
        """Save the state as of `seq`, the last commit; only the newest few are kept."""
        with self._transaction() as db:
            db.execute("insert or replace into snapshots values (?,?,?)", (seq, self._hash, data))
            db.execute(
                "delete from snapshots where seq not in"
                " (select seq from snapshots order by seq desc limit ?)",
                (keep,),
            )

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        self.check()
        with explained(self.path):
            try:
                self._db.execute("begin immediate")
                yield self._db
                self._db.execute("commit")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("rollback")

    # -- reading --------------------------------------------------------------------------------------

    def snapshots(self) -> list[tuple[int, bytes]]:
        """Saved states, newest first."""
        with explained(self.path):
            return self._db.execute("select seq, data from snapshots order by seq desc").fetchall()

    def replay(self, after: int) -> Iterator[Commit]:
        """All commits behind `after`, in order, the chain of hashes proved on the way.

        Raises:
            TellwireError: `database_corrupt`.
        """
        with explained(self.path):
            previous = self._hash_at(after)
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

    def _hash_at(self, seq: int) -> bytes:
        row = self._db.execute("select hash from journal where seq = ?", (seq,)).fetchone()
        row = row or self._db.execute("select hash from snapshots where seq = ?", (seq,)).fetchone()
        row = row or self._db.execute("select hash from anchor where seq = ?", (seq,)).fetchone()
        if row is None:
            raise TellwireError(
                "database_corrupt", f"The journal of {self.path} does not reach back to {seq}."
            )
        return row[0]

    def header(self, seq: int) -> Header | None:
        """A stored message without its text."""
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

    def settled(self, seq: int) -> dict[str, Settled]:
        """The final receipts of a message: from the derived table, then from the tail of the journal."""
        with explained(self.path):
            found = self._db.execute(
                "select recipient, state, evidence, at from receipts where message = ?", (seq,)
            )
            known = {recipient: Settled(state, evidence, at) for recipient, state, evidence, at in found}
            self._read_tail()
        return settle(known, self._tail.get(seq, []), seq)

    def receipts(self, seqs: Sequence[int]) -> dict[int, dict[str, Settled]]:
        """The final receipts of several messages."""
        known: dict[int, dict[str, Settled]] = {seq: {} for seq in seqs}
        with explained(self.path):
            marks = ",".join("?" * len(seqs))
            for message, recipient, *rest in self._db.execute(
                f"select message, recipient, state, evidence, at from receipts where message in ({marks})",
                seqs,
            ):
                known[message][recipient] = Settled(*rest)
            self._read_tail()
        return {seq: settle(found, self._tail.get(seq, []), seq) for seq, found in known.items()}

    def _read_tail(self) -> None:
        """Take in the commits that `receipts` lacks; those seen before are not read again."""
        self._tail_seq = max(self._tail_seq, self.derived())
        for commit in self.replay(self._tail_seq):
            for row in finals_of([commit]):
                self._tail.setdefault(row.message, []).append(row)
            self._tail_seq = commit.seq

    # -- derived and old ------------------------------------------------------------------------------

    def derived(self) -> int:
        """Up to which event `receipts` is filled."""
        (seq,) = self._db.execute("select seq from cursors where name = 'receipts'").fetchone()
        return seq

    def derive(self, commits_max: int) -> bool:
        """Fill `receipts` from a few more commits; True if more are left."""
        with explained(self.path):
            rows = self._db.execute(
                "select seq, at, awake, data from journal where seq > ? order by seq limit ?",
                (self.derived(), commits_max),
            )
            commits = [Commit(seq, at, awake, data, []) for seq, at, awake, data in rows]
        if not commits:
            return False
        batches = [parse_batch(commit.data) for commit in commits]
        finals = [
            row
            for commit, batch in zip(commits, batches, strict=True)
            for row in final_receipts(batch, commit.at)
        ]
        with self._transaction() as db:
            kept.add(db, kept_of(batches))
            db.executemany(
                "insert into receipts values (?,?,?,?,?) on conflict do update set state = excluded.state,"
                " at = excluded.at, evidence = iif(excluded.evidence = '', evidence, excluded.evidence)",
                finals,
            )
            db.execute("update cursors set seq = ? where name = 'receipts'", (commits[-1].seq,))
            kept.advance(db, commits[-1].seq)
        if commits[-1].seq >= self._tail_seq:
            self._tail.clear()
        return commits[-1].seq < self._seq

    def index(self) -> bool:
        """Make a few more messages searchable; True if more may be left."""
        with self._transaction() as db:
            return search.index(db)

    def kept(self) -> dict[str, int]:
        """Bytes of the messages that are stored, by sender."""
        with explained(self.path):
            found = kept.load(self._db)
            tail = kept_of(parse_batch(commit.data) for commit in self.replay(self.derived()))
        return {sender: found.get(sender, 0) + tail.get(sender, 0) for sender in {*found, *tail}}

    def prune(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Let go of history older than `before` on the awake clock, a few rows at a time."""
        return self._let_go("awake", before, open_from, rows_max)

    def purge(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Let go of history from before the time `before`, a few rows at a time."""
        return self._let_go("at", before, open_from, rows_max)

    def _let_go(self, clock: str, before: float, open_from: int, rows_max: int) -> Pruned:
        """Let go of the first rows, up to one that is not older by that clock.

        Messages from `open_from` on stay, and so do commits that no snapshot or derived table has passed. The
        index rows go first, in slices of their own.
        """
        (snapshot,) = self._db.execute("select coalesce(min(seq), 0) from snapshots").fetchone()
        reach = min(snapshot, self.derived(), open_from - 1)
        with self._transaction() as db:
            rows = db.execute(
                f"select seq, hash, {clock}, data from journal where seq <= ? order by seq limit ?",
                (reach, rows_max),
            )
            # Times can go back: what was written while the clock was wrong does not pull others along.
            old = list(takewhile(lambda row: row[2] < before, rows))
            if not old:
                return Pruned()
            last = old[-1][:2]
            if search.unindex(db, last[0]):
                return Pruned(more=True)
            messages = db.execute("delete from messages where seq <= ?", (last[0],)).rowcount
            db.execute("delete from receipts where message <= ?", (last[0],))
            freed = kept_of(parse_batch(row[3]) for row in old)
            kept.subtract(db, freed)
            commits = db.execute("delete from journal where seq <= ?", (last[0],)).rowcount
            db.execute("update anchor set seq = ?, hash = ?", last)
            search.forget_steps(db, last[0])
        return Pruned(commits, messages, more=True, freed=freed)

    def close(self) -> None:
        """Close the file; the log of writes is folded into it."""
        self._db.close()


def finals_of(commits: Iterable[Commit]) -> list[FinalReceipt]:
    """The receipts that reached a final state in `commits`."""
    return [row for commit in commits for row in final_receipts(parse_batch(commit.data), commit.at)]


def _create_private(path: Path) -> None:
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
