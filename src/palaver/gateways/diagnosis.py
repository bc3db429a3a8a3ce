"""What the broker knows to be wrong: hooks that made no sense, hand-overs that nothing came of."""

from __future__ import annotations

from palaver.broker.engine import Engine
from palaver.broker.ports import Journal
from palaver.core.state import State
from palaver.gateways.inside import Inside
from palaver.protocol.ids import format_id
from palaver.protocol.operations.broker import Diagnose, Diagnosis, HookFault, OldLease

OLD_S = 300.0
"""A turn takes a while; who has shown nothing for longer is worth a look."""
LEASES_MAX = 100
IDS_MAX = 20


class Diagnostician:
    """Answers `diagnose`."""

    def __init__(self, engine: Engine, journal: Journal, inside: Inside) -> None:
        self._engine = engine
        self._journal = journal
        self._inside = inside

    def answer(self, _operation: Diagnose) -> Diagnosis:
        """All of it; bounded."""
        faults = [
            HookFault(client=client, count=count, last_at=at, error=error)
            for client, (count, at, error) in self._inside.hooks.faults.items()
        ]
        return Diagnosis(
            faults=faults,
            leases=find_old_leases(self._engine.state, self._journal),
            hooks_port=self._inside.port,
            typing=self._inside.typist.enabled,
        )


def find_old_leases(state: State, journal: Journal) -> list[OldLease]:
    """Hand-overs that have been open for long, the oldest first."""
    held: dict[int, tuple[str, list[str]]] = {}
    for agent in state.agents.values():
        for seq, receipt in agent.leased.items():
            _, ids = held.setdefault(receipt.lease, (agent.name, []))
            if len(ids) < IDS_MAX:
                ids.append(format_id("m", seq))
    found: list[OldLease] = []
    for lease in sorted(held)[:LEASES_MAX]:  # the sequence of a lease tells its age
        name, ids = held[lease]
        entries = journal.entries(0, lease + 1, 1)
        since = entries[0].at if entries else 0.0
        if state.now - since < OLD_S:
            break
        found.append(OldLease(agent=name, ids=ids, since=since))
    return found
