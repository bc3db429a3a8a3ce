"""What follows when a session ends: it leaves its links, and those who listen to it hear of it (SC-8, SC-9).

A session ends when it says so, with its connection or its process, or when another session continues under
its name. Silence is no end, nor is a restart of the broker: a session that comes back is still a member. In
the journal the consequences come before the end itself, in the same decision: there is no moment at which
anything could be sent to a session that is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tellwire.core.context import Context, Decision
from tellwire.core.links.links import ENDED, GONE, leave
from tellwire.core.links.listeners import notify_listeners
from tellwire.core.mail.notices import Post
from tellwire.core.state import Agent, State
from tellwire.protocol.events import AgentForgotten, AgentOffline, AnyEvent, MessageQueued, SessionStarted
from tellwire.protocol.events.links import ListenerRemoved

Decider: TypeAlias = Callable[[State, Any, Context], Decision]


def with_session_end(decide: Decider) -> Decider:
    """Wrap a decider: where its events end a session, add what follows from that."""

    def decide_with_session_end(state: State, command: Any, context: Context) -> Decision:
        decision = decide(state, command, context)
        if not any(_concerns(state, event) for event in decision.events):
            return decision
        post = Post(context)
        texts = iter(decision.texts)
        ended: set[str] = set()
        for event in decision.events:
            _add_consequences(state, event, ended, post)
            if isinstance(event, MessageQueued):
                post.put(event, next(texts))
            else:
                post.add(event)
        return Decision(decision.reply, post.events, post.texts)

    return decide_with_session_end


def _concerns(state: State, event: AnyEvent) -> bool:
    if not isinstance(event, AgentOffline | AgentForgotten | SessionStarted):
        return False
    agent = state.agents.get(event.agent)
    return agent is not None and bool(agent.links or agent.listeners or agent.listens)


def _add_consequences(state: State, event: AnyEvent, ended: set[str], post: Post) -> None:
    """Put before an event what it means for links and listeners, once for each session."""
    if not isinstance(event, AgentOffline | AgentForgotten | SessionStarted):
        return
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    if agent.id not in ended and _ends(agent, event):
        ended.add(agent.id)
        for link_id in agent.links:
            leave(state, state.links[link_id], agent, post, why=GONE)
        again = " and began a new one" if isinstance(event, SessionStarted) else ""
        notify_listeners(state, agent, f"{agent.name} is gone: it ended its session{again}.", "gone", post)
    if isinstance(event, AgentForgotten):
        post.add(*(ListenerRemoved(agent.id, listener) for listener in agent.listeners))
        post.add(*(ListenerRemoved(other, agent.id) for other in agent.listens))


def _ends(agent: Agent, event: AgentOffline | AgentForgotten | SessionStarted) -> bool:
    """Whether this event ends a session that was not over yet."""
    if not agent.online and agent.offline_reason in ENDED:
        return False
    if isinstance(event, AgentOffline):
        return event.reason in ENDED
    return isinstance(event, AgentForgotten) or event.session != agent.session
