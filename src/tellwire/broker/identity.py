"""Who is at the other end of a socket: its user, its process, its ancestors, its project.

The broker believes none of what a caller says about itself (SEC-1). On Linux the facts come from the kernel
and `/proc`; elsewhere from `ps`.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

DEPTH_MAX = 4_096
"""Processes above one another that are followed. Not fewer: who nests deeper is not to get out of sight."""
LOOKS_MAX = 8
"""How often processes are followed again of which one ended meanwhile."""
INIT = 1
"""The process that adopts those whose parent is gone."""


class Credentials(NamedTuple):
    """What the kernel says of the process that opened a connection."""

    pid: int
    uid: int


class Process(NamedTuple):
    """One process at one time: a pid alone may be another's tomorrow."""

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
    def word(self) -> str:
        """The key by which an agent's own process is recognised."""
        return f"{self.pid}.{self.start}"


def peer_credentials(fd: int) -> Credentials:
    """Read the peer of a connected Unix socket.

    Raises:
        OSError: the kernel does not tell.
    """
    with socket.socket(fileno=os.dup(fd)) as peer:
        if sys.platform == "darwin":
            pid = peer.getsockopt(0, 0x002)  # SOL_LOCAL, LOCAL_PEERPID
            _version, uid = struct.unpack_from("II", peer.getsockopt(0, 0x001, 76))  # LOCAL_PEERCRED
            return Credentials(pid, uid)
        pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Credentials(pid, uid)


def read_process(pid: int) -> Process | None:
    """Look one process up; None if it is gone."""
    if not sys.platform.startswith("linux"):
        return _read_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            text = stat.read()
    except OSError:
        return None
    # The command name is in parentheses and may hold anything; the fields begin behind the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    name = text[text.index(b"(") + 1 : text.rindex(b")")].decode(errors="replace")
    parent, group, session, terminal, foreground = map(int, fields[1:6])
    return Process(
        pid, fields[19].decode(), parent, terminal, fields[0].decode(), name, session, group, foreground
    )


def _read_ps(pid: int) -> Process | None:
    """Without `/proc` the leader of a session is not told: whoever has a terminal is taken to be followed."""
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


def is_alive(word: str) -> bool:
    """Whether the process of that `pid.start` still runs."""
    pid, _, start = word.partition(".")
    process = read_process(int(pid)) if pid.isdigit() else None
    return process is not None and process.start == start and process.state not in ("Z", "X")


def ancestry(pid: int) -> list[Process]:
    """The process and those above it, nearest first."""
    chain: list[Process] = []
    for _ in range(LOOKS_MAX):
        chain, whole = _follow(pid)
        if whole:
            break
    return chain


def _follow(pid: int) -> tuple[list[Process], bool]:
    """The same, and whether it is all; not if a process ended while it was followed."""
    chain: list[Process] = []
    while pid > 0 and len(chain) < DEPTH_MAX:
        process = read_process(pid)
        if process is None:
            break
        chain.append(process)
        pid = process.parent
    if len(chain) == DEPTH_MAX:
        return [], True  # nobody can tell
    if not chain or pid <= 0:
        return chain, True
    again = read_process(chain[-1].pid)  # or is the next one hidden, as another user's may be?
    return chain, again is not None and again.word == chain[-1].word and again.parent == pid


@lru_cache(maxsize=1024)
def group_of(cwd: str) -> str:
    """The project of a folder: where its git common directory is, so that worktrees share it; else itself."""
    if not cwd or not os.path.isabs(cwd):
        return ""
    folder = Path(os.path.realpath(cwd))
    for candidate in (folder, *folder.parents):
        marker = candidate / ".git"
        if marker.is_dir():
            return str(candidate)
        if marker.is_file():
            return str(_common_folder(candidate, marker))
    return str(folder)


def _common_folder(worktree: Path, marker: Path) -> Path:
    """Follow a worktree's `.git` file to the folder of the main checkout."""
    try:
        line = marker.read_text(encoding="utf-8", errors="replace").strip()
        git_dir = (worktree / line.removeprefix("gitdir:").strip()).resolve()
        common = git_dir / "commondir"
        if not common.is_file():
            return worktree  # a submodule is a project of its own
        shared = (git_dir / common.read_text(encoding="utf-8", errors="replace").strip()).resolve()
    except OSError:
        return worktree
    return shared.parent if shared.name == ".git" else shared
