"""Answers of agents that were started for one question (F2-9).

The answer is the first of these that comes: a reply to the asker; of a program that is no client, any message
to the asker; what it finally says in a turn; what it has written when it ends with exit code 0. It is a
message like any other, durable before the asker hears of it (AUD-6), and read with that. The agent is told to
end in the same commit, and forgotten when its process is gone.
"""

from __future__ import annotations

from tellwire.core.agents.roster import SPEAKS_BY_COMMANDS
from tellwire.core.context import Context, Decision, NoteChildEnd
from tellwire.core.mail.notices import Post, notice, shortened, words_of
from tellwire.core.mail.receipts import expire_all
from tellwire.core.state import Agent, Child, State
from tellwire.protocol.events import AgentForgotten, AgentOffline, AnyEvent, MessageQueued, MessagesRead
from tellwire.protocol.events.children import ChildEnded, ChildFailed, ChildReported, ChildStopAsked
from tellwire.protocol.ids import parse_id

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
    """Put what it said into the post as the answer; False if nobody waits for one any more."""
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


def heirlooms(state: State, agent: Agent) -> list[str]:
    """The names of the children that an agent leaves to its parent; not of those it asked something."""
    left = [each for each, child in state.children.items() if child.parent == agent.id and not child.asked]
    return sorted(state.agents[each].name for each in left)


def _tell_heir(state: State, agent: Agent, child: Child, post: Post, context: Context) -> None:
    """Children that it leaves are the asker's, who knows nothing of them yet."""
    parent = state.agents.get(child.parent)
    if parent is not None and (below := heirlooms(state, agent)):
        names = ", ".join(below)
        text = f"{agent.name}, which you asked something, has ended. Its children are yours now: {names}."
        post.put(*notice(parent, text, context, "child_ended"))
