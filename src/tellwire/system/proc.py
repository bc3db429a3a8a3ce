"""What the system reports about processes: the only module that knows the platform and reads `/proc`.

`Platform` is what can be told anywhere, which is little: it asks `ps`, and all else is unknown. `Linux` reads
`/proc`. Support for another platform is one more subclass, and a line in `_choose`. Others use
`system/processes`; only `relay/starts` has a small reader of its own, for it may import nothing from here.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

CMDLINE_BYTES_MAX = 65_536
ENVIRON_BYTES_MAX = 8 << 20
"""More than the kernel gives room for."""
GROUPS_CHARS_MAX = 65_536
STATUS_BYTES_MAX = 65_536
STAT_BYTES_MAX = 4_096
"""Several times what the kernel reports about a process in one line."""
SOCKETS_MAX = 65_536
"""Lines of the kernel's table of Unix sockets that are looked at."""
UNIX_LISTENS = 0x10000
TCP_LISTENS = "0A"
TERMINALS = {136: "pts/"}
"""Device numbers of pseudo-terminals; others are named by their number."""


class Credentials(NamedTuple):
    """What the kernel says of the process that opened a connection."""

    pid: int
    uid: int


class Process(NamedTuple):
    """A process as it was when it was read."""

    pid: int
    start: str
    parent: int
    terminal: int
    """The device of its terminal; 0 if it has none."""
    state: str = ""
    """On Linux `R`, `S`, `T` (stopped), `Z` (gone, not yet buried) and so on."""
    name: str = ""
    session: int = 0
    """The process that leads its session, and its terminal."""
    group: int = 0
    foreground: int = 0
    """The process group that has its terminal now."""

    @property
    def key(self) -> str:
        """`pid.start`: a pid alone may be another's tomorrow."""
        return f"{self.pid}.{self.start}"

    @property
    def is_gone(self) -> bool:
        """It has ended, and its parent has not taken note."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """It is stopped until it gets SIGCONT."""
        return self.is_gone or self.state in ("T", "t")


class Platform:
    """Where nothing but `ps` is known to work. None and empty mean: unknown."""

    def peer(self, sock: socket.socket) -> Credentials:
        """Who is at the other end of a Unix socket.

        Raises:
            OSError: the kernel does not tell.
        """
        pid = sock.getsockopt(0, 0x002)  # SOL_LOCAL, LOCAL_PEERPID
        _version, uid = struct.unpack_from("II", sock.getsockopt(0, 0x001, 76))  # LOCAL_PEERCRED
        return Credentials(pid, uid)

    def process(self, pid: int) -> Process | None:
        """One process; the session leader is unknown: the process with the terminal counts as it."""
        import subprocess  # noqa: PLC0415 - start-up speed where there is `/proc`

        found = subprocess.run(
            ["/bin/ps", "-o", "ppid=,pgid=,tpgid=,tty=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        fields = found.stdout.split(maxsplit=4)
        if found.returncode != 0 or len(fields) != 5:
            return None
        parent, group, foreground = map(int, fields[:3])
        start, terminal = fields[4].strip().replace(" ", "_"), int(fields[3] not in ("??", "-"))
        return Process(pid, start, parent, terminal, session=pid, group=group, foreground=foreground)

    def pids(self) -> Iterator[int]:
        yield from ()

    def uid(self, pid: int) -> int | None:
        """The effective user of a process."""
        del pid
        return None

    def real_uid(self, pid: int) -> int | None:
        """The user who started it: a set-user-id program runs as another."""
        del pid
        return None

    def runs(self, pid: int, path: str) -> bool:
        """Whether its program is the file that we find at a path, and not one mounted over it for itself."""
        del pid, path
        return False

    def exe(self, pid: int) -> str:
        """The path of its program, as the kernel has it: " (deleted)" follows that of one that is gone."""
        del pid
        return ""

    def cmdline(self, pid: int) -> bytes:
        """The words of its command line, each with a NUL behind it."""
        del pid
        return b""

    def environ(self, pid: int) -> bytes | None:
        """The environment it was started with, each pair with a NUL behind it."""
        del pid
        return None

    def control_groups(self, pid: int) -> str:
        del pid
        return ""

    def started_at(self, start: str) -> float:
        """A process's `start` in seconds of the wall clock; 0 if unknown."""
        del start
        return 0.0

    def terminal_name(self, terminal: int) -> str:
        """The name of a terminal's device, such as `pts/4`."""
        del terminal
        return ""

    def input_device(self, pid: int) -> int:
        """The device of its standard input; 0 if it has none."""
        del pid
        return 0

    def sockets(self, pid: int) -> Iterator[str]:
        """The inodes of the sockets it holds."""
        del pid
        yield from ()

    def unix_listeners(self, pid: int) -> Iterator[tuple[str, str]]:
        """The Unix sockets that listen where it runs: inode, and a path by which we reach it."""
        del pid
        yield from ()

    def tcp_listeners(self, pid: int) -> dict[int, str] | None:
        """The ports on which somebody listens where it runs, with the socket's inode."""
        del pid
        return None

    def lock_holders(self, inode: int) -> set[int] | None:
        """The processes that have a lock by `flock` on a file."""
        del inode
        return None


class Linux(Platform):
    """Reads `/proc`."""

    def peer(self, sock: socket.socket) -> Credentials:
        pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Credentials(pid, uid)

    def process(self, pid: int) -> Process | None:
        try:
            # Unbuffered: one read, and not nine system calls. Each call and hook looks at a few processes.
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                text = file.read(STAT_BYTES_MAX)
        except OSError:
            return None
        # The name is in parentheses and may hold anything; the fields begin behind the last one.
        name = text[text.index(b"(") + 1 : text.rindex(b")")].decode(errors="replace")
        fields = text[text.rindex(b")") + 2 :].split()
        parent, group, session, terminal, foreground = map(int, fields[1:6])
        return Process(
            pid, fields[19].decode(), parent, terminal, fields[0].decode(), name, session, group, foreground
        )

    def pids(self) -> Iterator[int]:
        with os.scandir("/proc") as entries:
            yield from (int(entry.name) for entry in entries if entry.name.isdigit())

    def uid(self, pid: int) -> int | None:
        try:
            return os.stat(f"/proc/{pid}").st_uid
        except OSError:
            return None

    def real_uid(self, pid: int) -> int | None:
        for line in (_read(f"/proc/{pid}/status", STATUS_BYTES_MAX) or b"").splitlines():
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
        return None

    def runs(self, pid: int, path: str) -> bool:
        try:
            return os.path.samestat(os.stat(f"/proc/{pid}/exe"), os.stat(path))
        except OSError:
            return False

    def exe(self, pid: int) -> str:
        try:
            return os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return ""

    def cmdline(self, pid: int) -> bytes:
        return _read(f"/proc/{pid}/cmdline", CMDLINE_BYTES_MAX) or b""

    def environ(self, pid: int) -> bytes | None:
        return _read(f"/proc/{pid}/environ", ENVIRON_BYTES_MAX)

    def control_groups(self, pid: int) -> str:
        return (_read(f"/proc/{pid}/cgroup", GROUPS_CHARS_MAX) or b"").decode(errors="replace")

    def started_at(self, start: str) -> float:
        """The kernel counts clock ticks since the machine started."""
        try:
            with open("/proc/uptime", encoding="ascii") as file:
                up_s = float(file.read().split()[0])
            return time.time() - up_s + int(start) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return 0.0

    def terminal_name(self, terminal: int) -> str:
        major, minor = (terminal >> 8) & 0xFFF, (terminal & 0xFF) | ((terminal >> 12) & 0xFFF00)
        return f"{TERMINALS[major]}{minor}" if major in TERMINALS else f"{major}:{minor}"

    def input_device(self, pid: int) -> int:
        try:
            return terminal_of(os.stat(f"/proc/{pid}/fd/0").st_rdev)
        except OSError:
            return 0

    def sockets(self, pid: int) -> Iterator[str]:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if target.startswith("socket:["):
                        yield target[len("socket:[") : -1]

    def unix_listeners(self, pid: int) -> Iterator[tuple[str, str]]:
        """From the table of its network namespace; a path may be relative to its folder."""
        with suppress(OSError), open(f"/proc/{pid}/net/unix", encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file):
                fields = line.split(maxsplit=7)
                if number and len(fields) == 8 and int(fields[3], 16) & UNIX_LISTENS:
                    yield fields[6], os.path.join(f"/proc/{pid}/cwd", fields[7].strip())
                if number > SOCKETS_MAX:
                    break

    def tcp_listeners(self, pid: int) -> dict[int, str] | None:
        """From the table of its network namespace."""
        try:
            with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except (OSError, ValueError):
            return None
        listening = (row for row in rows if len(row) > 9 and row[3] == TCP_LISTENS)
        return {int(row[1].rpartition(":")[2], 16): row[9] for row in listening}

    def lock_holders(self, inode: int) -> set[int] | None:
        """From the table of locks.

        Raises:
            OSError: there is one, and it cannot be read.
        """
        try:
            with open("/proc/locks", encoding="ascii") as table:
                rows = [line.split() for line in table]
        except FileNotFoundError:
            return None
        held = (row for row in rows if "FLOCK" in row and row[-3].rpartition(":")[2] == str(inode))
        return {int(row[-4]) for row in held}


def terminal_of(device: int) -> int:
    """A device number as `/proc` writes that of a terminal."""
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)


def _read(path: str, bytes_max: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(bytes_max)
    except OSError:
        return None


def _choose() -> Platform:
    return Linux() if sys.platform.startswith("linux") else Platform()


PLATFORM = _choose()
