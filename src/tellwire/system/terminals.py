"""The terminal pane of a process, as a word: a tmux server and a pane's id, or a terminal and its leader.

    tmux %3 812.7730     the pane, and the server's process
    tty pts/4 901.8122   the terminal, and the process that leads its session

Found by the process and those above it, in `/proc`; what a program says about itself does not count.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import pairwise

from tellwire.system.processes import Process, ancestry, read_process, read_word

PANE_ID = re.compile(r"%\d{1,9}")
MAJORS = {136: "pts/"}
"""Of terminals of programs; others are told by their number."""
SESSION_FIELD = 3
ENVIRONMENT_BYTES_MAX = 1 << 20


def pane_of(owner: str) -> str:
    """The pane of the process of `pid.start`; empty if it has no terminal, or nobody can tell."""
    process = read_word(owner)
    if process is None or not process.terminal:
        return ""
    chain = ancestry(process)
    for root, server in pairwise(chain):
        # What a window started that has a terminal of its own is not in that window.
        if server.name.startswith("tmux") and root.terminal == process.terminal:
            pane = variable_of(root.pid, "TMUX_PANE")
            if PANE_ID.fullmatch(pane):
                return f"tmux {pane} {server.word}"
    leader = _leader_of(process)
    return "" if leader is None else f"tty {_name_of(process.terminal)} {leader.word}"


def variable_of(pid: int, name: str) -> str:
    """A variable of the environment that a process was started with; empty if it has none."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read(ENVIRONMENT_BYTES_MAX).split(b"\0")
    except OSError:
        return ""
    start = f"{name}=".encode()
    return next((pair[len(start) :].decode(errors="replace") for pair in pairs if pair.startswith(start)), "")


def holder_of(inode: str) -> str:
    """The process, as `pid.start`, that holds a socket; empty if none of ours does."""
    wanted = f"socket:[{inode}]"
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            for each in os.scandir(f"/proc/{entry.name}/fd"):
                if os.readlink(each.path) == wanted:
                    process = read_process(int(entry.name))
                    return "" if process is None else process.word
    return ""


def _leader_of(process: Process) -> Process | None:
    try:
        with open(f"/proc/{process.pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    return read_process(int(text[text.rindex(b")") + 2 :].split()[SESSION_FIELD]))


def _name_of(terminal: int) -> str:
    major, minor = (terminal >> 8) & 0xFFF, (terminal & 0xFF) | ((terminal >> 12) & 0xFFF00)
    return f"{MAJORS[major]}{minor}" if major in MAJORS else f"{major}:{minor}"
