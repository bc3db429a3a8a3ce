"""From events to final receipts: what is known of a message once no inbox holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tellwire.core.context import Settled
from tellwire.protocol.events import AnyEvent, MessageAnswered, MessagesExpired, MessagesRead

MAYBE_READ = "maybe read"
"""In place of evidence: handed over to a session that ended without a word of it."""


class FinalReceipt(NamedTuple):
    """One receipt that reached a final state; an empty evidence keeps the one that stands."""

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
    return rows


def settle(known: dict[str, Settled], rows: Iterable[FinalReceipt], message: int) -> dict[str, Settled]:
    """Add to the known receipts of one message what `rows` say of it."""
    for row in rows:
        if row.message == message:
            before = known.get(row.recipient)
            evidence = row.evidence or (before.evidence if before else "")
            known[row.recipient] = Settled(row.state, evidence, row.at)
    return known
