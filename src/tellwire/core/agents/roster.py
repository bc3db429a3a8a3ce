"""Finding agents: by name, near names, lists; and what others see of one."""

from __future__ import annotations

from tellwire.core.agents.visibility import OPEN, reason_for, sees, why_hidden
from tellwire.core.context import Context, Decision
from tellwire.core.limits import Limits
from tellwire.core.machines.remote_agents import project_key
from tellwire.core.mail.reach import REACHED, reach
from tellwire.core.mail.waiting import Waiting
from tellwire.core.operator.person import is_operator
from tellwire.core.state import Agent, Machine, State
from tellwire.protocol.addresses import OPERATOR as OPERATOR_NAME
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import AgentList, AgentRecord, GetAgent, ListAgents
from tellwire.protocol.operations.base import AGENT, OPERATOR
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.protocol.suggestions import nearest

NO_CLIENT = frozenset({"script", "operator"})
"""Kinds of agents that have a mailbox and no session to end: commands speak for them."""
SPEAKS_BY_COMMANDS = frozenset({*NO_CLIENT, "command"})
"""Kinds of children that have no client of their own: any call from a process below them is theirs."""
OVER = frozenset({"left", "disconnected"})


def has_ended(agent: Agent) -> bool:
    """Whether the session of an agent with a client of its own is over."""
    return not agent.online and agent.offline_reason in OVER and agent.kind not in NO_CLIENT


def caller_agent(state: State, context: Context) -> Agent:
    """The agent that asks; a person is the operator, whether it joined or not.

    Raises:
        TellwireError: `not_registered`.
    """
    agent = state.agents.get(context.caller.agent)
    if agent is None and context.caller.kind == OPERATOR:
        agent = state.find(OPERATOR_NAME)
    if agent is None:
        raise TellwireError("not_registered", "This connection has no agent.")
    return agent


def find_agent(state: State, name: str, asker: Agent | None = None, *, here: str = "") -> Agent:
    """The agent of that name, else once of that name; or of an id, as `id:a2`.

    With `here` it has to be on this machine, and the word says what for.

    Raises:
        TellwireError: `unknown_agent`, with the nearest names that the asker may know, or
            `not_across_machines`.
    """
    agent = state.reach(name)
    if agent is None:
        near = suggest(state, name, asker)
        advice = f"Did you mean {', '.join(near)}?" if near else None
        raise TellwireError("unknown_agent", f"There is no agent named {shorten(name)}.", advice)
    if here and agent.machine:
        raise TellwireError("not_across_machines", f"{agent.name!r} is on another machine: no {here}.")
    return agent


def find_visible(state: State, name: str, context: Context, *, here: str = "") -> tuple[Agent, str]:
    """The agent of that name, and why the caller sees it.

    Raises:
        TellwireError: `unknown_agent` or `not_visible`; these are different answers.
    """
    me = state.agents.get(context.caller.agent)
    agent = find_agent(state, name, me, here=here)
    reason = reason_for(state, me, agent)
    if me is not None and not reason:
        raise TellwireError("not_visible", why_hidden(state, me, agent))
    return agent, reason


def find_session_agent(state: State, operation: GetSessionData, asker: str, limits: Limits) -> Agent:
    """The agent whose session the agent of id `asker` wants to read.

    Raises:
        TellwireError: there is none, the asker does not see it, or the bounds make no sense.
    """
    if not 1 <= operation.tail <= limits.take_chars_max:
        raise TellwireError("limit_exceeded", f"`tail` must be from 1 to {limits.take_chars_max}.")
    if operation.since < 0:
        raise TellwireError("bad_request", "`since` must not be negative.")
    me = state.agents.get(asker)
    agent = find_agent(state, operation.agent, me, here="session is read across machines")
    if me is not None and not sees(state, me, agent):
        raise TellwireError("not_visible", why_hidden(state, me, agent))
    return agent


def suggest(state: State, name: str, asker: Agent | None = None) -> list[str]:
    """Known names most like `name`, online ones first; looks at a bounded number."""
    known = sorted(state.agents.values(), key=lambda agent: not agent.online)[:500]
    names = [agent.name for agent in known if sees(state, asker, agent)]
    near = nearest(name, names)
    if not state.machines:
        return near
    elsewhere = [each for each in names if each.lower().endswith(f":{name.lower()}")]
    return list(dict.fromkeys([*elsewhere, *near]))[:3]


def decide_list(state: State, operation: ListAgents, context: Context) -> Decision:
    """Online agents of the caller's group or related to it, or all it sees; not itself, nor the operator."""
    me = state.agents.get(context.caller.agent)
    shown: list[AgentRecord] = []
    hidden = 0
    for agent in state.agents.values():
        if agent is me or is_operator(agent) or agent.name.endswith(f":{OPERATOR_NAME}"):
            continue
        if operation.capability is not None and operation.capability not in agent.capabilities:
            continue
        reason = reason_for(state, me, agent)
        if not reason:
            continue
        near = me is None or reason != OPEN or agent.group == _project(me, agent)
        if operation.all or (agent.online and near):
            machine = state.machines.get(agent.machine)
            shown.append(record_of(agent, context, reason=reason, machine=machine))
        else:
            hidden += 1
    shown.sort(key=lambda record: record.name.lower())
    return Decision(AgentList(agents=shown, hidden=hidden))


def decide_get(state: State, operation: GetAgent, context: Context) -> Decision:
    agent, reason = find_visible(state, operation.name, context)
    machine = state.machines.get(agent.machine)
    return Decision(record_of(agent, context, reason=reason, machine=machine))


def _project(me: Agent, agent: Agent) -> str:
    """What the project of `me` is called where the other agent is."""
    return project_key(me.group) if agent.machine else me.group


def record_of(agent: Agent, context: Context, *, reason: str, machine: Machine | None = None) -> AgentRecord:
    """An agent as others see it in a listing."""
    if machine is not None:
        return _remote_record(agent, context, reason, machine)
    contact = context.contact(agent.id) if agent.online else None
    found = REACHED if contact is None else reach(contact, context.now)
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
        muted=agent.is_muted(context.now),
        muted_until=agent.muted_until if agent.is_muted(context.now) else 0.0,
        paths=context.paths(agent.id) if agent.online else [],
        terminal=terminal_of(agent) if agent.online else "",
        title=context.title(agent.id) if context.caller.kind != AGENT else "",
        deaf=contact is not None and contact.is_deaf,
        unreached="" if found.reached else found.why,
        doubt="" if contact is None else contact.doubt,
        waits=Waiting(context).why_oldest(agent) if agent.pending or agent.leased else "",
    )


def _remote_record(agent: Agent, context: Context, reason: str, machine: Machine) -> AgentRecord:
    """An agent of another machine: what that one told, and whether it is heard at all."""
    status = "online" if agent.online else "offline"
    heard_at = max(machine.heard_at, context.way(machine.id).heard_at)
    return AgentRecord(
        id=agent.id,
        name=agent.name,
        kind=agent.kind,
        status=status if machine.online else "unreachable",
        capabilities=agent.capabilities,
        reason=reason,
        offline_reason=agent.offline_reason,
        group=agent.group,
        connected_at=agent.connected_at,
        last_heartbeat=context.now if machine.online else heard_at,
        pending=len(agent.pending) + len(agent.leased),
        machine=machine.label,
    )


def terminal_of(agent: Agent) -> str:
    """The pane that an agent runs in, as people call it."""
    words = agent.pane.split(" ")
    return words[1] if len(words) == 3 else ""
