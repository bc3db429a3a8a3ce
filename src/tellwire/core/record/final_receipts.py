"""From events to final receipts: what is known of a message once no inbox holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tellwire.core.record.stored import Commit, FinalState
from tellwire.protocol.events import AnyEvent, MessageAnswered, MessagesExpired, MessagesRead, parse_batch
from tellwire.protocol.events.machines import MessagesRefused

MAYBE_READ = "maybe read"
"""Instead of evidence: delivered to a session that ended without any."""


class FinalReceipt(NamedTuple):
    """A receipt that reached a final state; without evidence of its own it keeps the earlier one."""

    message: int
    recipient: str
    state: str
    evidence: str
    at: float


def final_receipts(events: Iterable[AnyEvent], at: float) -> list[FinalReceipt]:
    """The receipts that these events bring to a final state, in order."""
    rows: list[FinalReceipt] = []
    for event in events:
        if isinstance(event, MessagesRead):
            rows += [FinalReceipt(seq, event.agent, "read", event.evidence, at) for seq in event.seqs]
        elif isinstance(event, MessageAnswered):
            rows.append(FinalReceipt(event.seq, event.agent, "answered", "", at))
        elif isinstance(event, MessagesExpired):
            shown = set(event.shown)
            rows += [
                FinalReceipt(seq, event.agent, "expired", MAYBE_READ if seq in shown else "", at)
                for seq in event.seqs
            ]
        elif isinstance(event, MessagesRefused):
            rows += [FinalReceipt(seq, event.agent, "denied", event.code, at) for seq in event.seqs]
    return rows


def finals_of(commits: Iterable[Commit]) -> list[FinalReceipt]:
    """The receipts that reached a final state in `commits`."""
    return [row for commit in commits for row in final_receipts(parse_batch(commit.data), commit.at)]


def settle(known: dict[str, FinalState], rows: Iterable[FinalReceipt], message: int) -> dict[str, FinalState]:
    """Add to the known receipts of one message what `rows` say of it."""
    for row in rows:
        if row.message == message:
            before = known.get(row.recipient)
            evidence = row.evidence or (before.evidence if before else "")
            known[row.recipient] = FinalState(row.state, evidence, row.at)
    return known
