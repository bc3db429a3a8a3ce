"""The terminal pane of a process, as a word: a tmux server and a pane's id, or a terminal and its leader.

    tmux %3 812.7730     the pane, and the server's process
    tty pts/4 901.8122   the terminal, and the process that leads its session

Found by the process and those above it; what a program says about itself does not count.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tellwire.system.processes import ancestry_of, read_process, read_variable, terminal_name

PANE_ID = re.compile(r"%\d{1,9}")


def pane_of(owner: str) -> str:
    """The pane of the process of `pid.start`; empty if it has no terminal, or nobody can tell."""
    chain = ancestry_of(owner)
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
