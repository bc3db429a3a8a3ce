"""Who is attached to a tmux session; asked of the server that a process runs beneath. It blocks."""

from __future__ import annotations

import subprocess
from contextlib import suppress

from tellwire.system.processes import find_tmux, read_process

ANSWER_S = 1.0
PANES = "pane #{pane_pid} #{session_id}"
CLIENTS = "client #{client_pid} #{session_id}"


def attached_clients(server: int, leader: int) -> list[int]:
    """The clients attached to the session of the pane whose first process is `leader`; none if in doubt."""
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
    """Read what tmux tells of panes and clients."""
    rows = [line.split(" ") for line in told.splitlines()]
    rows = [row for row in rows if len(row) == 3 and row[1].isdecimal()]
    sessions = {session for what, pid, session in rows if what == "pane" and int(pid) == leader}
    return [int(pid) for what, pid, session in rows if what == "client" and session in sessions]
