"""Where callers come from: the facts by which `core/agents/speaking` tells persons, scripts and agents apart.

What an agent begins stays in the agent's control group and is younger than the agent, whatever else it
leaves behind: its parent, its session, its terminal, its environment. So a process that was left to `init` is
suspect if it is younger than an agent of the same control group. Without `/proc` nobody is suspect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tellwire.core.agents.speaking import Identity, Known, ProcessInfo, is_adrift, judge
from tellwire.core.state import State
from tellwire.system.bounded import BoundedDict
from tellwire.system.processes import (
    Process,
    ancestry,
    control_groups,
    environ,
    exe,
    is_alive,
    pid_in,
    read_process,
    real_uid_of,
    runs_file,
)

SEEN_MAX = 1_024
"""Processes of agents that are remembered when their agents have gone."""
SYSTEM_FOLDERS = ("/usr/", "/bin/", "/sbin/", "/opt/", "/snap/", "/nix/store/")
"""Folders that an ordinary user cannot write to."""
SHOWING = frozenset(
    {
        *("alacritty", "code", "codium", "cosmic-term", "cursor", "deepin-terminal", "foot", "footclient"),
        *("ghostty", "gnome-terminal-server", "kgx", "kitty", "konsole", "lxterminal", "mate-terminal"),
        *("ptyxis", "qterminal", "rio", "rxvt", "st", "tilix", "urxvt", "urxvtd", "wezterm-gui", "windsurf"),
        *("xfce4-terminal", "xterm", "yakuake", "zed-editor"),
    }
)
"""Programs that show terminals to a person."""
SERVICES = frozenset({"sshd", "sshd-session", "login", "cron", "crond", "atd"})
"""Programs of root that let a person log in, or run what one has planned."""
AS_NODE = "ELECTRON_RUN_AS_NODE"
"""In its environment an editor is no editor, but a runtime for any program."""

Attached = Callable[[int, int], list[int]]
"""Of a tmux server and the first process of a pane: its clients that are attached to that pane's session."""


def nobody_attached(_server: int, _leader: int) -> list[int]:
    """Used where there is no tmux to ask."""
    return []


class Origins:
    """What is known of where processes began."""

    def __init__(
        self,
        state: Callable[[], State],
        attached: Attached = nobody_attached,
        *,
        alive: Callable[[str], bool] = is_alive,
    ) -> None:
        self._state = state
        self._attached = attached
        self._alive = alive
        self._seen: BoundedDict[str, str] = BoundedDict(SEEN_MAX)
        """From the process of an agent, which may be gone, to its control group; oldest first."""
        self._gone: set[str] = set()
        """Owners that had ended before this broker saw them: no other process ever gets their key."""

    def note(self, agent: str) -> None:
        """An agent has joined: remember its process."""
        found = self._state().agents.get(agent)
        if found is not None and found.owner:
            self._note(found.owner)

    def _note(self, owner: str) -> None:
        if owner in self._seen:
            return
        if self._alive(owner):
            self._seen[owner] = control_groups(pid_in(owner))
        else:
            self._gone.add(owner)

    def known(self) -> Known:
        """What the state knows of processes, as of now."""
        state = self._state()
        owners: dict[str, str] = {}
        for agent in state.agents.values():
            if agent.owner:  # a client's sub-agents join later, from the same process
                owners.setdefault(agent.owner, agent.id)
        self._gone &= owners.keys()
        for owner in owners.keys() - self._seen.keys() - self._gone:
            self._note(owner)
        return Known(owners, dict(state.disowned))

    def judge(self, chain: Sequence[Process], known: Known) -> Identity:
        """Who the first process of a chain is. This may ask tmux and block: run it off the event loop."""
        return judge(chain, known, self)

    def is_adrift(self, chain: Sequence[Process], known: Known) -> bool:
        """Whether a chain may have begun beneath an agent."""
        return is_adrift(chain, known, self)

    # -- facts ----------------------------------------------------------------------------------------

    def shows(self, process: ProcessInfo, /) -> bool:
        """Whether a program of the system's own shows a terminal to a person, or lets one log in."""
        if process.name in SERVICES:
            return _is_anothers(process.pid) or _is_login(process)
        return process.name[:15] in SHOWN_NAMES and (_is_anothers(process.pid) or _is_installed(process.pid))

    def watching(self, server: ProcessInfo, leader: ProcessInfo, /) -> Sequence[Sequence[Process]]:
        """The attached clients of a tmux server; each has to be the same program as the server."""
        chains = [ancestry(pid) for pid in self._attached(server.pid, leader.pid)]
        program = _program(server.pid)
        return [chain for chain in chains if chain and program and _program(chain[0].pid) == program]

    def follows_agent(self, process: ProcessInfo, /) -> bool:
        """Whether an agent of the same control group is older than this process."""
        start = _ticks(process.key)
        groups = {group for owner, group in list(self._seen.items()) if 0 < _ticks(owner) <= start}
        return bool(groups) and control_groups(process.pid) in groups


SHOWN_NAMES = frozenset(name[:15] for name in SHOWING)
"""The ancestors of a process, as the kernel reports them."""


def _is_anothers(pid: int) -> bool:
    """Whether another user runs a process, so that no agent of ours can have given it its name.

    Not by its effective user: anybody may call a set-user-id program by any name.
    """
    user = real_uid_of(pid)
    return user is not None and user != os.getuid()


def _is_login(process: ProcessInfo) -> bool:
    """Whether a service of root's has begun this part of itself, which runs as the user who has logged in.

    A service that a user starts is no proof of a person: an agent may start an sshd of its own.
    """
    above = read_process(process.parent)
    return above is not None and above.name in SERVICES and _is_anothers(above.pid)


def _is_installed(pid: int) -> bool:
    """Whether a process runs a program of `SHOWING` out of a folder of the system, and nothing else by it."""
    path, environment = exe(pid), environ(pid)
    if environment is None or AS_NODE in environment:
        return False
    return path.startswith(SYSTEM_FOLDERS) and os.path.basename(path) in SHOWING and runs_file(pid, path)


def needs_tmux(chain: Sequence[Process]) -> bool:
    """Whether a tmux server is above a process."""
    return any(process.name.startswith("tmux") for process in chain[1:])


def _program(pid: int) -> str:
    return exe(pid).removesuffix(" (deleted)")


def _ticks(key: str) -> int:
    """When a process of `pid.start` began, in the kernel's own count; 0 where it has none."""
    start = key.partition(".")[2]
    return int(start) if start.isdecimal() else 0
