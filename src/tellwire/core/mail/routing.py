"""Who a send is for, and which of them it reaches.

An address is one name, several, `broadcast` for the group's online agents, or a topic for its subscribers.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tellwire.core.agents.roster import suggest
from tellwire.core.agents.visibility import sees, why_hidden
from tellwire.core.context import Context
from tellwire.core.machines.elsewhere import away_note, denied_elsewhere, why_not_sent
from tellwire.core.mail.notices import CHAIN
from tellwire.core.mail.reach import reach
from tellwire.core.mail.receipts import evidence_of_reply
from tellwire.core.operator.person import is_operator, project_of
from tellwire.core.operator.questions import has_share
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import ID, Address, parse_address, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.ids import parse_id, parse_message_id
from tellwire.protocol.operations.messages import Outcome, SendMessage, SendStatus, Sent

ON_LINK = Sent(status="sent")
"""A placeholder for the outcome of a send to a link, which is decided elsewhere."""


class Route(msgspec.Struct, frozen=True):
    """The recipients of a send, or the reason why it ends here."""

    agents: list[Agent]
    several: bool = False
    """Addressed to more than one: answered `sent`, with an outcome for each."""
    missed: list[Outcome] = []
    outcome: Sent | None = None
    """Set if the send ends here: `denied` or `refused`."""


def route(state: State, sender: Agent, to: str | list[str], context: Context) -> Route:
    """Find the recipients of `to`; the sender is never among them (NET-4).

    Raises:
        TellwireError: malformed address, too many recipients, or a large broadcast unconfirmed.
    """
    if isinstance(to, list):
        return _several(state, sender, to, context)
    known = state.agents.get(state.names.get(to.lower(), ""))
    if known is not None and known is not sender and not state.policies:
        return Route([known])  # the usual case, without parsing
    address = parse_address(to)
    if address.kind == "agent":
        return _one(state, sender, address, context)
    if address.kind == "link":
        return Route([], outcome=ON_LINK)
    if address.kind == "topic":
        ids = state.topics.get(address.value.lower(), {})
        subscribers = [state.agents[agent] for agent in ids if agent != sender.id]
        return Route([agent for agent in subscribers if sees(state, sender, agent)], several=True)
    return Route(_near(state, sender, context), several=True)


def _near(state: State, sender: Agent, context: Context) -> list[Agent]:
    """Whom a broadcast reaches: agents of the project that are online, and no person."""
    group = project_of(sender, context)
    return [
        agent
        for agent in state.agents.values()
        if agent.online
        and not agent.machine
        and agent.group == group
        and agent is not sender
        and not is_operator(agent)
        and sees(state, sender, agent)
    ]


def check_broadcast(found: Route, operation: SendMessage, context: Context) -> None:
    """A broadcast to very many must be meant.

    Raises:
        TellwireError: `confirmation_needed`.
    """
    count, unconfirmed_max = len(found.agents), context.limits.broadcast_unconfirmed_max
    if count > unconfirmed_max and not operation.confirm and not isinstance(operation.to, list):
        raise TellwireError("confirmation_needed", f"This would reach {count} agents.")


def _one(state: State, sender: Agent, address: Address, context: Context) -> Route:
    agent = state.reach(address.value)
    if agent is None and ":" in address.value and not address.value.startswith(ID):
        return Route([], outcome=denied_elsewhere(state, sender, address.value, context))
    if agent is None:
        near = [name for name in suggest(state, address.value, sender) if name != sender.name]
        note = f"There is no agent named {address.value!r}." + (
            f" Did you mean {', '.join(near)}?" if near else ""
        )
        return Route([], outcome=Sent(status="denied", note=note, suggestions=near))
    if agent is sender:
        return Route([], outcome=Sent(status="refused", note="That is you."))
    if not sees(state, sender, agent):
        return Route([], outcome=Sent(status="denied", note=why_hidden(state, sender, agent)))
    return Route([agent])


def _several(state: State, sender: Agent, names: list[str], context: Context) -> Route:
    """Find each agent of a list; those that cannot be reached are reported, not fatal."""
    if not names:
        raise TellwireError("address_invalid", "The list of recipients is empty.")
    if len(names) > context.limits.recipients_max:
        raise TellwireError("limit_exceeded", f"More than {context.limits.recipients_max} recipients.")
    agents: dict[str, Agent] = {}
    missed: list[Outcome] = []
    for name in names:
        address = parse_address(name)
        if address.kind != "agent":
            raise TellwireError(
                "address_invalid", f"{shorten(name)} cannot be part of a list; send to it separately."
            )
        found = _one(state, sender, address, context)
        if found.outcome is not None:
            missed.append(Outcome(name=name, status=found.outcome.status, note=found.outcome.note))
        else:
            agents[found.agents[0].id] = found.agents[0]
    return Route(list(agents.values()), several=True, missed=missed)


# -- who of them is reached ---------------------------------------------------------------------------


SHARE = "{} of your messages to the operator are open: not read yet, or questions without an answer."
SHARE_ADVICE = "Go on without an answer, or wait for one; do not send this again before."
MUTED = "muted: waits for its next turn"


class RecipientState(NamedTuple):
    """A send's answer about one recipient."""

    status: SendStatus
    note: str = ""
    why: str = ""
    """Of one that is online and `queued`: why nothing reaches it now."""


TO_SEVERAL = RecipientState("sent")
RECEIVED = RecipientState("received")


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
            status, note, why = status_of(state, agent, context)
            outcomes.append(Outcome(name=agent.name, status=status, note=why or note))
    return reached, outcomes


def _why_full(state: State, sender: Agent, agent: Agent, size: int, context: Context) -> TellwireError | None:
    """Why an inbox does not take a message of this sender; None if it does."""
    limits = context.limits
    if is_operator(agent) and not has_share(state, sender, agent, limits):
        return TellwireError("mailbox_full", SHARE.format(limits.operator_share_max), SHARE_ADVICE)
    if agent.machine and (why := why_not_sent(state, agent, size)) is not None:
        return why
    if agent.has_room(size, limits):
        return None
    count = len(agent.pending) + len(agent.leased)
    return TellwireError("mailbox_full", f"The mailbox of {agent.name!r} is full ({count} messages).")


def status_of(state: State, agent: Agent, context: Context) -> RecipientState:
    """The outcome of a send for one recipient."""
    if agent.machine:
        return RecipientState("queued", away_note(state, agent, context))
    note = MUTED if agent.muted and agent.is_muted(context.now) else ""
    if not agent.online:
        return RecipientState("queued", note)
    contact = context.contact(agent.id)
    if contact is None:
        return RecipientState("received", note) if note else RECEIVED
    found = reach(contact, context.now)
    return (
        RecipientState("received", note or found.why)
        if found.reached
        else RecipientState("queued", note, found.why)
    )


def told_again(state: State, first: Sent, context: Context) -> Sent:
    """The first answer to a send, as it holds now: the journal does not keep whether anything reached it."""
    seq = parse_message_id(first.id)
    header = context.header(seq) if first.status == "received" else None
    agent = None if header is None else state.agents.get(header.recipients[0])
    if agent is None or not agent.online or seq not in agent.pending:
        return first
    if agent.pending[seq].weak:
        return replace(first, status="queued", why=CHAIN)
    now = status_of(state, agent, context)
    return replace(first, status=now.status, why=now.why)


def correlate(sender: Agent, re: str, recipients: list[str], context: Context) -> tuple[list[AnyEvent], str]:
    """What a reply shows of the message it answers, and what to say if that is unknown."""
    seq = parse_id("m", re)
    header = None if seq is None else context.header(seq)
    if header is None:
        return [], f"`re` {re!r} is unknown; the message was sent anyway."
    return evidence_of_reply(sender, header, recipients), ""
