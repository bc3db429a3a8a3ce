"""Reports: what a parent hears of its child's turns, once for each, and whether or not it is there (AUD-4).

What a child finally said comes to the parent under the child's name, whole, so that it is framed as the words
of an agent; that a turn failed or waits is a notice of ours. Both count as notices: a turn of the parent that
nothing else has started does not report further up (AUD-7). With a direct link between the two, the words
cross there and are not told again.
"""

from __future__ import annotations

from palaver.core.answers import answer_with
from palaver.core.context import Context
from palaver.core.link_roster import direct_link
from palaver.core.listeners import is_caused_by_notices
from palaver.core.notices import WEIGHTS, Post, notice, quoted, words_of
from palaver.core.room import has_room
from palaver.core.state import Agent, State
from palaver.protocol.conversations import TurnEnded
from palaver.protocol.lineage import ChildReported

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
    state: State, agent: Agent, event: TurnEnded, text: str, post: Post, context: Context
) -> None:
    """Tell the parent how a turn of its child ended."""
    child = state.children[agent.id]
    if child.asked:
        if event.outcome == "ended" and not event.checkpoint:
            answer_with(state, agent, child, text, post, event.turn)
        return
    parent = state.agents.get(listening_parent(state, agent))
    if child.status == "stopping" and (event.outcome != "ended" or not text):
        return  # its end is told anyway, once
    if parent is None or event.checkpoint or is_caused_by_notices(agent, human=event.human):
        return
    if direct_link(state, agent, parent.id) is not None:
        return
    if event.outcome == "ended" and text:
        weak, ttl_s = not WEIGHTS["child_turn"].wakes, context.limits.ttl_s_max
        message = words_of(agent, parent, text, kind="notification", ttl_s=ttl_s, turn=event.turn, weak=weak)
    else:
        said = f": {quoted(text, QUOTED_CHARS)}" if text else ""
        words = f"Your child {agent.name} {FAILED[event.outcome]}{said}."
        message, text = notice(parent, words, context, "child_turn")
    if not has_room(parent, message.size, context.limits):
        return
    seq = state.seq + len(post.events) + 1
    post.put(message, text)
    if event.outcome == "ended":
        post.add(ChildReported(agent.id, seq))
