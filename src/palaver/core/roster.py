"""Finding agents: by name, near names, lists; and what others see of one."""

from __future__ import annotations

from palaver.core.context import Context, Decision
from palaver.core.state import Agent, State
from palaver.protocol.addresses import shorten
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.agents import AgentList, AgentRecord, GetAgent, ListAgents
from palaver.protocol.suggestions import nearest


def caller_agent(state: State, context: Context) -> Agent:
    """The agent that asks.

    Raises:
        PalaverError: `not_registered`.
    """
    agent = state.agents.get(context.caller.agent)
    if agent is None:
        raise PalaverError("not_registered", "This connection has no agent.")
    return agent


def find_agent(state: State, name: str) -> Agent:
    """The agent of that name, else once of that name, else of that id.

    Raises:
        PalaverError: `unknown_agent`, with the nearest names.
    """
    agent = state.reach(name)
    if agent is None:
        near = suggest(state, name)
        advice = f"Did you mean {', '.join(near)}?" if near else None
        raise PalaverError("unknown_agent", f"No agent {shorten(name)} is known here.", advice)
    return agent


def suggest(state: State, name: str) -> list[str]:
    """Known names most like `name`, online ones first; looks at a bounded number."""
    known = sorted(state.agents.values(), key=lambda agent: not agent.online)[:500]
    return nearest(name, [agent.name for agent in known])


def decide_list(state: State, operation: ListAgents, context: Context) -> Decision:
    """Online agents of the caller's group, or all; never the caller."""
    me = state.agents.get(context.caller.agent)
    shown: list[AgentRecord] = []
    hidden = 0
    for agent in state.agents.values():
        if agent is me:
            continue
        if operation.capability is not None and operation.capability not in agent.capabilities:
            continue
        near = me is None or agent.group == me.group
        if operation.all or (agent.online and near):
            shown.append(record_of(agent, context, reason="open"))
        else:
            hidden += 1
    shown.sort(key=lambda record: record.name.lower())
    return Decision(AgentList(agents=shown, hidden=hidden))


def decide_get(state: State, operation: GetAgent, context: Context) -> Decision:
    """One agent's record."""
    agent = find_agent(state, operation.name)
    reason = "self" if agent.id == context.caller.agent else "open"
    return Decision(record_of(agent, context, reason=reason))


def record_of(agent: Agent, context: Context, *, reason: str) -> AgentRecord:
    """What others see of an agent."""
    return AgentRecord(
        id=agent.id,
        name=agent.name,
        kind=agent.kind,
        status="online" if agent.online else "offline",
        capabilities=agent.capabilities,
        reason=reason,
        offline_reason=agent.offline_reason,
        group=agent.group,
        connected_at=agent.connected_at,
        last_heartbeat=context.last_seen(agent.id),
        activity=context.activity(agent.id) if agent.online else "",
        pending=len(agent.pending) + len(agent.leased),
        metadata=agent.metadata,
    )
