"""Reading and writing whole files: links are followed, a write is seen whole or not at all."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.system.files import sync_folder, write_atomically

BYTES_MAX = 32 << 20
LOCK_S = 10.0
POLL_S = 0.05
BACKUPS_MAX = 99
FOLDER_MODE = 0o755


class Snapshot(msgspec.Struct, frozen=True):
    """A file as it is now; `data` is None if there is none."""

    path: str
    """Where it really is, links followed."""
    data: bytes | None = None
    mode: int = 0o644
    owner: tuple[int, int] | None = None


def look(path: str) -> Snapshot:
    """Read a file that may be changed.

    Raises:
        TellwireError: `forbidden`: it cannot be read; `limit_exceeded`: it is too large.
    """
    real = os.path.realpath(path)
    try:
        facts = os.stat(real)
    except FileNotFoundError:
        return Snapshot(real)
    except OSError as error:
        raise refused(path, error) from error
    if not stat.S_ISREG(facts.st_mode):
        raise TellwireError("forbidden", f"{path} is not a file.", "Move it out of the way.")
    if facts.st_size > BYTES_MAX:
        raise TellwireError("limit_exceeded", f"{path} is too large: {facts.st_size} bytes.")
    try:
        data = read_bytes(real)
    except OSError as error:
        raise refused(path, error) from error
    return Snapshot(real, data, stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid))


def check_writable(path: str, seen: Snapshot) -> None:
    """Refuse early what the disk, or the owner's wish, would refuse.

    Raises:
        TellwireError: `forbidden`: the file or its folder is read-only.
    """
    folder = os.path.dirname(seen.path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    closed = not os.access(seen.path, os.W_OK) and os.path.exists(seen.path)  # another may have removed it
    if seen.data is not None and (not seen.mode & 0o222 or closed):
        where = path if seen.path == path else f"{path} ({seen.path})"
        raise TellwireError(
            "forbidden",
            f"{where} is read-only.",
            "Make it writable, or add the entries shown by `--dry-run` wherever the file is generated.",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TellwireError("forbidden", f"The folder {folder} is read-only.", "Make it writable.")


def read_bytes(path: str) -> bytes | None:
    """The contents; None if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write_whole(path: str, data: bytes, *, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Put new contents in a file's place, all at once and on disk."""
    write_atomically(path, data, mode=mode, owner=owner, fsync=True, shared=True)
    sync_folder(os.path.dirname(path))


def make_folders(path: str) -> list[str]:
    """Make what is missing of a folder's path; what was made, the innermost first."""
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        os.mkdir(each, FOLDER_MODE)
    return missing


def backup_name(path: str) -> str:
    """A free name next to a file.

    Raises:
        TellwireError: `limit_exceeded`: there are too many already.
    """
    for number in range(1, BACKUPS_MAX + 1):
        name = f"{path}.tellwire-backup-{number}"
        if not os.path.lexists(name):
            return name
    raise TellwireError(
        "limit_exceeded", f"There are already {BACKUPS_MAX} backups of {path}.", "Delete the old ones."
    )


@contextmanager
def locked(home: str) -> Generator[None]:
    """Be the only one that installs.

    Raises:
        TellwireError: `already_running`: another one does, for long.
    """
    os.makedirs(home, mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(home, "install.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    words = "Another `tellwire install` or `uninstall` is running."
                    raise TellwireError("already_running", words, "Try again when it has finished.") from None
                time.sleep(POLL_S)
        yield
    finally:
        os.close(descriptor)


def refused(path: str, error: OSError) -> TellwireError:
    """Turn an `OSError` into our own error."""
    code = "storage_full" if error.errno in (28, 122) else "forbidden"
    advice = "Free disk space." if code == "storage_full" else "Check its owner and mode."
    return TellwireError(code, f"{path}: {error.strerror or error}.", advice)
