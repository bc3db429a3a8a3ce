"""Agents: joining, leaving, names, presence.

A name lasts: an agent that comes back finds its mailbox. Names are unique on the machine, whatever their
case. One session at a time holds a name; a second one that is live gets the next free suffix.
"""

from __future__ import annotations

import msgspec

from palaver.core.context import (
    Context,
    Decision,
    EndSession,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    StartBroker,
)
from palaver.core.limits import Limits, check_depth
from palaver.core.receipts import expire_all, return_leases
from palaver.core.roster import caller_agent, find_agent, record_of
from palaver.core.state import Agent, State
from palaver.protocol.addresses import NAME_LENGTH_MAX, parse_name
from palaver.protocol.addresses import OPERATOR as OPERATOR_NAME
from palaver.protocol.errors import PalaverError
from palaver.protocol.events import (
    AgentForgotten,
    AgentOffline,
    AgentOnline,
    AgentRegistered,
    AgentUpdated,
    AnyEvent,
    BrokerStarted,
    SessionStarted,
)
from palaver.protocol.ids import format_id
from palaver.protocol.operations.agents import (
    Done,
    RegisterAgent,
    Registered,
    UnregisterAgent,
    UpdateAgent,
)
from palaver.protocol.operations.base import OPERATOR

ENDED = frozenset({"left", "disconnected"})
"""Reasons that end a session. After a `restart` of the broker it may still come back."""


# -- joining ------------------------------------------------------------------------------------------


def decide_register(state: State, operation: RegisterAgent, context: Context) -> Decision:
    """Give the caller a name: its own again, a new one, or the next free suffix."""
    _check_profile(operation, context.limits)
    above = state.agents.get(context.caller.above)
    if above is not None and above.session != operation.session:
        return _attach(above, operation)
    if context.caller.holds:
        raise PalaverError("conflict", "This connection has an agent already.", "Open another connection.")
    if operation.name in (OPERATOR_NAME, "") and context.caller.kind == OPERATOR:
        operator = state.find(OPERATOR_NAME)
        if operator is not None and operator.online and operator.session != operation.session:
            return _attach(operator, operation)  # another terminal of the same person
        asked = OPERATOR_NAME
    else:
        asked = _own_name(operation.name)
    before = state.agents.get(operation.resume)
    if before is not None and before.session != operation.session:
        raise PalaverError("session_replaced", f"Another session goes on as {before.name!r}.")
    name, agent = _place(state, asked, operation, context)
    note = f"{asked!r} is in use by a live agent; you are {name!r}."
    if name.lower() == asked.lower() or (agent is not None and agent.session == operation.session):
        note = ""
    if agent is None:
        if len(state.agents) >= context.limits.agents_max:
            raise PalaverError("limit_exceeded", "Too many agents are known.", "Forget some that are gone.")
        event = AgentRegistered(
            name=name,
            kind=operation.kind,
            session=operation.session,
            group=context.group,
            capabilities=operation.capabilities or [],
            metadata=operation.metadata or {},
            process=context.caller.process,
            owns=operation.owns_process,
        )
        return Decision(Registered(id=format_id("a", state.seq + 1), name=name, note=note), [event])
    started = SessionStarted(
        agent=agent.id,
        session=operation.session,
        group=context.group,
        capabilities=agent.capabilities if operation.capabilities is None else operation.capabilities,
        metadata=agent.metadata if operation.metadata is None else operation.metadata,
        process=context.caller.process,
        owns=operation.owns_process,
        seen=context.claimed(agent.id),
    )
    waiting = len(agent.pending) + len(agent.leased)
    reply = Registered(id=agent.id, name=agent.name, note=note, resumed=True, waiting=waiting)
    return Decision(reply, [started])


def _own_name(name: str) -> str:
    if not name:
        raise PalaverError(
            "name_invalid", "Neither an agent nor a terminal is above this program.", "Give it a name."
        )
    return parse_name(name)


def _attach(above: Agent, operation: RegisterAgent) -> Decision:
    if operation.name and operation.name.lower() != above.name.lower():
        raise PalaverError(
            "forbidden",
            f"This process runs beneath the agent {above.name!r} and speaks as that agent only.",
            f"Connect as {above.name!r}.",
        )
    note = f"You speak as {above.name!r}; its own client gets the mail."
    return Decision(Registered(id=above.id, name=above.name, note=note, resumed=True, attached=True))


def _place(state: State, asked: str, operation: RegisterAgent, context: Context) -> tuple[str, Agent | None]:
    """The name to bear, and the agent that bears it already if the caller may resume it."""
    for agent in state.agents.values():
        if agent.session == operation.session and agent.kind == operation.kind:
            return agent.name, agent
    name, number = asked, 1
    while True:
        agent = state.find(name)
        if agent is None:
            return name, None
        if agent.kind == operation.kind and _is_free(agent, context):
            return agent.name, agent
        if operation.exact:
            raise PalaverError(
                "forbidden", f"{agent.name!r} has a client of its own ({agent.kind}).", "Use another name."
            )
        number += 1
        suffix = f"-{number}"
        name = asked[: NAME_LENGTH_MAX - len(suffix)] + suffix


def _is_free(agent: Agent, context: Context) -> bool:
    """Whether another session may go on under this name."""
    # After a restart of the broker a session whose process lives is about to come back.
    returning = agent.offline_reason == "restart" and context.alive(agent.process)
    return not agent.online and not returning


def _check_profile(operation: RegisterAgent | UpdateAgent, limits: Limits) -> None:
    words = list(operation.capabilities or [])
    if isinstance(operation, RegisterAgent):
        words += [operation.kind, operation.session]
        if not operation.kind or not operation.session:
            raise PalaverError("bad_request", "`kind` and `session` must not be empty.")
        if len(operation.cwd) > 4096:
            raise PalaverError("limit_exceeded", "`cwd` is longer than 4096 characters.")
    if len(operation.capabilities or []) > limits.capabilities_max:
        raise PalaverError("limit_exceeded", f"More than {limits.capabilities_max} capabilities.")
    if any(len(word) > limits.text_length_max for word in words):
        raise PalaverError(
            "limit_exceeded", f"A capability, kind or session is longer than {limits.text_length_max}."
        )
    check_depth(operation.metadata, "metadata")
    if operation.metadata and len(msgspec.json.encode(operation.metadata)) > limits.metadata_bytes_max:
        raise PalaverError("limit_exceeded", f"The metadata exceed {limits.metadata_bytes_max} bytes.")


def apply_registered(state: State, event: AgentRegistered) -> None:
    """A new agent, online."""
    agent = Agent(
        id=format_id("a", state.seq),
        name=event.name,
        kind=event.kind,
        session=event.session,
        group=event.group,
        process=event.process,
        owns=event.owns,
        capabilities=event.capabilities,
        metadata=event.metadata,
        connected_at=state.now,
    )
    state.agents[agent.id] = agent
    state.names[agent.name.lower()] = agent.id


def apply_session_started(state: State, event: SessionStarted) -> None:
    """Online again; what an earlier session held is pending again."""
    agent = state.agents[event.agent]
    return_leases(state, agent, event.seen)
    agent.session = event.session
    agent.group = event.group
    agent.capabilities = event.capabilities
    agent.metadata = event.metadata
    agent.process, agent.owns = event.process, event.owns
    agent.online, agent.offline_reason, agent.connected_at = True, "", state.now


# -- changing and leaving -----------------------------------------------------------------------------


def decide_update(state: State, operation: UpdateAgent, context: Context) -> Decision:
    """Change the caller's own name, capabilities or metadata."""
    agent = caller_agent(state, context)
    _check_profile(operation, context.limits)
    if operation.name is not None:
        parse_name(operation.name)
        bearer = state.find(operation.name)
        if bearer is not None and bearer is not agent:
            raise PalaverError("conflict", f"The name {operation.name!r} is taken.", "Choose another name.")
    event = AgentUpdated(agent.id, operation.name, operation.capabilities, operation.metadata)
    changed = msgspec.structs.replace(
        record_of(agent, context, reason="self"),
        name=agent.name if operation.name is None else operation.name,
        capabilities=agent.capabilities if operation.capabilities is None else operation.capabilities,
        metadata=agent.metadata if operation.metadata is None else operation.metadata,
    )
    return Decision(changed, [event])


def apply_updated(state: State, event: AgentUpdated) -> None:
    """Take the new profile over."""
    agent = state.agents[event.agent]
    if event.name is not None:
        del state.names[agent.name.lower()]
        agent.name = event.name
        state.names[agent.name.lower()] = agent.id
    if event.capabilities is not None:
        agent.capabilities = event.capabilities
    if event.metadata is not None:
        agent.metadata = event.metadata


def decide_unregister(state: State, operation: UnregisterAgent, context: Context) -> Decision:
    """Leave, or (operator) make another leave."""
    agent = caller_agent(state, context) if operation.name is None else find_agent(state, operation.name)
    own = agent.id == context.caller.agent
    if not own and context.caller.kind != OPERATOR:
        raise PalaverError("forbidden", "Only the operator may make another agent leave.")
    events: list[AnyEvent] = []
    texts: list[str] = []
    if agent.online or agent.offline_reason == "silent":
        events.append(AgentOffline(agent.id, "left", context.claimed(agent.id)))
    if operation.forget:
        expired = expire_all(state, agent, context)
        events += [*expired.events, AgentForgotten(agent.id)]
        texts += expired.texts
    return Decision(Done(), events, texts)


def decide_end_session(state: State, command: EndSession, context: Context) -> Decision:
    """A connection broke: its session is over unless another has begun."""
    agent = state.agents.get(command.agent)
    if agent is None or agent.session != command.session or agent.offline_reason in ENDED:
        return Decision()
    return Decision(None, [AgentOffline(agent.id, "disconnected", context.claimed(agent.id))])


def decide_silent(state: State, command: MarkSilent, _context: Context) -> Decision:
    """No sign of life: offline, but the session is not over, so its leases stay."""
    agent = state.agents.get(command.agent)
    return Decision(None, [AgentOffline(agent.id, "silent")]) if agent and agent.online else Decision()


def decide_alive(state: State, command: MarkAlive, _context: Context) -> Decision:
    """A sign of life of a silent agent."""
    agent = state.agents.get(command.agent)
    silent = agent is not None and not agent.online and agent.offline_reason == "silent"
    return Decision(None, [AgentOnline(command.agent)]) if silent else Decision()


def apply_offline(state: State, event: AgentOffline) -> None:
    """Not reachable; at the end of a session its leases return."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    agent.online, agent.offline_reason, agent.gone_at = False, event.reason, state.now
    if event.reason in ENDED:
        return_leases(state, agent, event.seen)
        agent.owns = False


def apply_online(state: State, event: AgentOnline) -> None:
    """Reachable again, in the same session."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.online, agent.offline_reason = True, ""


def decide_forget_absent(state: State, _command: ForgetAbsent, context: Context) -> Decision:
    """Drop agents that are long gone and have no mail."""
    horizon = context.now - context.limits.forget_after_s
    gone = [
        AgentForgotten(agent.id)
        for agent in state.agents.values()
        if not agent.online and agent.gone_at < horizon and not agent.pending and not agent.leased
    ]
    return Decision(None, list(gone))


def apply_forgotten(state: State, event: AgentForgotten) -> None:
    """The name is free."""
    agent = state.agents.pop(event.agent, None)
    if agent is None:
        return
    state.names.pop(agent.name.lower(), None)
    for topic in agent.topics:
        subscribers = state.topics.get(topic, {})
        subscribers.pop(agent.id, None)
        if not subscribers:
            state.topics.pop(topic, None)


def decide_start_broker(_state: State, command: StartBroker, _context: Context) -> Decision:
    """Begin a life of the broker."""
    return Decision(None, [BrokerStarted(command.version)])


def apply_broker_started(state: State, _event: BrokerStarted) -> None:
    """Nobody is connected to a broker that has just begun. Old leases wait for their session's word."""
    state.epoch = state.seq
    for agent in state.agents.values():
        if agent.online:
            agent.online, agent.offline_reason, agent.gone_at = False, "restart", state.now
