"""Reports: what a parent hears of its child's turns, once for each, and whether or not it is there (AUD-4).

What a child finally said comes to the parent under the child's name, whole, so that it is framed as the words
of an agent; that a turn failed or waits is a notice of ours. Both count as notices: a turn of the parent that
nothing else has started does not report further up (AUD-7). Words that crossed the direct link of the two are
not told again. If even the reserve of the parent's inbox is full, the parent hears where the words are as
soon as it has room.
"""

from __future__ import annotations

from tellwire.core.children.answers import answer_with
from tellwire.core.context import Context, Decision
from tellwire.core.links.chains import is_over
from tellwire.core.links.link_roster import direct_link
from tellwire.core.links.listeners import is_caused_by_notices
from tellwire.core.mail.notices import WEIGHTS, Post, notice, quoted, words_of
from tellwire.core.state import Agent, Child, Link, State
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.children import ChildReported, ChildUnheard
from tellwire.protocol.events.links import LinkPaused, TurnEnded

QUOTED_CHARS = 300
FAILED = {
    "ended": "ended a turn without a word",
    "errored": "stopped with an error",
    "interrupted": "was interrupted",
    "waiting": "waits for its human",
}


def listening_parent(state: State, agent: Agent) -> str:
    """The parent that hears of every turn of its child; empty if there is none."""
    child = state.children.get(agent.id)
    return child.parent if child is not None and child.listen else ""


def report_turn(
    state: State, agent: Agent, event: TurnEnded, text: str, post: Post, context: Context, *, hops: int = 0
) -> None:
    """Tell the parent how a turn of its child ended; `hops` turns in a row led to it."""
    child = state.children[agent.id]
    if child.asked:
        if event.outcome == "ended" and not event.checkpoint:
            answer_with(state, agent, child, text, post, event.turn)
        return
    link = direct_link(state, agent, child.parent)
    if link is not None and _is_link_matter(state, link, agent, child.parent, event, post):
        return
    parent = state.agents.get(listening_parent(state, agent))
    if child.status == "stopping" and (event.outcome != "ended" or not text):
        return  # its end is told anyway, once
    if parent is None or event.checkpoint or is_caused_by_notices(agent, human=event.human):
        return
    if event.outcome == "ended" and text:
        held = is_over(hops, [parent], context)
        message = words_of(
            agent,
            parent,
            text,
            kind="notification",
            ttl_s=context.limits.ttl_s_max,
            turn=event.turn,
            hops=hops,
            weak=held or not WEIGHTS["child_turn"].wakes,
        )
    else:
        said = f": {quoted(text, QUOTED_CHARS)}" if text else ""
        words = f"Your child {agent.name} {FAILED[event.outcome]}{said}."
        message, text = notice(parent, words, context, "child_turn", hops=hops)
    if not post.has_room(parent, message.size, "child_turn"):
        post.add(ChildUnheard(agent.id, event.turn))
        return
    seq = state.seq + len(post.events) + 1
    post.put(message, text)
    if event.outcome == "ended":
        post.add(ChildReported(agent.id, seq))


def _is_link_matter(
    state: State, link: Link, agent: Agent, parent: str, event: TurnEnded, post: Post
) -> bool:
    """Whether the direct link of parent and child dealt with this turn; what crossed is its result."""
    for index, each in enumerate(post.events, 1):
        if isinstance(each, MessageQueued) and each.link == link.id and parent in each.recipients:
            post.add(ChildReported(agent.id, state.seq + index))
            return True
        if isinstance(each, LinkPaused) and each.link == link.id:
            return True  # the turn added nothing
    return event.outcome == "ended" and not event.size


def tell_unheard(state: State, agent: Agent, child: Child, context: Context) -> Decision | None:
    """Tell a parent that has room again where the words are for which it had none."""
    parent = state.agents.get(child.parent)
    if parent is None or not child.unheard:
        return None
    post = Post(context)
    text = f"Your child {agent.name} told of turns while your inbox was full. {where_it_is(agent)}"
    if not post.has_room(parent, len(text.encode()), "child_turn"):
        return None
    post.tell(parent, text, "child_turn")
    post.add(ChildReported(agent.id, state.seq + 1))
    return Decision(None, post.events, post.texts)


def where_it_is(agent: Agent) -> str:
    """How a parent gets at words that found no room in its inbox."""
    return f'get_session_data("{agent.name}") shows what it said.'
