"""Listeners: who hears, once per turn, that another agent stopped, failed, waits, is gone or overdue (SC-9).

A listener is durable: it survives restarts and sessions of both, until it is taken back or one of
the two is forgotten. Each is notified by a message, durable before it is delivered. Between two agents with a
direct link there are no notices: there the answers themselves cross. A turn that was started by notices only
is not reported (AUD-7): otherwise two agents that listen to each other would never fall silent.
"""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent, find_visible
from tellwire.core.context import Context, Decision, TellOverdue
from tellwire.core.links.links import direct_link
from tellwire.core.mail.notices import Post, quoted
from tellwire.core.state import Agent, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.links import AgentOverdue, ListenerAdded, ListenerRemoved, TurnEnded
from tellwire.protocol.operations.listeners import Listen, Listening, Unlisten

BEGINNING_CHARS = 300
LISTENING = "agent listens across machines"
TOLD = -1.0
"""A value of `due`: the listeners were notified that it is overdue."""


def decide_listen(state: State, operation: Listen, context: Context) -> Decision:
    """Listen to an agent; if the caller does already, nothing changes."""
    me = caller_agent(state, context)
    agent, _ = find_visible(state, operation.agent, context, here=LISTENING)
    if agent.id in me.listens:
        return Decision(_listening(state, me.listens))
    event = begin_listening(me, agent, context)
    return Decision(_listening(state, {**me.listens, agent.id: None}), [event])


def begin_listening(me: Agent, agent: Agent, context: Context, *, waits: bool = False) -> ListenerAdded:
    """The fact that somebody listens.

    Raises:
        TellwireError: `bad_request` or `limit_exceeded`.
    """
    if agent is me:
        raise TellwireError("bad_request", "An agent cannot listen to itself.", "Name another agent.")
    if agent.machine:
        raise TellwireError("not_across_machines", f"{agent.name!r} is on another machine: no {LISTENING}.")
    bound = context.limits.listeners_max
    if agent.id not in me.listens and (len(agent.listeners) >= bound or len(me.listens) >= bound):
        raise TellwireError(
            "limit_exceeded", f"An agent has at most {bound} listeners, and listens to as many."
        )
    return ListenerAdded(agent.id, me.id, waits)


def decide_unlisten(state: State, operation: Unlisten, context: Context) -> Decision:
    """Stop listening; repeating it is harmless."""
    me = caller_agent(state, context)
    agent, _ = find_visible(state, operation.agent, context)
    rest = {each: None for each in me.listens if each != agent.id}
    return Decision(
        _listening(state, rest), [ListenerRemoved(agent.id, me.id)] if agent.id in me.listens else []
    )


def _listening(state: State, ids: dict[str, None]) -> Listening:
    return Listening(agents=sorted(state.agents[each].name for each in ids if each in state.agents))


# -- telling ------------------------------------------------------------------------------------------


def notify_turn(
    state: State, agent: Agent, event: TurnEnded, text: str, post: Post, *, hops: int = 0
) -> None:
    """How a turn ended, or that it waits; `hops` turns in a row led to it."""
    if not agent.listeners or event.checkpoint or is_caused_by_notices(agent, human=event.human):
        return
    said = f": {quoted(text, BEGINNING_CHARS)}" if text else ""
    how = {
        "ended": f"stopped{said or ' without a word'}",
        "errored": f"stopped with an error{said}",
        "interrupted": f"was interrupted{said}",
        "waiting": f"waits for its human{said}",
    }[event.outcome]
    text = f'{agent.name} {how}. get_session_data("{agent.name}") shows the rest.'
    notify_listeners(state, agent, text, "turn", post, hops=hops)


def is_caused_by_notices(agent: Agent, *, human: bool) -> bool:
    """Whether the turn had nothing but notices of the broker's own to begin with."""
    return not human and 0 < agent.handed == agent.noticed


def notify_listeners(state: State, agent: Agent, text: str, kind: str, post: Post, *, hops: int = 0) -> None:
    """Send a notice about an agent to all its listeners."""
    for listener_id in agent.listeners:
        listener = state.agents.get(listener_id)
        child = state.children.get(agent.id)
        if child is not None and child.listen and child.parent == listener_id:
            continue  # a parent gets reports of its child instead
        if listener is not None and direct_link(state, agent, listener_id) is None:
            post.tell(listener, text, kind, hops=hops)


def is_overdue(agent: Agent, awake: float, after_s: float) -> bool:
    """Whether its listeners have waited too long for the end of a turn."""
    return agent.due > 0 and awake - agent.due >= after_s


def decide_overdue(state: State, _command: TellOverdue, context: Context) -> Decision:
    """Tell of agents from which nothing was heard for too long; of each once, until a turn of it ends."""
    after_s = context.limits.overdue_after_s
    post = Post(context)
    for agent_id in state.listened:
        agent = state.agents[agent_id]
        if is_overdue(agent, state.awake, after_s):
            post.add(AgentOverdue(agent_id))
            told = f"{agent.name} has told of no end of a turn for {after_s / 60:.3g} min"
            text = f'{told}. get_session_data("{agent.name}") shows what it does.'
            notify_listeners(state, agent, text, "overdue", post)
    return Decision(None, post.events, post.texts)


# -- applying events -----------------------------------------------------------------------------------


def apply_added(state: State, event: ListenerAdded) -> None:
    agent, listener = state.agents.get(event.agent), state.agents.get(event.listener)
    if agent is None or listener is None:
        return
    agent.listeners[event.listener] = None
    listener.listens[event.agent] = None
    state.listened[event.agent] = None
    if event.waits and agent.due == 0.0:
        agent.due = state.awake


def apply_removed(state: State, event: ListenerRemoved) -> None:
    agent, listener = state.agents.get(event.agent), state.agents.get(event.listener)
    if listener is not None:
        listener.listens.pop(event.agent, None)
    if agent is not None:
        agent.listeners.pop(event.listener, None)
    if agent is None or not agent.listeners:
        state.listened.pop(event.agent, None)
        if agent is not None:
            agent.due = 0.0


def apply_overdue(state: State, event: AgentOverdue) -> None:
    """Stop the clock: the listeners were notified, and are not notified twice."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.due = TOLD
