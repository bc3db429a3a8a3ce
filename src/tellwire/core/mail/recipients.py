"""Who of those addressed a message reaches, and what a reply to one of them shows."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from tellwire.core.context import Context
from tellwire.core.mail.notices import CHAIN
from tellwire.core.mail.reach import reach
from tellwire.core.mail.receipts import evidence_of_reply
from tellwire.core.mail.room import has_room, has_share
from tellwire.core.mail.routing import Route
from tellwire.core.operator.person import is_operator
from tellwire.core.state import Agent, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.ids import parse_id, parse_message_id
from tellwire.protocol.operations.messages import Outcome, SendStatus, Sent

SHARE = "{} of your messages to the operator are open: not read yet, or questions without an answer."
SHARE_ADVICE = "Go on without an answer, or wait for one; do not send this again before."
MUTED = "muted: waits for its next turn"


class Told(NamedTuple):
    """A send's answer about one recipient."""

    status: SendStatus
    note: str = ""
    why: str = ""
    """Of one that is online and `queued`: why nothing reaches it now."""


TO_SEVERAL = Told("sent")
RECEIVED = Told("received")


def admit(
    state: State, sender: Agent, found: Route, size: int, context: Context
) -> tuple[list[Agent], list[Outcome]]:
    """Who has room for the message.

    Raises:
        TellwireError: `mailbox_full`, if it was for one agent only.
    """
    reached: list[Agent] = []
    outcomes: list[Outcome] = list(found.missed)
    for agent in found.agents:
        full = _why_full(state, sender, agent, size, context)
        if full is not None:
            if not found.several:
                raise full
            outcomes.append(Outcome(name=agent.name, status="denied", note=full.message))
            continue
        reached.append(agent)
        if found.several:
            status, note, why = status_of(agent, context)
            outcomes.append(Outcome(name=agent.name, status=status, note=why or note))
    return reached, outcomes


def _why_full(state: State, sender: Agent, agent: Agent, size: int, context: Context) -> TellwireError | None:
    """Why an inbox does not take a message of this sender; None if it does."""
    limits = context.limits
    if is_operator(agent) and not has_share(state, sender, agent, limits):
        return TellwireError("mailbox_full", SHARE.format(limits.operator_share_max), SHARE_ADVICE)
    if has_room(agent, size, limits):
        return None
    count = len(agent.pending) + len(agent.leased)
    return TellwireError("mailbox_full", f"The mailbox of {agent.name!r} is full ({count} messages).")


def status_of(agent: Agent, context: Context) -> Told:
    """What a sender is told of one recipient."""
    note = MUTED if agent.muted and agent.is_muted(context.now) else ""
    if not agent.online:
        return Told("queued", note)
    contact = context.contact(agent.id)
    if contact is None:
        return Told("received", note) if note else RECEIVED
    found = reach(contact, context.now)
    return Told("received", note or found.why) if found.reached else Told("queued", note, found.why)


def told_again(state: State, first: Sent, context: Context) -> Sent:
    """The first answer to a send, as it holds now: the journal does not keep whether anything reached it."""
    seq = parse_message_id(first.id)
    header = context.header(seq) if first.status == "received" else None
    agent = None if header is None else state.agents.get(header.recipients[0])
    if agent is None or not agent.online or seq not in agent.pending:
        return first
    if agent.pending[seq].weak:
        return replace(first, status="queued", why=CHAIN)
    now = status_of(agent, context)
    return replace(first, status=now.status, why=now.why)


def correlate(sender: Agent, re: str, recipients: list[str], context: Context) -> tuple[list[AnyEvent], str]:
    """What a reply shows of the message it answers, and what to say if that is unknown."""
    seq = parse_id("m", re)
    header = None if seq is None else context.header(seq)
    if header is None:
        return [], f"`re` {re!r} is unknown; the message was sent anyway."
    return evidence_of_reply(sender, header, recipients), ""
