"""Marks for the gates of hooks: a file named after a client's process, while its hooks have work to do.

One process may be the client of several agents (some have such a daemon): the gate is open while any of them
needs it.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from tellwire.clients.ports import pid_of
from tellwire.core.state import Agent

log = logging.getLogger("tellwire.hooks")


class Marks:
    """The folder of marks. One too many costs a moment; one too few would be a bug."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stalled = folder.with_name("stalled")
        self._wanted: dict[int, dict[str, Agent]] = {}
        """By process, the agents whose hooks have work to do."""

    def leave(self, agent: Agent) -> None:
        """Open the gate of an agent's client."""
        if pid := pid_of(agent):
            self._wanted.setdefault(pid, {})[agent.id] = agent
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                (self._folder / str(pid)).touch(mode=0o600)
            except OSError as error:
                log.warning("no mark could be left: %s", error)

    def take(self, agent: Agent) -> None:
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
        """Take the marks away that hooks have left which gave up waiting for us."""
        if os.path.isdir(self._stalled):
            shutil.rmtree(self._stalled, ignore_errors=True)
