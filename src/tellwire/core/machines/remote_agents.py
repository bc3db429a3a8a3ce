"""Agents of other machines, as those describe them: ordinary agents here, under `label:name`.

Their inbox here is the outbox to their machine. What another machine says of them passes the same checks as
what a local agent says of itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tellwire.core.agents.visibility import OPEN, policy_of
from tellwire.core.limits import Limits
from tellwire.core.machines.outbox import ROSTER_BYTES_MAX
from tellwire.core.state import Agent, Machine, State
from tellwire.protocol.addresses import OPERATOR, is_name, is_reserved
from tellwire.protocol.events.machines import RemoteAgentTold
from tellwire.protocol.ids import format_id
from tellwire.protocol.machines import remote_name
from tellwire.protocol.parcels import RemoteAgent

ROSTER_MAX = 500
"""Agents of one machine that others hear of."""
ID_LENGTH_MAX = 16
GONE = "gone"
"""Why an agent is offline of which its machine says nothing any more."""


def project_key(group: str) -> str:
    """What a project is called on other machines: the last part of its folder."""
    return group.rstrip("/").rpartition("/")[2].lower()


def may_see(state: State, machine: Machine, agent: Agent) -> bool:
    """Whether a machine may see an agent of ours, and write to it."""
    if agent.machine:
        return False
    if agent.name == OPERATOR:
        return True
    if policy_of(state, agent.group) != OPEN:
        return False
    return machine.trust == "own" or project_key(agent.group) in machine.shares


def our_roster(state: State, machine: Machine) -> list[RemoteAgent]:
    """All that a machine may see of us, those who are here first."""
    seen = [agent for agent in state.agents.values() if may_see(state, machine, agent)]
    seen.sort(key=lambda agent: not agent.online)
    told, size = [described(agent) for agent in seen[:ROSTER_MAX]], 0
    for place, agent in enumerate(told):
        size += len(msgspec.msgpack.encode(agent))
        if size > ROSTER_BYTES_MAX:
            return told[:place]
    return told


def described(agent: Agent) -> RemoteAgent:
    """An agent of ours, as other machines hear of it."""
    return RemoteAgent(
        agent.id,
        agent.name,
        agent.kind,
        project_key(agent.group),
        agent.capabilities,
        agent.online,
        agent.offline_reason,
    )


def is_sound(agent: RemoteAgent, limits: Limits) -> bool:
    """Whether such an agent could be one of ours."""
    words = [agent.kind, agent.project, agent.offline_reason, *agent.capabilities]
    return (
        is_name(agent.name)
        and (not is_reserved(agent.name) or agent.name == OPERATOR)
        and is_name(agent.id)
        and len(agent.id) <= ID_LENGTH_MAX
        and len(agent.capabilities) <= limits.capabilities_max
        and all(len(word) <= limits.text_length_max and word.isprintable() for word in words)
    )


def is_news(state: State, machine: Machine, told: RemoteAgent) -> bool:
    """Whether what is told of an agent differs from what is known."""
    known = state.agents.get(machine.agents.get(told.id, ""))
    return known is None or _facts(known) != (
        remote_name(machine.label, told.name),
        told.kind,
        told.project,
        told.capabilities,
        told.online,
        told.offline_reason,
    )


def _facts(agent: Agent) -> tuple[Any, ...]:
    return (
        agent.name,
        agent.kind,
        agent.group,
        agent.capabilities,
        agent.online,
        agent.offline_reason,
    )


def apply_told(state: State, event: RemoteAgentTold) -> None:
    """Make or change the agent that stands here for one of another machine."""
    machine = state.machines.get(event.machine)
    if machine is None:
        return
    told, name = event.agent, remote_name(machine.label, event.agent.name)
    agent = state.agents.get(machine.agents.get(told.id, ""))
    if agent is None:
        agent = Agent(
            id=format_id("a", state.seq),
            name=name,
            kind=told.kind,
            session="",
            machine=machine.id,
            there=told.id,
            connected_at=state.now,
        )
        state.agents[agent.id] = agent
        machine.agents[told.id] = agent.id
    elif agent.name != name:
        _leave(state, agent)
    agent.name, agent.kind, agent.group = name, told.kind, told.project
    agent.capabilities = told.capabilities
    if agent.online and not told.online:
        agent.gone_at, agent.gone_awake = state.now, state.awake
    agent.online, agent.offline_reason = told.online, told.offline_reason
    state.names[name.lower()] = agent.id


def _leave(state: State, agent: Agent) -> None:
    if state.names.get(agent.name.lower()) == agent.id:
        del state.names[agent.name.lower()]


def relabel(state: State, machine: Machine, label: str) -> None:
    """All agents of a machine get its new label."""
    for agent_id in machine.agents.values():
        if (agent := state.agents.get(agent_id)) is not None:
            _leave(state, agent)
            agent.name = remote_name(label, agent.name.partition(":")[2])
            state.names[agent.name.lower()] = agent.id
