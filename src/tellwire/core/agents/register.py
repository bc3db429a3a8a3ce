"""Agents: joining, leaving, names, presence.

A name lasts: an agent that comes back finds its mailbox. Names are unique on the machine, whatever their
case. One session at a time holds a name; a second one that is live gets the next free suffix.
"""

from __future__ import annotations

import msgspec

from tellwire.core.agents.names import check_profile, is_free, is_remembered, leave_name, next_name
from tellwire.core.agents.roster import caller_agent, find_agent
from tellwire.core.agents.seats import choose, free_name, is_same_place, lost_note, placed, seated
from tellwire.core.children.lifecycle import awaits_client, forget_relations, inherit_relations
from tellwire.core.context import (
    Context,
    Decision,
    EndSession,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    StartBroker,
)
from tellwire.core.mail.receipts import expire_all, note_seen, return_leases
from tellwire.core.operator.person import begin_operator, check_stays, join_operator
from tellwire.core.operator.questions import forget_asker
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR as OPERATOR_NAME
from tellwire.protocol.addresses import parse_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AgentForgotten,
    AgentOffline,
    AgentOnline,
    AgentRegistered,
    AnyEvent,
    BrokerStarted,
    SessionStarted,
)
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.agents import (
    Done,
    RegisterAgent,
    Registered,
    UnregisterAgent,
)
from tellwire.protocol.operations.base import OPERATOR
from tellwire.system.bounded import forget_oldest

REMOVING = "agent is removed across machines"
ENDED = frozenset({"left", "disconnected"})
"""Reasons that end a session. After a `restart` of the broker it may still come back."""
LOOKED_AT_S = 86_400.0
"""A look at an agent that was away this long joins as it: who is looked at daily is not forgotten."""
DISOWNED_KEPT = 256
"""Not a setting: applying an event must not depend on one."""


# -- joining ------------------------------------------------------------------------------------------


def decide_register(state: State, operation: RegisterAgent, context: Context) -> Decision:
    """Give the caller a name: its own again, a new one, or the next free suffix."""
    check_profile(operation, context.limits)
    above = state.agents.get(context.caller.ancestor)
    if above is not None and above.session != operation.session:
        if awaits_client(state, above, operation):
            return _come_up(state, above, operation, context)
        return _attach(above, operation)
    if context.caller.is_own_client:
        raise TellwireError("conflict", "This connection already has an agent.", "Open another connection.")
    if operation.name in (OPERATOR_NAME, "") and context.caller.kind == OPERATOR:
        return join_operator(state, operation)
    before = state.agents.get(operation.resume)
    if before is not None and before.session != operation.session:
        raise TellwireError("session_replaced", f"Another session has taken over {before.name!r}.")
    asked = _own_name(operation.name) if before is None else before.name  # it may have been renamed
    name, agent, lost = _place(state, asked, operation, context)
    if operation.looks and (agent is None or context.now - agent.gone_at < LOOKED_AT_S):
        return _look(name, agent)
    note = lost_note(lost, name) or _note(asked, name, agent, operation, context)
    if agent is None:
        return _begin(state, name, note, operation, context)
    started = SessionStarted(
        agent=agent.id,
        session=operation.session,
        group=context.group,
        capabilities=agent.capabilities if operation.capabilities is None else operation.capabilities,
        metadata=agent.metadata if operation.metadata is None else operation.metadata,
        process=context.caller.process,
        owner=_owner(operation, context),
        seen=context.claimed(agent.id),
        keeps=operation.pulls and agent.session == operation.session,
    )
    return Decision(_resumed(agent, note), [started, *placed(agent, agent.id, context.caller.seat)])


def _begin(state: State, name: str, note: str, operation: RegisterAgent, context: Context) -> Decision:
    """Register a new agent under a free name."""
    if len(state.agents) >= context.limits.agents_max:
        raise TellwireError(
            "limit_exceeded",
            "Too many agents are registered.",
            "Remove some with `tellwire unregister NAME --forget`.",
        )
    event = AgentRegistered(
        name=name,
        kind=operation.kind,
        session=operation.session,
        group=context.group,
        capabilities=operation.capabilities or [],
        metadata=operation.metadata or {},
        process=context.caller.process,
        owner=_owner(operation, context),
    )
    number = format_id("a", state.seq + 1)
    return Decision(Registered(id=number, name=name, note=note), [event, *seated(state, number, context)])


def _look(name: str, agent: Agent | None) -> Decision:
    """Read as an agent whose name the caller might take: its presence and its mail stay as they are."""
    if agent is None:
        raise TellwireError("unknown_agent", f"There is no agent named {name!r}.")
    found = _resumed(agent, "")
    return Decision(msgspec.structs.replace(found, attached=True, looking=True))


def _resumed(agent: Agent, note: str) -> Registered:
    waiting = len(agent.pending) + len(agent.leased)
    return Registered(id=agent.id, name=agent.name, note=note, resumed=True, waiting=waiting)


def _note(asked: str, name: str, agent: Agent | None, operation: RegisterAgent, context: Context) -> str:
    """The note for a caller that did not get the name it asked for, unless it knows that already."""
    if name.lower() == asked.lower() or (agent is not None and agent.session == operation.session):
        return ""
    if context.caller.seat is not None and not context.caller.seat.named:
        return ""  # nobody chose the other name
    return f"{asked!r} is in use by a live agent; you are {name!r}."


def _owner(operation: RegisterAgent, context: Context) -> str:
    return (context.caller.owner or context.caller.process) if operation.owns_process else ""


def _own_name(name: str) -> str:
    if not name:
        raise TellwireError(
            "name_invalid",
            "Can't tell who is sending: not run from a terminal or by an agent.",
            "Give it a name: `--as NAME` on the command line.",
        )
    return parse_name(name)


def _attach(above: Agent, operation: RegisterAgent) -> Decision:
    if operation.name and operation.name.lower() != above.name.lower():
        raise TellwireError(
            "forbidden",
            f"This process was started by the agent {above.name!r} and can act only as that agent.",
            f"Connect as {above.name!r}.",
        )
    note = f"You act as {above.name!r}; its own client gets the mail."
    return Decision(Registered(id=above.id, name=above.name, note=note, resumed=True, attached=True))


def _come_up(state: State, child: Agent, operation: RegisterAgent, context: Context) -> Decision:
    """The client of a child connects for the first time: it is that child, whatever name it asks for."""
    started = SessionStarted(
        agent=child.id,
        session=operation.session,
        group=context.group or child.group,
        capabilities=child.capabilities if operation.capabilities is None else operation.capabilities,
        metadata={**child.metadata, **(operation.metadata or {})},
        process=context.caller.process,
        owner=state.children[child.id].process,
        seen=context.claimed(child.id),
    )
    waiting = len(child.pending) + len(child.leased)
    reply = Registered(id=child.id, name=child.name, resumed=True, waiting=waiting)
    return Decision(reply, [started, *placed(child, child.id, context.caller.seat)])


def _place(
    state: State, asked: str, operation: RegisterAgent, context: Context
) -> tuple[str, Agent | None, str]:
    """The name to bear, the agent that bears it already if the caller may resume it, and a name it lost."""
    for agent in state.agents.values():
        own = agent.kind == operation.kind or agent.id == operation.resume
        if own and agent.session == operation.session:
            return agent.name, agent, ""
    seat = context.caller.seat
    if seat is not None and not seat.named:
        found, lost = choose(state, operation.kind, seat, context)
        return (free_name(state, asked) if found is None else found.name), found, lost
    name, number = asked, 1
    while True:
        agent = state.find(name)
        own = agent is not None and agent.kind == operation.kind
        if agent is None and not is_remembered(state, name):
            return name, None, ""
        if agent is not None and own and is_free(agent, context) and _may_resume(agent, context):
            return agent.name, agent, ""
        if operation.exact:
            raise _refusal(name, agent, context, own=own)
        number, name = next_name(asked, number)


def _may_resume(agent: Agent, context: Context) -> bool:
    """Whether a caller may take over the name of an offline agent; a process of another agent may not."""
    caller, seat = context.caller, context.caller.seat
    if seat is not None and seat.chosen and not is_same_place(agent, seat):
        return False
    beneath = caller.adrift or (seat is not None and seat.beneath)
    return not beneath or (caller.process != "" and agent.process == caller.process)


def _refusal(name: str, agent: Agent | None, context: Context, *, own: bool) -> TellwireError:
    """Why nobody speaks as the agent of a name."""
    if agent is not None and own and is_free(agent, context):
        return TellwireError(
            "forbidden",
            f"This program may have been started by an agent, so it may not act as {name!r}.",
            "Run it in a terminal, or use a name that is free.",
        )
    whose = "belongs to another agent" if agent is None else f"has a running client ({agent.kind})"
    return TellwireError("forbidden", f"{name!r} {whose}.", "Use another name.")


def apply_registered(state: State, event: AgentRegistered) -> None:
    agent = Agent(
        id=format_id("a", state.seq),
        name=event.name,
        kind=event.kind,
        session=event.session,
        group=event.group,
        process=event.process,
        owner=event.owner,
        capabilities=event.capabilities,
        metadata=event.metadata,
        connected_at=state.now,
    )
    state.agents[agent.id] = agent
    state.names[agent.name.lower()] = agent.id


def apply_session_started(state: State, event: SessionStarted) -> None:
    """Online again; what an earlier session held is pending again."""
    agent = state.agents[event.agent]
    if event.keeps:
        for seq in event.seen:  # they were offered on a connection that broke
            if seq in agent.leased:
                note_seen(agent.leased[seq], event.session)
    else:
        return_leases(state, agent, event.seen)
    before = state.agents.get(event.was)
    if before is not None:  # what it sent under the other name is still known as a repeat, and answered
        leave_name(state, before, agent.id)
        inherit_relations(state, before.id, agent.id)
        agent.requests = {**agent.requests, **before.requests}
        agent.request_floor_us = max(agent.request_floor_us, before.request_floor_us)
    agent.session = event.session
    agent.group = event.group
    agent.capabilities = event.capabilities
    agent.metadata = event.metadata
    if agent.owner != event.owner:
        _disown(state, agent)
    agent.process, agent.owner = event.process, event.owner
    child = state.children.get(agent.id)
    if child is not None and child.process:
        agent.owner = child.process  # all that was started speaks as the child, not its client only
    agent.online, agent.offline_reason, agent.connected_at = True, "", state.now


# -- changing and leaving -----------------------------------------------------------------------------


def decide_unregister(state: State, operation: UnregisterAgent, context: Context) -> Decision:
    """Leave, or (operator) make another leave."""
    agent = (
        caller_agent(state, context)
        if operation.name is None
        else find_agent(state, operation.name, here=REMOVING)
    )
    own = agent.id == context.caller.agent
    if operation.name is None and context.caller.kind == OPERATOR:
        return Decision(Done())  # one terminal of the person's is done
    if not own and context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may remove another agent.")
    check_stays(agent)
    if operation.forget and agent.id in state.children:
        raise TellwireError("conflict", f"{agent.name!r} is a running child.", "Stop it first.")
    events: list[AnyEvent] = []
    texts: list[str] = []
    shown = _shown(agent, operation, context)
    if agent.online or agent.offline_reason == "silent":
        events.append(AgentOffline(agent.id, "left", shown))
    if operation.forget:
        own_word = operation.shown is not None and context.caller.is_own_client and own
        expired = expire_all(state, agent, context, held=shown if own_word else None)
        events += [*expired.events, AgentForgotten(agent.id)]
        texts += expired.texts
    return Decision(Done(), events, texts)


def _shown(agent: Agent, operation: UnregisterAgent, context: Context) -> list[int]:
    """What the session that ends has shown: its own client knows, of another's all that it may have."""
    if operation.shown is None or not (context.caller.is_own_client and context.caller.agent == agent.id):
        return context.claimed(agent.id)
    seqs = {parse_id("m", text) for text in operation.shown}
    return [seq for seq in agent.leased if seq in seqs]


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
    """Mark a silent agent as online again: it sent something."""
    agent = state.agents.get(command.agent)
    silent = agent is not None and not agent.online and agent.offline_reason == "silent"
    return Decision(None, [AgentOnline(command.agent)]) if silent else Decision()


def apply_offline(state: State, event: AgentOffline) -> None:
    """Not reachable; at the end of a session its leases return."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    agent.online, agent.offline_reason = False, event.reason
    agent.gone_at, agent.gone_awake = state.now, state.awake
    if event.reason in ENDED:
        return_leases(state, agent, event.seen)
        if agent.id not in state.children:  # a child's process is the child until it is gone
            _disown(state, agent)
            agent.owner = ""


def _disown(state: State, agent: Agent) -> None:
    """Its process may live on without it; an agent that leaves does not become the operator."""
    if agent.owner:
        state.disowned.pop(agent.owner, None)
        state.disowned[agent.owner] = None
        forget_oldest(state.disowned, DISOWNED_KEPT)


def apply_online(state: State, event: AgentOnline) -> None:
    """Reachable again, in the same session."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.online, agent.offline_reason = True, ""


def decide_forget_absent(state: State, _command: ForgetAbsent, context: Context) -> Decision:
    """Drop agents that are long gone and have no mail; a clock that was set forward takes nobody away."""
    after_s = context.limits.forget_after_s
    gone = [
        AgentForgotten(agent.id)
        for agent in state.agents.values()
        if not agent.online
        and not agent.machine
        and agent.gone_at < context.now - after_s
        and agent.gone_awake < context.awake - after_s
        and not agent.pending
        and not agent.leased
        and agent.id not in state.children
        and agent.id not in state.children_of
    ]
    return Decision(None, list(gone))


def apply_forgotten(state: State, event: AgentForgotten) -> None:
    """Delete an agent and free its name."""
    forget_relations(state, event.agent)
    agent = state.agents.pop(event.agent, None)
    if agent is None:
        return
    if state.names.get(agent.name.lower()) == agent.id:
        del state.names[agent.name.lower()]
    if agent.machine and (machine := state.machines.get(agent.machine)) is not None:
        machine.agents.pop(agent.there, None)
    state.former = {name: bearer for name, bearer in state.former.items() if bearer != agent.id}
    forget_asker(state, agent.id)
    for topic in agent.topics:
        subscribers = state.topics.get(topic, {})
        subscribers.pop(agent.id, None)
        if not subscribers:
            state.topics.pop(topic, None)


def decide_start_broker(state: State, command: StartBroker, context: Context) -> Decision:
    """Start a new run of the broker: nobody but the operator is there yet."""
    began = begin_operator(state, context)
    return Decision(None, [BrokerStarted(command.version), *began.events], began.texts)


def apply_broker_started(state: State, _event: BrokerStarted) -> None:
    """Nobody is connected to a broker that has just started. Old leases wait for their session to report."""
    state.epoch = state.seq
    for machine in state.machines.values():
        machine.online = False  # until it is heard
    for agent in state.agents.values():
        if agent.online and not agent.machine:
            agent.online, agent.offline_reason = False, "restart"
            agent.gone_at, agent.gone_awake = state.now, state.awake
