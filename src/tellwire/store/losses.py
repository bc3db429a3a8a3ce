"""A journal that is not the one its head file names: noted at the start, reported until acknowledged.

Each loss is a file next to the database, `head.lost-TIME`, that keeps what the head file said. To acknowledge
it renames it to `head.acknowledged-TIME`; nothing is deleted.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.store.chain import head_path, load_head
from tellwire.store.database import explained

LOST, ACKNOWLEDGED = "head.lost-", "head.acknowledged-"
UNREADABLE = -1


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What the head file said, and what was found instead."""

    seq: int
    """The newest event that had been written; below 0 if the head file could not be read."""
    hash: str
    ended: int
    """Where the journal ended when the loss was found."""
    ended_hash: str
    found_at: float

    def words(self) -> str:
        """The loss, described for people."""
        if self.seq == UNREADABLE:
            return "Cannot read the head file, so it is not known whether the end of the journal is missing."
        if not self.ended:
            return f"The database was empty, but had held {self.seq} events: all of them are lost."
        if self.ended < self.seq:
            first, count = self.ended + 1, self.seq - self.ended
            return (
                f"The end of the journal is lost: the last {count} events ({first} to {self.seq}), and the "
                "messages among them."
            )
        return f"Event {self.seq} is not the one that was written: the journal was replaced or rewritten."


def keep_log(database: Path) -> None:
    """Move a log of writes aside that SQLite would delete, because its database is empty or gone."""
    log = database.with_name(f"{database.name}-wal")
    with suppress(OSError):
        is_empty = not database.exists() or not database.stat().st_size
        if is_empty and log.stat().st_size:
            log.rename(f"{log}.lost-{_stamp()}")


def note_loss(db: sqlite3.Connection, database: Path) -> Loss | None:
    """Compare the journal with the head file; if something is lost, note it before the file is written anew.

    Raises:
        TellwireError: `storage_full`: it cannot be noted.
    """
    with explained(database):
        ended, ended_hash = db.execute(
            "select seq, hash from journal union all select seq, hash from anchor order by seq desc limit 1"
        ).fetchone()
        (begins,) = db.execute("select seq from anchor").fetchone()
    try:
        head = load_head(database)
    except TellwireError:
        with suppress(OSError):
            head_path(database).rename(database.with_name(f"head.unreadable-{_stamp()}"))
        loss = Loss(seq=UNREADABLE, hash="", ended=ended, ended_hash=ended_hash.hex(), found_at=time.time())
        return _save(database, loss)
    if head is None or head.seq < begins or head.hash == _hash_at(db, database, head.seq):
        return None
    loss = Loss(seq=head.seq, hash=head.hash, ended=ended, ended_hash=ended_hash.hex(), found_at=time.time())
    known = any((each.seq, each.hash) == (head.seq, head.hash) for each in find_losses(database))
    return loss if known else _save(database, loss)


def find_losses(database: Path) -> list[Loss]:
    """Those that nobody has acknowledged, the first one first."""
    found: list[Loss] = []
    for path in sorted(database.parent.glob(f"{LOST}*")):
        with suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Loss))
    return found


def acknowledge_losses(database: Path) -> int:
    """Acknowledge them, so that they are no longer reported; returns how many there were.

    Raises:
        TellwireError: `storage_broken`.
    """
    paths = sorted(database.parent.glob(f"{LOST}*"))
    with explained(database):
        for path in paths:
            path.rename(path.with_name(path.name.replace(LOST, ACKNOWLEDGED, 1)))
    return len(paths)


def _hash_at(db: sqlite3.Connection, database: Path, seq: int) -> str:
    with explained(database):
        row = db.execute(
            "select hash from journal where seq = ? union all select hash from anchor where seq = ?",
            (seq, seq),
        ).fetchone()
    return "" if row is None else row[0].hex()


def _save(database: Path, loss: Loss) -> Loss:
    path = database.with_name(f"{LOST}{_stamp()}")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(loss) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise TellwireError("storage_full", f"Cannot write {path}: {error}.") from error
    return loss


def _stamp() -> str:
    """A time that sorts, and that no other start has."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 1_000_000_000:09d}"
