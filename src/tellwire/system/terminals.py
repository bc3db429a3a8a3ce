"""The terminal pane of a process, and who is attached to it.

A pane is named by a tmux server and the pane's id, or by a terminal and the leader of its session:

    tmux %3 812.7730     the pane, and the server's process
    tty pts/4 901.8122   the terminal, and the process that leads its session

It is found by the process and its ancestors; what a program says about itself does not count.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from itertools import pairwise

from tellwire.system.processes import (
    Process,
    ancestry_of,
    find_tmux,
    read_process,
    read_variable,
    terminal_name,
)

PANE_ID = re.compile(r"%\d{1,9}")


def pane_of(owner: str) -> str:
    """The pane of the process of `pid.start`; empty if it has no terminal, or that is unknown."""
    return pane_in(ancestry_of(owner))


def pane_in(chain: list[Process]) -> str:
    """As `pane_of`, for a process of which those above it are known already."""
    if not chain or not chain[0].terminal:
        return ""
    process = chain[0]
    for root, server in pairwise(chain):
        # What a window started that has a terminal of its own is not in that window.
        if server.name.startswith("tmux") and root.terminal == process.terminal:
            pane = read_variable(root.pid, "TMUX_PANE")
            if PANE_ID.fullmatch(pane):
                return f"tmux {pane} {server.key}"
    leader, name = read_process(process.session), terminal_name(process.terminal)
    return f"tty {name} {leader.key}" if leader is not None and name else ""


ANSWER_S = 1.0
PANES = "pane #{pane_pid} #{session_id}"
CLIENTS = "client #{client_pid} #{session_id}"


def attached_clients(server: int, leader: int) -> list[int]:
    """The clients attached to the session of the pane whose first process is `leader`; none if in doubt.

    This asks the tmux server, and blocks.
    """
    process = read_process(server)
    if process is None or process.is_stopped:
        return []
    found = find_tmux([process, process])
    if found is None:
        return []
    words = ["tmux", "-u", f"-S{found.socket}"]
    words += ["list-panes", "-a", "-F", PANES, ";", "list-clients", "-F", CLIENTS]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
        return clients_of(done.stdout, leader)
    return []


def clients_of(told: str, leader: int) -> list[int]:
    """Read what tmux reports about panes and clients."""
    rows = [line.split(" ") for line in told.splitlines()]
    rows = [row for row in rows if len(row) == 3 and row[1].isdecimal()]
    sessions = {session for what, pid, session in rows if what == "pane" and int(pid) == leader}
    return [int(pid) for what, pid, session in rows if what == "client" and session in sessions]
