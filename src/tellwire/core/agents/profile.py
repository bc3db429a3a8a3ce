"""Changing an agent: its name and profile, going on as an agent that is away, and muting.

A muted agent is not woken while it is idle, and its turns are not kept from ending. Its mail waits and enters
with its next turn; what it fetches in a running turn is delivered as always, because it is busy anyway.
"""

from __future__ import annotations

import msgspec

from tellwire.core.agents.names import check_profile, is_free, is_remembered, leave_name, next_name
from tellwire.core.agents.roster import caller_agent, find_agent, record_of
from tellwire.core.agents.seats import is_successor
from tellwire.core.context import Context, Decision
from tellwire.core.operator.person import is_operator
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import parse_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentForgotten, AgentMuted, AgentUpdated, AnyEvent, SessionStarted
from tellwire.protocol.operations.agents import MuteAgent, UpdateAgent
from tellwire.protocol.operations.base import OPERATOR

CHANGES = "agent is changed across machines"


def decide_update(state: State, operation: UpdateAgent, context: Context) -> Decision:
    """Change the caller's own name, kind, capabilities or metadata; the operator may change another's."""
    agent = _whose(state, operation, context)
    check_profile(operation, context.limits)
    name, kind = operation.name, operation.kind or agent.kind
    if is_operator(agent) and (name is not None or operation.kind is not None):
        raise TellwireError("forbidden", "The operator keeps its name and kind.")
    if name is not None:
        name, bearer = _new_name(state, agent, parse_name(name), operation, context)
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


def _whose(state: State, operation: UpdateAgent, context: Context) -> Agent:
    """The agent that is to change.

    Raises:
        TellwireError: `forbidden`.
    """
    if operation.agent is None:
        return caller_agent(state, context)
    if context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may change another agent.")
    return find_agent(state, operation.agent, here=CHANGES)


def _new_name(
    state: State, agent: Agent, asked: str, operation: UpdateAgent, context: Context
) -> tuple[str, Agent | None]:
    """The name to bear from now on, and the absent agent that the session goes on as, if any.

    Raises:
        TellwireError: `conflict`.
    """
    name, number = asked, 1
    while True:
        bearer = state.find(name)
        if bearer is agent or (bearer is None and not is_remembered(state, name, but=agent.id)):
            return name, None
        own_mail = operation.suffix and (agent.pending or agent.leased)
        if bearer is not None and not own_mail and _may_go_on(state, agent, bearer, operation, context):
            return name, bearer
        if not operation.suffix:
            raise TellwireError(
                "conflict",
                f"The name {name!r} is taken.",
                "Choose another name; only the operator can give away the name of an agent that is offline.",
            )
        number, name = next_name(asked, number)


def _may_go_on(state: State, agent: Agent, bearer: Agent, operation: UpdateAgent, context: Context) -> bool:
    """Whether a session may take over an offline agent: it is in its pane, or the operator says so."""
    if agent.id in state.children or bearer.id in state.children:
        return False  # nobody becomes its own parent
    if bearer.kind != (operation.kind or agent.kind) or not agent.online:
        return False
    if operation.agent is not None:
        return is_free(bearer, context)
    return context.caller.is_own_client and is_successor(state, agent, bearer, context)


def _take_over(agent: Agent, bearer: Agent, operation: UpdateAgent, context: Context) -> Decision:
    """Go on as another agent that nobody is at the moment, under its name and with its mail.

    Raises:
        TellwireError: `conflict`: own mail would be left behind.
    """
    if agent.pending or agent.leased:
        raise TellwireError(
            "conflict", f"{agent.name!r} has unread mail.", "Read it first, then change the name."
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
    """Change what the event names; a former name goes on reaching the agent."""
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


# -- muting -------------------------------------------------------------------------------------------


def decide_mute(state: State, operation: MuteAgent, context: Context) -> Decision:
    """Leave an agent alone for a time, or no longer; an agent may ask it for itself, the operator for all."""
    agent = (
        caller_agent(state, context)
        if operation.name is None
        else find_agent(state, operation.name, here=CHANGES)
    )
    own = agent.id == context.caller.agent
    if not own and context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may mute another agent.")
    if is_operator(agent):
        raise TellwireError("bad_request", "Nothing wakes the operator.", "Name the agent to be left alone.")
    muted, until = not operation.off, _until(operation, context)
    now = (agent.is_muted(context.now), agent.muted_until)
    events: list[AnyEvent] = []
    if now != (muted, until) and (muted or now[0]):
        events.append(AgentMuted(agent.id, muted, until))
    record = record_of(agent, context, reason="self" if own else "open")
    return Decision(msgspec.structs.replace(record, muted=muted, muted_until=until), events)


def _until(operation: MuteAgent, context: Context) -> float:
    if operation.for_s is None:
        return 0.0
    if operation.off:
        raise TellwireError("bad_request", "`off` and `for_s` cannot be combined.")
    longest = context.limits.mute_s_max
    if not 0 < operation.for_s <= longest:
        raise TellwireError("bad_request", f"`for_s` must be above 0 and at most {longest:.0f}.")
    return context.now + operation.for_s


def apply_muted(state: State, event: AgentMuted) -> None:
    """Muted, or not; that a time is over needs no event."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.muted, agent.muted_until = event.muted, event.until
