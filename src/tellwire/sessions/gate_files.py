"""Files that open the gate of a client's hooks (`relay/gate.sh`): without one, a hook ends at once.

    <home>/marks/4711          the hooks of the client with that process have work to do
    <home>/guards/4711         the client with that process has to ask before it writes: opens its gate
    <home>/guards/4711.json    and it was given a scope, which is this one

The guards tell what clients say before they write (`Client.writes`): a hook knows no client by itself.

They are kept current while we run, and left behind for the time in which we do not. Only clients whose hooks
are commands need them; plugins ask over HTTP, or do without an answer.
"""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tellwire.broker.ports import MeshView
from tellwire.broker.registrations import Commits
from tellwire.clients import CLIENTS
from tellwire.clients.client import COMMAND, Client
from tellwire.clients.ports import pid_of
from tellwire.core.children.scopes import is_scoped
from tellwire.core.children.write_rules import guard_of, is_guarded
from tellwire.core.state import Agent
from tellwire.system.files import write_atomically
from tellwire.system.processes import is_alive, pid_in

log = logging.getLogger("tellwire.hooks")

GATED = frozenset({*(each.kind for each in CLIENTS if each.writes.gated), COMMAND})
"""Kinds of agents whose hooks are commands; a command may be a script that starts one of them."""


def facts_of(client: Client) -> dict[str, Any]:
    """What a client reports before it writes, as the file has it."""
    return msgspec.to_builtins(client.writes)


WRITES = {each.kind: facts_of(each) for each in CLIENTS}
"""What each client reports before it writes, for the judge."""
ON_FILE = {each.kind: WRITES[each.kind] for each in CLIENTS if each.writes.gated}


class GateFiles:
    """`<home>/marks/4711`: hooks of the client with that process have work to do.

    A file too many costs a moment; one too few would be a bug. One process may be the client of several
    agents (some have such a daemon): its gate is open while any of them needs it.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # of processes long gone
        self._folder = folder
        self._stalled = folder.with_name("stalled")
        self._wanted: dict[int, dict[str, Agent]] = {}
        """By process, the agents whose hooks have work to do."""

    def open(self, agent: Agent) -> None:
        """Open the gate of an agent's client."""
        if pid := pid_of(agent):
            self._wanted.setdefault(pid, {})[agent.id] = agent
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                (self._folder / str(pid)).touch(mode=0o600)
            except OSError as error:
                log.warning("the gate of a client could not be opened: %s", error)

    def shut(self, agent: Agent) -> None:
        """Shut it, unless another agent of the same process needs it."""
        if pid := pid_of(agent):
            wanted = self._wanted.pop(pid, {})
            # An agent that has left has no process any more.
            left = {each.id: each for each in wanted.values() if each.id != agent.id and pid_of(each) == pid}
            if left:
                self._wanted[pid] = left
            else:
                (self._folder / str(pid)).unlink(missing_ok=True)

    def go_on(self) -> None:
        """Remove the files of hooks that gave up waiting for us, and had later ones skip us."""
        if os.path.isdir(self._stalled):
            shutil.rmtree(self._stalled, ignore_errors=True)


class GuardFiles:
    """Keeps the folder of guards current; an observer of commits."""

    def __init__(self, mesh: MeshView, commits: Commits, folder: Path) -> None:
        self._mesh = mesh
        self._folder = folder
        self._known: dict[str, str] = {}
        """From an agent to the process that runs its hooks, where that is not the one that is the agent."""
        self._seen: object = None
        self._written: dict[str, bytes] = {}
        """What each file holds."""
        self._recall()
        commits.observe(self.refresh)
        self.refresh()

    def note(self, agent: Agent, process: str) -> None:
        """A hook of an agent was run by this process: a program may have started itself once more."""
        if agent.kind in GATED and process and self._known.get(agent.id, agent.owner) != process:
            self._known[agent.id] = process
            self._seen = None
            self.refresh()

    def refresh(self) -> None:
        """Bring the files up to date, if anything that they tell may have changed."""
        state = self._mesh.state
        if not (state.claims or state.children or self._written):
            return
        children = [
            (agent, child.parent, child.process, child.scoped) for agent, child in state.children.items()
        ]
        agents = [agent for agent in state.agents.values() if agent.kind in GATED and agent.owner]
        now = (
            dict(state.claims),
            children,
            [(agent.id, agent.name, agent.owner, agent.online) for agent in agents],
        )
        if now == self._seen:
            return
        self._seen = now
        self._known = {agent: process for agent, process in self._known.items() if agent in state.agents}
        wanted = self._wanted(agents)
        for name in [name for name in self._written if name not in wanted]:
            self._remove(name)
        # The scope before the mark: who passes the gate must find it.
        for name in sorted(wanted, key=len, reverse=True):
            self._write(name, wanted[name])

    def _wanted(self, agents: list[Agent]) -> dict[str, bytes]:
        """The names of all files, and what each has to hold."""
        state = self._mesh.state
        hosts: dict[str, list[Agent]] = {}
        for agent in agents:
            for process in {agent.owner, self._known.get(agent.id, "")} - {""}:
                hosts.setdefault(process, []).append(agent)
        wanted: dict[str, bytes] = {}
        for process, here in hosts.items():
            guarded = [agent for agent in here if is_guarded(state, agent.id)]
            if not guarded or not is_alive(process):
                continue
            pid = str(pid_in(process))
            wanted[pid] = f"{guarded[0].id} {process}\n".encode() + msgspec.json.encode(ON_FILE)
            # A process that serves several agents cannot tell by itself whose call it is.
            if len(here) == 1 and is_scoped(state, here[0].id):
                guard = msgspec.to_builtins(guard_of(state, here[0].id))
                facts = {"process": process, **guard, "writes": ON_FILE}
                wanted[f"{pid}.json"] = msgspec.json.encode(facts)
        return wanted

    def _write(self, name: str, data: bytes) -> None:
        if self._written.get(name) == data:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._folder / name, data)
            self._written[name] = data
        except OSError as error:
            log.warning("what a client may write could not be noted: %s", error)

    def _remove(self, name: str) -> None:
        self._written.pop(name, None)
        with suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)

    def _recall(self) -> None:
        """After a start: what an earlier broker left behind; what is not wanted any more goes at once."""
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                data = Path(entry.path).read_bytes()
                self._written[entry.name] = data
                agent, _, process = data.decode(errors="replace").partition("\n")[0].partition(" ")
                if entry.name.isdecimal() and process:
                    self._known[agent] = process
