"""Changing what an agent says of itself, its name included; and going on as an agent that is away."""

from __future__ import annotations

import msgspec

from tellwire.core.context import Context, Decision
from tellwire.core.names import check_profile, is_free, is_remembered, leave_name, suffixed
from tellwire.core.roster import caller_agent, record_of
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import parse_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentForgotten, AgentUpdated, SessionStarted
from tellwire.protocol.operations.agents import UpdateAgent


def decide_update(state: State, operation: UpdateAgent, context: Context) -> Decision:
    """Change the caller's own name, kind, capabilities or metadata."""
    agent = caller_agent(state, context)
    check_profile(operation, context.limits)
    name, kind = operation.name, operation.kind or agent.kind
    if name is not None:
        name, bearer = _new_name(state, agent, parse_name(name), kind, context, suffix=operation.suffix)
        if bearer is not None:
            return _take_over(agent, bearer, operation, context)
    event = AgentUpdated(agent.id, name, operation.capabilities, operation.metadata, operation.kind)
    changed = msgspec.structs.replace(
        record_of(agent, context, reason="self"),
        name=agent.name if name is None else name,
        kind=kind,
        capabilities=agent.capabilities if operation.capabilities is None else operation.capabilities,
        metadata=agent.metadata if operation.metadata is None else operation.metadata,
    )
    return Decision(changed, [event])


def _new_name(
    state: State, agent: Agent, asked: str, kind: str, context: Context, *, suffix: bool
) -> tuple[str, Agent | None]:
    """The name to bear from now on, and the absent agent whose it is, if any.

    Raises:
        TellwireError: `conflict`.
    """
    name, number = asked, 1
    while True:
        bearer = state.find(name)
        if bearer is agent or (bearer is None and not is_remembered(state, name, but=agent.id)):
            return name, None
        away = bearer is not None and bearer.kind == kind and is_free(bearer, context)
        if away and bearer is not None and (agent.id in state.children or bearer.id in state.children):
            away = False  # nobody becomes its own parent
        if away and context.caller.holds and not (suffix and (agent.pending or agent.leased)):
            return name, bearer
        if not suffix:
            raise TellwireError("conflict", f"The name {name!r} is taken.", "Choose another name.")
        number += 1
        name = suffixed(asked, number)


def _take_over(agent: Agent, bearer: Agent, operation: UpdateAgent, context: Context) -> Decision:
    """Go on as another agent that nobody is at the moment, under its name and with its mail.

    Raises:
        TellwireError: `conflict`: own mail would be left behind.
    """
    if agent.pending or agent.leased:
        raise TellwireError(
            "conflict", f"Mail for {agent.name!r} waits.", "Read it first, then change the name."
        )
    capabilities = operation.capabilities
    if capabilities is None:
        capabilities = agent.capabilities or bearer.capabilities
    started = SessionStarted(
        agent=bearer.id,
        session=agent.session,
        group=agent.group,
        capabilities=capabilities,
        metadata=agent.metadata if operation.metadata is None else operation.metadata,
        process=agent.process,
        owner=agent.owner,
        seen=context.claimed(bearer.id),
        was=agent.id,
    )
    record = msgspec.structs.replace(
        record_of(bearer, context, reason="self"),
        status="online",
        offline_reason="",
        group=agent.group,
        connected_at=context.now,
        capabilities=started.capabilities,
        metadata=started.metadata,
        waits="",
    )
    return Decision(record, [started, AgentForgotten(agent.id)])


def apply_updated(state: State, event: AgentUpdated) -> None:
    """Take the new profile over."""
    agent = state.agents[event.agent]
    if event.name is not None:
        leave_name(state, agent, agent.id)
        agent.name = event.name
        state.names[agent.name.lower()] = agent.id
    if event.kind is not None:
        agent.kind = event.kind
    if event.capabilities is not None:
        agent.capabilities = event.capabilities
    if event.metadata is not None:
        agent.metadata = event.metadata
