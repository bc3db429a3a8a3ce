"""Files that are seen whole or not at all, and read within a bound."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress


def write_atomically(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    fsync: bool = False,
    shared: bool = False,
) -> None:
    """Put new contents in a file's place; with `fsync` they are on disk before they are seen.

    The new file always has the same name: a process killed while writing leaves at most one. In a `shared`
    folder, where another program may write the same file now, it has a name of its own.

    Raises:
        OSError: the file is unchanged, and nothing else is left in its folder.
    """
    folder, name = os.path.split(path)
    descriptor, fresh = _open_beside(folder, name, mode, shared=shared)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            if owner is not None and owner != (os.getuid(), os.getgid()):
                with suppress(PermissionError):
                    os.fchown(descriptor, *owner)
            if fsync:
                os.fsync(descriptor)
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def sync_folder(folder: str) -> None:
    """Have the names in a folder on disk.

    Raises:
        OSError: it cannot be done.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """The contents, or as much from their beginning as we take.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return file.read(bytes_max)


def _open_beside(folder: str, name: str, mode: int, *, shared: bool) -> tuple[int, str]:
    if shared:
        return tempfile.mkstemp(prefix=f".{name}.tellwire-", dir=folder)
    fresh = os.path.join(folder, f".{name}.new")
    return os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), fresh


def replace_link(to: str, path: str) -> None:
    """Point a symbolic link elsewhere at once: no moment passes in which it is missing."""
    fresh = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(to, fresh)
    os.replace(fresh, path)
