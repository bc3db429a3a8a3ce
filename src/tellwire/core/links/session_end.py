"""What follows when a session ends: it leaves its links, and those who listen to it hear of it (SC-8, SC-9).

A session ends by its own word, with its connection, with its process, or when another session goes on under
its name. Mere silence is no end, nor is a restart of the broker: who comes back is still where it was. The
consequences stand before the end itself in the journal, in the same decision: there is no moment at which
anything could cross to a session that is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tellwire.core.context import Context, Decision
from tellwire.core.links.link_roster import ENDED
from tellwire.core.links.links import GONE, leave
from tellwire.core.links.listeners import tell
from tellwire.core.mail.notices import Post
from tellwire.core.state import Agent, State
from tellwire.protocol.events import AgentForgotten, AgentOffline, AnyEvent, MessageQueued, SessionStarted
from tellwire.protocol.events.links import ListenerRemoved

Decider: TypeAlias = Callable[[State, Any, Context], Decision]


def with_partings(decide: Decider) -> Decider:
    """A decider whose decisions bring along what their ends of sessions mean."""

    def decide_with_partings(state: State, command: Any, context: Context) -> Decision:
        decision = decide(state, command, context)
        if not any(_concerns(state, event) for event in decision.events):
            return decision
        post = Post(context)
        texts = iter(decision.texts)
        parted: set[str] = set()
        for event in decision.events:
            _follow(state, event, parted, post)
            if isinstance(event, MessageQueued):
                post.put(event, next(texts))
            else:
                post.add(event)
        return Decision(decision.reply, post.events, post.texts)

    return decide_with_partings


def _concerns(state: State, event: AnyEvent) -> bool:
    if not isinstance(event, AgentOffline | AgentForgotten | SessionStarted):
        return False
    agent = state.agents.get(event.agent)
    return agent is not None and bool(agent.links or agent.listeners or agent.listens)


def _follow(state: State, event: AnyEvent, parted: set[str], post: Post) -> None:
    if not isinstance(event, AgentOffline | AgentForgotten | SessionStarted):
        return
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    if agent.id not in parted and _ends(agent, event):
        parted.add(agent.id)
        for link_id in agent.links:
            leave(state, state.links[link_id], agent, post, why=GONE)
        again = " and began a new one" if isinstance(event, SessionStarted) else ""
        tell(state, agent, f"{agent.name} is gone: it ended its session{again}.", "gone", post)
    if isinstance(event, AgentForgotten):
        post.add(*(ListenerRemoved(agent.id, listener) for listener in agent.listeners))
        post.add(*(ListenerRemoved(other, agent.id) for other in agent.listens))


def _ends(agent: Agent, event: AgentOffline | AgentForgotten | SessionStarted) -> bool:
    """Whether a session that was not over yet ends with this."""
    if not agent.online and agent.offline_reason in ENDED:
        return False
    if isinstance(event, AgentOffline):
        return event.reason in ENDED
    return isinstance(event, AgentForgotten) or event.session != agent.session
