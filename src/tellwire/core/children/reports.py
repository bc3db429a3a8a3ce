"""Reports: what a parent hears of its child's turns, once for each, and whether or not it is there (AUD-4).

What a child finally said comes to the parent under the child's name, whole, so that it is framed as the words
of an agent; that a turn failed or waits is a notice of ours. Both count as notices: a turn of the parent that
nothing else has started does not report further up (AUD-7). Words that crossed the direct link of the two are
not told again. If even the reserve of the parent's inbox is full, the parent hears where the words are as
soon as it has room.
"""

from __future__ import annotations

from tellwire.core.agents.roster import SPEAKS_BY_COMMANDS
from tellwire.core.context import Context, Decision, NoteChildEnd
from tellwire.core.links.chains import is_over
from tellwire.core.links.links import direct_link
from tellwire.core.links.listeners import is_caused_by_notices
from tellwire.core.mail.notices import WEIGHTS, Post, notice, quoted, shortened, words_of
from tellwire.core.mail.receipts import expire_all
from tellwire.core.state import Agent, Child, Link, State
from tellwire.protocol.events import AgentForgotten, AgentOffline, AnyEvent, MessageQueued, MessagesRead
from tellwire.protocol.events.children import (
    ChildEnded,
    ChildFailed,
    ChildReported,
    ChildStopAsked,
    ChildUnheard,
)
from tellwire.protocol.events.links import LinkPaused, TurnEnded
from tellwire.protocol.ids import parse_id

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
    state: State,
    agent: Agent,
    event: TurnEnded,
    text: str,
    post: Post,
    context: Context,
    *,
    hops: int = 0,
    is_last: bool = False,
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
    if (is_last or child.status == "stopping") and (event.outcome != "ended" or not text):
        return  # its end is reported anyway, once
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
    """Tell a parent whose inbox has room again where to find the result that did not fit."""
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
    """How a parent can read a result that did not fit into its inbox."""
    return f'get_session_data("{agent.name}") shows what it said.'


# -- answers ------------------------------------------------------------------------------------------
# What an agent that was started for one question (F2-9) answers is the first of these that comes: a reply to
# the asker; of a program that is no client, any message to the asker; what it finally says in a turn; what it
# has written when it ends with exit code 0. It is a message like any other, durable before the asker hears of
# it (AUD-6), and read with that. The agent is asked to end in the same commit, and forgotten when its process
# is gone.

EVIDENCE = "answer"
"""Of an answer's receipt: it was the result of the question."""
OUTPUT_CHARS_MAX = 4_000
"""Of what a child that did not come up said itself."""
NO_ANSWER = "It ended without an answer."


def settle_sent(
    state: State, sender: Agent, event: MessageQueued, seq: int, context: Context
) -> list[AnyEvent]:
    """What follows if a message that an agent sends answers what it was started for."""
    return _settle(state, sender, seq) if answers(state, sender, event.recipients, event.re, context) else []


def answers(state: State, sender: Agent, recipients: list[str], re: str, context: Context) -> bool:
    """Whether a message is the answer for which its sender was started."""
    child = state.children.get(sender.id)
    if child is None or not child.asked or child.result or recipients != [child.parent]:
        return False
    asked = context.header(parse_id("m", re) or 0) if re else None
    is_reply = asked is not None and asked.sender == child.parent
    return is_reply or sender.kind in SPEAKS_BY_COMMANDS


def _settle(state: State, agent: Agent, seq: int) -> list[AnyEvent]:
    """What follows when message `seq` is the answer."""
    parent = state.children[agent.id].parent
    return [
        MessagesRead(parent, [seq], EVIDENCE),
        ChildReported(agent.id, seq),
        ChildStopAsked(agent.id, EVIDENCE),
    ]


def answer_with(state: State, agent: Agent, child: Child, text: str, post: Post, turn: str = "") -> bool:
    """Send what it said as the answer; False if nobody waits for one any more."""
    parent = state.agents.get(child.parent)
    if parent is None or child.result or not text:
        return False
    text = shortened(text, post.limits.body_bytes_max)
    message = words_of(agent, parent, text, kind="response", ttl_s=post.limits.ttl_s, turn=turn)
    seq = state.seq + len(post.events) + 1
    post.put(message, text)
    post.add(*_settle(state, agent, seq))
    return True


def end_asked(state: State, agent: Agent, child: Child, command: NoteChildEnd, context: Context) -> Decision:
    """Its process is gone, and so is the agent; what it wrote is its answer if nothing else was."""
    post = Post(context)
    text = command.result.strip()
    answers = command.code == 0 and child.status != "stopping"
    answered = child.result > 0 or (answers and answer_with(state, agent, child, text, post))
    if agent.online or agent.offline_reason in ("silent", "restart"):
        post.add(AgentOffline(agent.id, "disconnected", context.claimed(agent.id)))
    if child.task and not answered:
        post.add(ChildFailed(agent.id, NO_ANSWER, text[-OUTPUT_CHARS_MAX:]))
    else:
        post.add(ChildEnded(agent.id, command.how))
        _tell_heir(state, agent, child, post, context)
    expired = expire_all(state, agent, context, untold=child.parent)
    texts = iter(expired.texts)
    for event in expired.events:
        if isinstance(event, MessageQueued):
            post.put(event, next(texts))
        else:
            post.add(event)
    post.add(AgentForgotten(agent.id))
    return Decision(None, post.events, post.texts)


def children_left(state: State, agent: Agent) -> list[str]:
    """The names of the children that an agent leaves to its parent; not of those it asked something."""
    left = [each for each, child in state.children.items() if child.parent == agent.id and not child.asked]
    return sorted(state.agents[each].name for each in left)


def _tell_heir(state: State, agent: Agent, child: Child, post: Post, context: Context) -> None:
    """Children that it leaves are the asker's, who knows nothing of them yet."""
    parent = state.agents.get(child.parent)
    if parent is not None and (below := children_left(state, agent)):
        names = ", ".join(below)
        text = f"{agent.name}, which you asked something, has ended. Its children are yours now: {names}."
        post.put(*notice(parent, text, context, "child_ended"))
