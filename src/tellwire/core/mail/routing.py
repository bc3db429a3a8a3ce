"""Who a send is for: one name, several, the group's online agents, or a topic's subscribers."""

from __future__ import annotations

import msgspec

from tellwire.core.agents.roster import suggest
from tellwire.core.agents.visibility import sees, why_hidden
from tellwire.core.context import Context
from tellwire.core.operator.person import is_operator, project_of
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import Address, parse_address, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.messages import Outcome, SendMessage, Sent

ON_LINK = Sent(status="sent")
"""Stands for the outcome of a send to a link, which is decided elsewhere."""


class Route(msgspec.Struct, frozen=True):
    """Where a message goes."""

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
        return _one(state, sender, address)
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


def _one(state: State, sender: Agent, address: Address) -> Route:
    agent = state.reach(address.value)
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
        found = _one(state, sender, address)
        if found.outcome is not None:
            missed.append(Outcome(name=name, status=found.outcome.status, note=found.outcome.note))
        else:
            agents[found.agents[0].id] = found.agents[0]
    return Route(list(agents.values()), several=True, missed=missed)
