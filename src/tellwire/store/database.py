"""One SQLite file: opened, created or migrated, written in transactions, and checked to be still there.

A damaged or newer file is refused with a clear error and never written to. Errors of SQLite and the disk
become our own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tellwire.protocol.errors import TellwireError
from tellwire.store import conversations, kept, search

SCHEMA_VERSION = 1
APPLICATION_ID = 0x546C7772
"""Marks the file as tellwire's: `Tlwr`."""
PAGE_BYTES = 4096

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: dict[int, Migration] = {}
"""From a schema version to the step that lifts it by one."""


class Database:
    """A connection to the file, in WAL mode with `synchronous=FULL`."""

    def __init__(
        self,
        path: Path,
        *,
        bytes_max: int,
        migrations: dict[int, Migration],
        schema_version: int,
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._schema_version = schema_version
        _create_private(path)
        with explained(path):
            self.connection = sqlite3.connect(path, isolation_level=None, timeout=0, cached_statements=64)
            try:
                self._open(bytes_max)
                self._files = {file: os.stat(file) for file in (str(path), f"{path}-wal")}
            except BaseException:
                self.connection.close()
                raise

    # -- opening --------------------------------------------------------------------------------------

    def _open(self, bytes_max: int) -> None:
        db = self.connection
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
        search.prepare(db)
        conversations.prepare(db)

    def _check_kind(self) -> int:
        """The schema version of the file, 0 if it is empty; nothing is written before this passed."""
        (version,) = self.connection.execute("pragma user_version").fetchone()
        (application,) = self.connection.execute("pragma application_id").fetchone()
        (tables,) = self.connection.execute("select count(*) from sqlite_master").fetchone()
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
        self.connection.executescript(
            f"begin immediate; {schema}; insert into cursors values ('{kept.CURSOR}', 0);"
            f" pragma application_id={APPLICATION_ID};"
            f" pragma user_version={self._schema_version}; commit"
        )

    def _migrate(self, version: int) -> None:
        """Lift the schema step by step, after a copy of the file was made."""
        backup = self.path.with_name(f"{self.path.name}.v{version}")
        if not backup.exists():
            _create_private(backup)
            self.connection.execute("vacuum into ?", (str(backup),))
        while version < self._schema_version:
            self.connection.execute("begin immediate")
            try:
                self._migrations[version](self.connection)
                version += 1
                self.connection.execute(f"pragma user_version={version}")
                self.connection.execute("commit")
            except BaseException:
                self.connection.execute("rollback")
                raise

    # -- using ----------------------------------------------------------------------------------------

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

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """A transaction that is committed at the end of the block, or rolled back if that fails."""
        self.check()
        with explained(self.path):
            try:
                self.connection.execute("begin immediate")
                yield self.connection
                self.connection.execute("commit")
            except BaseException:
                self.roll_back()
                raise

    def roll_back(self) -> None:
        """End a transaction that failed, if SQLite has not done it already."""
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("rollback")


# A busy database is another process at work on the file: as with a full disk, it may clear.
_PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turn what SQLite says into errors of the table."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except OSError as error:
        raise TellwireError("storage_broken", f"The database {path} cannot be used: {error}.") from error


def explain(path: Path, error: sqlite3.Error) -> TellwireError:
    """The error of the table for what SQLite raised."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = -1 if code is None else code & 0xFF
    if primary in _PASSING:
        return TellwireError("storage_full", f"Cannot store anything in {path} now: {error}.")
    if primary in _DAMAGED:
        return TellwireError("database_corrupt", f"{path} is damaged: {error}.")
    return TellwireError("storage_broken", f"The database {path} failed: {error}.")


def _create_private(path: Path) -> None:
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
