"""Who is speaking: what the processes above a caller, and those who have its terminal, make of it (SEC-1).

Beneath the process of an agent every program is that agent. A person is the one in the foreground of a
terminal that can be followed, process by process, to what opened it, if no agent did. All else is a script.
A script whose origin is not known may have begun beneath an agent, and then been left to `init`: it is
`adrift`, and may do no more than an agent may. The facts are gathered in `broker/origins`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from tellwire.protocol.operations.base import AGENT, OPERATOR, SCRIPT

INIT = 1
REAPERS = frozenset(
    {"systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runsvdir"}
)
"""Programs to which processes go whose parent has ended."""
NESTED_MAX = 4
"""Terminals within terminals that are looked through."""


class ProcessInfo(Protocol):
    """What the rules need to know about a process."""

    @property
    def pid(self) -> int: ...
    @property
    def parent(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def session(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def terminal(self) -> int: ...
    @property
    def foreground(self) -> int: ...


class Facts(Protocol):
    """What has to be looked up, and only for some callers."""

    def shows(self, process: ProcessInfo, /) -> bool:
        """Whether a program is one that shows a terminal to a person, or lets one log in."""
        ...

    def watching(self, server: ProcessInfo, leader: ProcessInfo, /) -> Sequence[Sequence[ProcessInfo]]:
        """The clients of a tmux server that are attached where `leader` runs: each with those above it."""
        ...

    def follows_agent(self, process: ProcessInfo, /) -> bool:
        """Whether a process without a parent could have been begun by an agent that is or was here."""
        ...


class Known(NamedTuple):
    """What the state knows of processes."""

    owners: Mapping[str, str]
    """From the process of an agent to the agent's id."""
    disowned: Collection[str] = ()
    """Processes that were an agent's own."""


class Identity(NamedTuple):
    """Who a caller is: an agent, the operator or a script."""

    kind: str
    agent: str = ""
    adrift: bool = False


def judge(chain: Sequence[ProcessInfo], known: Known, facts: Facts) -> Identity:
    """Who the first process of a chain is; the chain goes up to where nothing is above."""
    if not chain:
        return Identity(SCRIPT, adrift=True)  # it is gone already, and its origin is unknown
    for process in chain:
        if process.key in known.owners:
            return Identity(AGENT, known.owners[process.key])
    if any(process.key in known.disowned for process in chain[1:]):
        return Identity(SCRIPT, adrift=True)
    caller = chain[0]
    ahead = caller.terminal != 0 and caller.foreground == caller.group
    if ahead and caller.key not in known.disowned and _is_persons(chain, known, facts, NESTED_MAX):
        return Identity(OPERATOR)
    return Identity(SCRIPT, adrift=is_adrift(chain, known, facts))


def is_adrift(chain: Sequence[ProcessInfo], known: Known, facts: Facts, depth: int = NESTED_MAX) -> bool:
    """Whether the first process of a chain may have been started below an agent."""
    if not chain:
        return True
    at = _root(chain)
    if at is None:
        return False  # beneath another user's process, or from outside of what can be seen
    if not facts.follows_agent(chain[at]):
        return False
    if any(facts.shows(process) for process in chain[: at + 1]):
        return False
    if at and _is_tmux(chain[at]):
        return not _is_watched(chain[at], chain[at - 1], known, facts, depth)
    return True


def _is_persons(chain: Sequence[ProcessInfo], known: Known, facts: Facts, depth: int) -> bool:
    """Whether a person uses the terminal of the first process: follow it to the program that opened it."""
    while chain[0].terminal:
        leader = next((at for at, each in enumerate(chain) if each.pid == chain[0].session), None)
        if leader is None:
            return False
        above = chain[leader + 1 :]
        if not above:
            return True  # opened from outside of what can be seen, as a container's runtime does
        if _is_tmux(above[0]):
            return _is_watched(above[0], chain[leader], known, facts, depth)
        if facts.shows(above[0]):
            return True
        chain = above
    return not is_adrift(chain, known, facts, depth)


def _is_watched(server: ProcessInfo, leader: ProcessInfo, known: Known, facts: Facts, depth: int) -> bool:
    """Whether a person looks at the session of a tmux server in which `leader` runs."""
    if depth == 0:
        return False
    for client in facts.watching(server, leader):
        if any(each.key in known.owners or each.key in known.disowned for each in client):
            continue
        if client and client[0].terminal and _is_persons(client, known, facts, depth - 1):
            return True
    return False


def _root(chain: Sequence[ProcessInfo]) -> int | None:
    """Where the highest process of a chain is that no program looks after; None if there is none."""
    for at, process in enumerate(chain):
        above = chain[at + 1] if at + 1 < len(chain) else None
        if process.pid == INIT:
            return None
        if process.parent == INIT or (above is not None and above.name in REAPERS):
            return at
    return None


def _is_tmux(process: ProcessInfo) -> bool:
    return process.name.startswith("tmux")
