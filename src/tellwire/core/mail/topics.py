"""Topics: who gets what is sent to `#topic`. Subscriptions outlive sessions."""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent
from tellwire.core.agents.visibility import sees
from tellwire.core.context import Context, Decision
from tellwire.core.state import State
from tellwire.protocol.addresses import parse_topic
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import TopicJoined, TopicLeft
from tellwire.protocol.operations.topics import (
    ListTopics,
    Subscribe,
    TopicList,
    TopicRecord,
    Topics,
    Unsubscribe,
)


def decide_list_topics(state: State, _operation: ListTopics, context: Context) -> Decision:
    """Topics with subscribers that the caller sees."""
    me = state.agents.get(context.caller.agent)
    found: list[TopicRecord] = []
    for topic, members in sorted(state.topics.items()):
        agents = [state.agents[member] for member in members if member in state.agents]
        names = [agent.name for agent in agents if agent is me or sees(state, me, agent)]
        if names:
            found.append(TopicRecord(topic=f"#{topic}", subscribers=sorted(names, key=str.lower)))
    return Decision(TopicList(topics=found))


def decide_subscribe(state: State, operation: Subscribe, context: Context) -> Decision:
    """Join a topic; again is harmless."""
    agent = caller_agent(state, context)
    topic = parse_topic(operation.topic).lower()
    if topic in agent.topics:
        return Decision(_topics([*agent.topics]))
    if len(agent.topics) >= context.limits.topics_max:
        raise TellwireError("limit_exceeded", f"More than {context.limits.topics_max} subscriptions.")
    return Decision(_topics([*agent.topics, topic]), [TopicJoined(agent.id, topic)])


def decide_unsubscribe(state: State, operation: Unsubscribe, context: Context) -> Decision:
    """Leave a topic; again is harmless."""
    agent = caller_agent(state, context)
    topic = parse_topic(operation.topic).lower()
    rest = _topics([other for other in agent.topics if other != topic])
    return Decision(rest, [TopicLeft(agent.id, topic)] if topic in agent.topics else [])


def apply_topic_joined(state: State, event: TopicJoined) -> None:
    """Add a subscription."""
    state.agents[event.agent].topics[event.topic] = None
    state.topics.setdefault(event.topic, {})[event.agent] = None


def apply_topic_left(state: State, event: TopicLeft) -> None:
    """Remove a subscription."""
    state.agents[event.agent].topics.pop(event.topic, None)
    subscribers = state.topics.get(event.topic, {})
    subscribers.pop(event.agent, None)
    if not subscribers:
        state.topics.pop(event.topic, None)


def _topics(names: list[str]) -> Topics:
    return Topics(topics=[f"#{name}" for name in sorted(names)])
