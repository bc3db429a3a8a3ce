"""Who of those addressed a message reaches, and what a reply to one of them shows."""

from __future__ import annotations

from palaver.core.context import Context
from palaver.core.receipts import evidence_of_reply
from palaver.core.room import has_room
from palaver.core.routing import Route
from palaver.core.state import Agent
from palaver.protocol.errors import PalaverError
from palaver.protocol.events import AnyEvent
from palaver.protocol.ids import parse_id
from palaver.protocol.operations.messages import Outcome, SendStatus

MUTED = "muted: waits for its next turn"


def admit(found: Route, size: int, context: Context) -> tuple[list[Agent], list[Outcome]]:
    """Who has room for the message.

    Raises:
        PalaverError: `mailbox_full`, if it was for one agent only.
    """
    reached: list[Agent] = []
    outcomes: list[Outcome] = list(found.missed)
    for agent in found.agents:
        if not has_room(agent, size, context.limits):
            if not found.several:
                count = len(agent.pending) + len(agent.leased)
                raise PalaverError(
                    "mailbox_full", f"The mailbox of {agent.name!r} is full ({count} messages)."
                )
            outcomes.append(Outcome(name=agent.name, status="denied", note="Its mailbox is full."))
            continue
        reached.append(agent)
        if found.several:
            status: SendStatus = "received" if agent.online else "queued"
            note = MUTED if agent.is_muted(context.now) else ""
            outcomes.append(Outcome(name=agent.name, status=status, note=note))
    return reached, outcomes


def correlate(sender: Agent, re: str, recipients: list[str], context: Context) -> tuple[list[AnyEvent], str]:
    """What a reply shows of the message it answers, and what to say if that is unknown."""
    seq = parse_id("m", re)
    header = None if seq is None else context.header(seq)
    if header is None:
        return [], f"`re` {re!r} is unknown here; sent all the same."
    return evidence_of_reply(sender, header, recipients), ""
