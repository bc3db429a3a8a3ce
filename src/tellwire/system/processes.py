"""Processes: what is known of one, those above it, and the tmux server it runs beneath.

A process is named by its key, `pid.start`. `system/proc` asks the operating system; what that does not tell
is None or empty.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from tellwire.system.proc import PLATFORM, Credentials, Process

DEPTH_MAX = 4_096
"""Processes above one another that are followed. Not fewer: who nests deeper is not to get out of sight."""
LOOKS_MAX = 8
"""How often processes are followed again of which one ended meanwhile."""
INIT = 1
"""The process that adopts those whose parent is gone."""


read_process = PLATFORM.process
uid_of = PLATFORM.uid
real_uid_of = PLATFORM.real_uid
runs_file = PLATFORM.runs
exe = PLATFORM.exe
control_groups = PLATFORM.control_groups
terminal_name = PLATFORM.terminal_name
listening_ports = PLATFORM.tcp_listeners
lock_holders = PLATFORM.lock_holders


class Tmux(NamedTuple):
    """The tmux server that a process runs beneath."""

    pid: int
    socket: str


# -- which process ------------------------------------------------------------------------------------


def peer_credentials(fd: int) -> Credentials:
    """Read the peer of a connected Unix socket.

    Raises:
        OSError: the kernel does not tell.
    """
    with socket.socket(fileno=os.dup(fd)) as peer:
        return PLATFORM.peer(peer)


def pid_in(key: str) -> int:
    """The number in `pid.start`; 0 if there is none."""
    pid = key.partition(".")[0]
    return int(pid) if pid.isdecimal() else 0


def find_process(key: str) -> Process | None:
    """The process of that key, if it is still there."""
    process = read_process(pid) if (pid := pid_in(key)) else None
    return process if process is not None and process.key == key else None


def is_alive(key: str) -> bool:
    """Whether the process of that key still runs."""
    process = find_process(key)
    return process is not None and not process.is_gone


def ancestry(pid: int) -> list[Process]:
    """The process and those above it, nearest first."""
    chain: list[Process] = []
    for _ in range(LOOKS_MAX):
        chain, whole = _follow(pid)
        if whole:
            break
    return chain


def ancestry_of(key: str) -> list[Process]:
    """As `ancestry`; nothing if the process of that key is gone."""
    chain = ancestry(pid_in(key))
    return chain if chain and chain[0].key == key else []


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
        return [], True  # unknown
    if not chain or pid <= 0:
        return chain, True
    again = read_process(chain[-1].pid)  # or is the next one hidden, as another user's may be?
    return chain, again is not None and again.key == chain[-1].key and again.parent == pid


# -- what it was started with -------------------------------------------------------------------------


def cmdline(pid: int) -> list[str]:
    """The words of its command line; a program may have written others in their place."""
    data = PLATFORM.cmdline(pid).removesuffix(b"\0")
    return [word.decode(errors="replace") for word in data.split(b"\0")] if data else []


def environ(pid: int) -> dict[str, str] | None:
    """The environment it was started with; None if it cannot be read."""
    data = PLATFORM.environ(pid)
    if data is None:
        return None
    found: dict[str, str] = {}
    for pair in data.split(b"\0"):
        name, equals, value = os.fsdecode(pair).partition("=")
        if equals:
            found.setdefault(name, value)  # the first one is what `getenv` finds
    return found


def read_variable(pid: int, name: str) -> str:
    """One variable of that environment as plain text; empty if it has none."""
    value = (environ(pid) or {}).get(name, "")
    return os.fsencode(value).decode(errors="replace")


def started_at(key: str) -> float:
    """When a process started, in seconds of the wall clock; 0 if unknown."""
    return PLATFORM.started_at(key.partition(".")[2])


# -- among all of them --------------------------------------------------------------------------------


def holder_of(inode: str) -> str:
    """The key of the process that holds a socket; empty if none of ours does."""
    for pid in PLATFORM.pids():
        if inode in PLATFORM.sockets(pid):
            process = read_process(pid)
            return "" if process is None else process.key
    return ""


def in_groups(groups: set[int]) -> list[Process]:
    """The processes of these process groups that have not ended."""
    if not groups:
        return []
    found = map(read_process, PLATFORM.pids())
    return [each for each in found if each is not None and each.group in groups and not each.is_gone]


# -- terminals ----------------------------------------------------------------------------------------


def readers_of(terminal: int, group: int) -> list[int]:
    """The processes of a foreground group that have the terminal itself as their input."""
    found = map(read_process, PLATFORM.pids())
    ours = (each for each in found if each is not None and (each.terminal, each.group) == (terminal, group))
    return [each.pid for each in ours if PLATFORM.input_device(each.pid) == terminal]


def find_tmux(chain: list[Process]) -> Tmux | None:
    """The nearest tmux server above a process, if it is of our own user and listens."""
    server = next((each for each in chain[1:] if each.name.startswith("tmux")), None)
    if server is None or uid_of(server.pid) != os.getuid():
        return None
    own = set(PLATFORM.sockets(server.pid))
    for inode, path in PLATFORM.unix_listeners(server.pid):
        if inode in own and _is_ours(path):
            return Tmux(server.pid, path)
    return None


def _is_ours(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except OSError:
        return False
