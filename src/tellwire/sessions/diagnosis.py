"""What the broker knows to be wrong: odd hooks, open hand-overs, sessions that get no mail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from tellwire.broker.ports import Journal, MeshView
from tellwire.core.mail.reach import DEAF, DIALOG, Contact
from tellwire.core.mail.waiting import is_stuck
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.broker import Diagnose, Diagnosis, HookFault, OldLease, SessionFault
from tellwire.sessions.tracker import HookFaults
from tellwire.system.processes import started_at

OLD_S = 300.0
"""Turns take a while; a hand-over without evidence for longer is reported."""
LEASES_MAX = 100
SESSIONS_MAX = 100
IDS_MAX = 20


class Diagnostician:
    """Answers the operation `diagnose`."""

    def __init__(
        self,
        mesh: MeshView,
        journal: Journal,
        faults: HookFaults,
        *,
        contact_of: Callable[[str], Contact | None],
        port: Callable[[], int],
        typing: bool,
    ) -> None:
        self._mesh = mesh
        self._contact_of = contact_of
        self._journal = journal
        self._faults = faults
        self._port = port
        self._typing = typing

    def answer(self, _operation: Diagnose) -> Diagnosis:
        """All findings, up to a bound."""
        faults = [
            HookFault(client=client, count=count, last_at=at, error=error)
            for client, (count, at, error) in self._faults.by_client.items()
        ]
        return Diagnosis(
            faults=faults,
            leases=find_old_leases(self._mesh.state, self._journal, self._contact_of),
            sessions=list(islice(self._sessions(), SESSIONS_MAX)),
            hooks_port=self._port(),
            typing=self._typing,
        )

    def _sessions(self) -> Iterator[SessionFault]:
        for agent in self._mesh.state.agents.values():
            contact = self._contact_of(agent.id) if agent.online else None
            if contact is None:
                continue
            what, why, since = find_fault(agent, contact)
            if what:
                yield SessionFault(
                    agent=agent.name,
                    kind=agent.kind,
                    what=what,
                    why=why,
                    since=since,
                    started_at=started_at(agent.owner),
                    waiting=len(agent.pending),
                )


def find_fault(agent: Agent, contact: Contact) -> tuple[Literal["", "deaf", "failed", "dialog"], str, float]:
    """What is wrong with an online agent's session, why, and since when."""
    if contact.is_deaf:
        return "deaf", DEAF, agent.connected_at
    if contact.state == "waiting":
        return "dialog", DIALOG, contact.since
    # What `core/mail/waking` says of a wake that will be tried again, or is left to its human.
    return ("failed", contact.held, contact.since) if "failed" in contact.held else ("", "", 0.0)


def find_old_leases(
    state: State, journal: Journal, contact_of: Callable[[str], Contact | None]
) -> list[OldLease]:
    """Hand-overs that have been open for long, or longer than they need with an idle client; oldest first."""
    held: dict[int, tuple[Agent, Receipt, list[str]]] = {}
    for agent in state.agents.values():
        for seq, receipt in agent.leased.items():
            _, _, ids = held.setdefault(receipt.lease, (agent, receipt, []))
            if len(ids) < IDS_MAX:
                ids.append(format_id("m", seq))
    found: list[OldLease] = []
    for lease in sorted(held)[:LEASES_MAX]:  # the sequence of a lease tells its age
        agent, receipt, ids = held[lease]
        entries = journal.entries(0, lease + 1, 1)
        since = entries[0].at if entries else 0.0
        open_s = state.now - since
        stuck = agent.online and is_stuck(agent, receipt, contact_of(agent.id), open_s)
        if stuck or open_s >= OLD_S:
            found.append(OldLease(agent=agent.name, ids=ids, since=since, stuck=stuck))
    return found
