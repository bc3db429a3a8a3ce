"""Turns errors of SQLite and the disk into our own errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tellwire.protocol.errors import TellwireError

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
