"""Where a process runs: its ancestors, its terminal, and the tmux server above it. Read from `/proc`."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

DEPTH_MAX = 64
SOCKETS_MAX = 65_536
"""Lines of the kernel's table of Unix sockets that are looked at."""
LISTENS = 0x10000


class Process(NamedTuple):
    """What the kernel tells of a process."""

    pid: int
    name: str
    parent: int
    group: int
    terminal: int
    """The device of its terminal; 0 if it has none."""
    foreground: int
    """The process group that has that terminal now."""
    start: str
    state: str

    @property
    def is_stopped(self) -> bool:
        """It does nothing until it is told to go on."""
        return self.state in ("T", "t", "Z", "X")

    @property
    def word(self) -> str:
        """`pid.start`: a pid alone may be another's tomorrow."""
        return f"{self.pid}.{self.start}"


class Tmux(NamedTuple):
    """The tmux server that a process runs beneath."""

    pid: int
    socket: str


def read_process(pid: int) -> Process | None:
    """Look one process up; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything; the fields begin behind the last one.
    name = text[text.index(b"(") + 1 : text.rindex(b")")].decode(errors="replace")
    fields = text[text.rindex(b")") + 2 :].split()
    parent, group, terminal, foreground = int(fields[1]), int(fields[2]), int(fields[4]), int(fields[5])
    return Process(pid, name, parent, group, terminal, foreground, fields[19].decode(), fields[0].decode())


def read_word(word: str) -> Process | None:
    """The process of that `pid.start`, if it still runs."""
    pid = word.partition(".")[0]
    process = read_process(int(pid)) if pid.isdigit() else None
    return process if process is not None and process.word == word else None


def ancestry(process: Process) -> list[Process]:
    """The process and those above it, nearest first."""
    chain = [process]
    while len(chain) < DEPTH_MAX and chain[-1].parent > 0:
        above = read_process(chain[-1].parent)
        if above is None:
            break
        chain.append(above)
    return chain


def find_tmux(chain: list[Process]) -> Tmux | None:
    """The nearest tmux server above a process, if it is of our own user and listens."""
    server = next((each for each in chain[1:] if each.name.startswith("tmux")), None)
    if server is None or not _is_ours(f"/proc/{server.pid}"):
        return None
    for path in _listening(server.pid):
        if _is_ours(path):
            return Tmux(server.pid, path)
    return None


def readers_of(terminal: int, group: int) -> list[int]:
    """The processes of a foreground group that have the terminal itself as their input."""
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        process = read_process(int(entry.name))
        if process is None or (process.terminal, process.group) != (terminal, group):
            continue
        with suppress(OSError):
            if terminal_of(os.stat(f"/proc/{process.pid}/fd/0").st_rdev) == terminal:
                found.append(process.pid)
    return found


def terminal_of(device: int) -> int:
    """A device number as `/proc` writes that of a terminal."""
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)


def _listening(pid: int) -> list[str]:
    """The paths on which a process listens."""
    own: set[str] = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                own.add(os.readlink(entry.path))
    found: list[str] = []
    with suppress(OSError), open(f"/proc/{pid}/net/unix", encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            fields = line.split(maxsplit=7)
            if (
                number
                and len(fields) == 8
                and f"socket:[{fields[6]}]" in own
                and int(fields[3], 16) & LISTENS
            ):
                found.append(os.path.join(f"/proc/{pid}/cwd", fields[7].strip()))
            if number > SOCKETS_MAX:
                break
    return found


def _is_ours(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except OSError:
        return False
