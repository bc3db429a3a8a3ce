"""The hash chain over the journal: one hash per commit, each over the one before it; and its head.

The newest hash is also in a file next to the database: a journal that is shorter has lost its tail. The file
is written after a commit is on disk, so it may lag behind the journal and never leads.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from pathlib import Path

import msgspec

from tellwire.core.record.stored import Commit
from tellwire.protocol.errors import TellwireError
from tellwire.system.files import write_atomically

ORIGIN = bytes(32)
_CLOCKS = struct.Struct(">qdd")


def next_hash(previous: bytes, commit: Commit) -> bytes:
    """The hash of `commit` in its place."""
    digest = sha256(previous)
    digest.update(_CLOCKS.pack(commit.seq, commit.at, commit.awake))
    digest.update(commit.data)
    return digest.digest()


class Head(msgspec.Struct, frozen=True):
    """The newest commit and its hash, as the head file has them."""

    seq: int
    hash: str


def head_path(database: Path) -> Path:
    """The path of a database's head file."""
    return database.with_name("head")


def save_head(database: Path, head: Head) -> None:
    """Replace the file as a whole.

    Raises:
        TellwireError: `storage_full`; the old file is unchanged.
    """
    path = head_path(database)
    try:
        write_atomically(path, msgspec.json.encode(head) + b"\n", fsync=True)
    except OSError as error:
        raise TellwireError("storage_full", f"Cannot write {path}: {error}.") from error


def load_head(database: Path) -> Head | None:
    """Read it; None if there is none.

    Raises:
        TellwireError: `database_corrupt`: it cannot be read.
    """
    path = head_path(database)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Head)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise TellwireError("database_corrupt", f"Cannot read {path}: {error}.") from error
