"""Why children did not come up, and what they said last: kept for a while, for those who wait for them."""

from __future__ import annotations

from tellwire.broker.registrations import Commits
from tellwire.protocol.events.children import ChildFailed, ChildReserved
from tellwire.system.bounded import BoundedDict

KEPT_MAX = 64


class LastWords:
    """What the launcher finds out itself, and else what is on record."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._kept: BoundedDict[str, tuple[str, str]] = BoundedDict(KEPT_MAX)
        commits.observe(self._hear)

    def keep(self, agent_id: str, reason: str, output: str) -> None:
        """Why a child ended, and the end of its output."""
        self._kept[agent_id] = (reason, output)

    def of(self, agent_id: str) -> tuple[str, str]:
        """What is kept of a child: the reason and its output."""
        return self._kept.get(agent_id, ("", ""))

    def _hear(self) -> None:
        for event in self._commits.events:
            if type(event) is ChildFailed and event.agent not in self._kept:
                self.keep(event.agent, event.reason, event.output)
            elif type(event) is ChildReserved:  # one that was here before begins anew
                self._kept.pop(event.agent, None)
