"""Whether a running broker still has what it opened: its home, its lock and its socket, and room on the disk.

Looked at each beat. A socket that is gone (a logout removes the runtime folder) is bound again, a removed
lock is acquired again. The folder itself is locked too: without its lock file as well there is one broker for
a home. One whose home is gone or another one has nothing left to serve, and ends. Below a floor of free
space only receipts and the operator's mail are accepted (the rule is in `core/record/space`), and what of the
journal was lost is reported until a person acknowledges it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tellwire.broker.engine import Engine
from tellwire.core.context import TellOperator
from tellwire.paths import StrangerError, own_folder
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.audit import Acknowledged, AcknowledgeLosses

log = logging.getLogger("tellwire.daemon")

BACKLOG = 1_024
ANSWERS_S = 0.2
Listen: TypeAlias = Callable[[socket.socket], Awaitable[asyncio.AbstractServer]]


class FileIdentity(NamedTuple):
    """Identifies the file or folder at a path."""

    device: int
    inode: int


def place_of(target: Path | int) -> FileIdentity | None:
    """Identify the file or folder; None if nothing is there.

    Raises:
        OSError: it cannot be read.
    """
    try:
        status = os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileIdentity(status.st_dev, status.st_ino)


def prepare_folder(folder: Path) -> None:
    """Make sure of a folder that only its owner can enter.

    Raises:
        TellwireError: it belongs to somebody else, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if own_folder(str(folder)) & 0o077:
            folder.chmod(0o700)
    except StrangerError as error:
        raise TellwireError("forbidden", str(error), "Nothing was started.") from error
    except OSError as error:
        raise TellwireError(
            "storage_broken", f"Cannot create {folder}: {error}.", "Set TELLWIRE_HOME."
        ) from error


def take_lock(path: Path) -> int:
    """Take the lock of the one broker; the kernel releases it when this process ends.

    Raises:
        TellwireError: `already_running`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise _running(path) from None
    os.ftruncate(fd, 0)
    os.write(fd, b"%d\n" % os.getpid())
    return fd


def take_folder(folder: Path, lock: Path) -> int | None:
    """Lock the folder itself; None where folders cannot be locked.

    Raises:
        TellwireError: `already_running`.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise _running(lock) from None
    except OSError:  # some network file systems
        os.close(fd)
        return None
    return fd


def _running(lock: Path) -> TellwireError:
    try:
        pid = int(lock.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return TellwireError("already_running", "A broker is already running.")
    return TellwireError("already_running", f"A broker is already running (pid {pid}).")


def bind(path: Path) -> socket.socket:
    """Listen on a fresh socket; the lock makes sure that an old one is nobody's."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.bind(str(path))
    path.chmod(0o600)
    sock.listen(BACKLOG)
    return sock


class HomeOwnership:
    """One broker's home, lock and socket."""

    def __init__(
        self, *, home: Path, lock: Path, socket: Path, lost: Callable[[TellwireError], None]
    ) -> None:
        self._home = home
        self._lock = lock
        self._socket = socket
        self._lost = lost
        self._home_fd: int | None = None
        self._lock_fd = -1
        self._home_place: FileIdentity | None = None
        self._socket_place: FileIdentity | None = None
        self._listen: Listen | None = None
        self._listener: asyncio.AbstractServer | None = None
        self._told = ""
        """The trouble that was logged last."""

    def take(self) -> None:
        """Acquire the home and its lock.

        Raises:
            TellwireError: another broker has them, or they cannot be had.
        """
        prepare_folder(self._home)
        prepare_folder(self._socket.parent)
        self._home_fd = take_folder(self._home, self._lock)
        self._lock_fd = take_lock(self._lock)
        self._home_place = place_of(self._home)

    def release(self) -> None:
        """Release the home: the very last step."""
        if self._home_fd is not None:
            os.close(self._home_fd)
        os.close(self._lock_fd)

    async def open(self, listen: Listen) -> None:
        self._listen = listen
        self._listener = await listen(bind(self._socket))
        self._socket_place = place_of(self._socket)

    def close(self) -> None:
        """Stop listening, and remove the socket if it is ours."""
        if self._listener is not None:
            self._listener.close()
        with suppress(OSError):
            if place_of(self._socket) == self._socket_place:
                self._socket.unlink(missing_ok=True)

    # -- with each beat -------------------------------------------------------------------------------

    async def watch(self, beat_s: float) -> None:
        """Check at each beat, until cancelled."""
        while True:
            await asyncio.sleep(beat_s)
            await self.look()

    async def look(self) -> None:
        """Check that home, lock and socket are still ours, and get back what can be got back."""
        trouble = ""
        try:
            if place_of(self._home) != self._home_place:
                self._lost(TellwireError("storage_gone", f"{self._home} was removed or replaced."))
            if place_of(self._lock) != place_of(self._lock_fd):
                self._take_lock_again()
            if place_of(self._socket) != self._socket_place:
                trouble = await self._bind_again()
        except (OSError, TellwireError) as error:  # a full disk, a folder that is away for a while
            trouble = f"home, lock and socket cannot be looked after: {error}"
        if trouble and trouble != self._told:
            log.error("%s", trouble)
        self._told = trouble

    def _take_lock_again(self) -> None:
        """Our lock is not the one at the path: take that, unless another broker has it.

        Raises:
            TellwireError: somebody else holds it for a moment: the folder is locked, so it is no broker.
        """
        try:
            fd = take_lock(self._lock)
        except TellwireError as error:
            if self._home_fd is None:
                self._lost(error)
            raise
        os.close(self._lock_fd)
        self._lock_fd = fd
        log.warning("the lock was removed and has been taken again")

    async def _bind_again(self) -> str:
        """Listen where everybody looks for us; if that cannot be, why."""
        if await self._is_answered():
            return f"another program answers on {self._socket}"
        prepare_folder(self._socket.parent)
        earlier = self._listener
        if self._listen is not None:
            await self.open(self._listen)
        if earlier is not None:
            earlier.close()
        log.warning("the socket was removed and has been bound again: %s", self._socket)
        return ""

    async def _is_answered(self) -> bool:
        """Whether somebody else listens there, such as a broker of another home in this runtime folder."""
        try:
            async with asyncio.timeout(ANSWERS_S):
                _, writer = await asyncio.open_unix_connection(str(self._socket))
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True


LOSSES_ADVICE = "To dismiss this notice, run `tellwire audit --acknowledge` at a terminal."


class Losses:
    """Reports lost commits to the log at once, and to the operator once after each start."""

    def __init__(self, engine: Engine, words: list[str], acknowledge: Callable[[], int]) -> None:
        self._engine = engine
        self._acknowledge = acknowledge
        self._waits = bool(words)
        self.words = words
        for each in words:
            log.error("%s %s", each, LOSSES_ADVICE)

    def beat(self) -> None:
        """Notify the operator, if that has not been done yet."""
        if self._waits:
            self._waits = False
            self._engine.submit_own(TellOperator(" ".join([*self.words, LOSSES_ADVICE])))

    def answer(self, _operation: AcknowledgeLosses) -> Acknowledged:
        """The operator acknowledges the losses: stop reporting them."""
        count = self._acknowledge()
        log.warning("the operator acknowledged what was lost: %s", " ".join(self.words))
        self.words, self._waits = [], False
        return Acknowledged(count=count)


SHARE_MAX = 0.05
"""The largest share of a small disk that is kept free."""
AGAIN = 1.1
"""How many times the floor must be free before everything is accepted again."""
SPACE_ADVICE = (
    "Free disk space, or delete delivered messages with `tellwire purge --older-than 1d`. Mail can still be "
    "read and confirmed. Nothing was stored."
)


class Space:
    """Refuses most writes while the disk has less free space than the floor."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        free_bytes_min: int,
        look: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._free_bytes_min = free_bytes_min
        self._look = look

    def beat(self) -> None:
        """Compare the free space with the floor."""
        try:
            total, _, free = self._look(self._folder)
        except OSError:
            return
        low = self._engine.storage.low is not None
        floor = min(self._free_bytes_min, int(SHARE_MAX * total))
        if free < floor * (AGAIN if low else 1):
            words = f"The disk of {self._folder} is nearly full: {free >> 20} MiB free."
            if not low:
                log.error("the disk is low: %s", words)
            self._engine.storage.note_space(TellwireError("storage_full", words, SPACE_ADVICE))
        elif low:
            log.warning("the disk has room again")
            self._engine.storage.note_space(None)
