"""Turns: what an agent's client reports when its model has finally spoken, failed, or waits for a person.

What an agent finally says in a turn crosses the links it is in (SC-5): those on which it had heard something
it deals with in this turn; or, if there was nothing of the kind or a person started the turn, all of them
but those of which it wants to share answers only. Nothing crosses of an empty, interrupted or failed turn or
of a checkpoint (SC-6). A turn that adds nothing pauses the link instead: the same words as in the member's
turn before, or a bare acknowledgement right after another member's.
"""

from __future__ import annotations

import re

from tellwire.core.agents.roster import caller_agent, find_agent
from tellwire.core.children.reports import report_turn
from tellwire.core.context import Context, Decision, ReportTurn
from tellwire.core.links.chains import end_chain, hops_of
from tellwire.core.links.fanout import Words, admit_members, apply_turn_on_links, fan_out, pause
from tellwire.core.links.links import resume
from tellwire.core.links.listeners import notify_turn
from tellwire.core.mail.drafts import digest_of
from tellwire.core.mail.notices import Post, shortened
from tellwire.core.state import Agent, Link, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.links import CheckpointMarked, TurnEnded
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import AGENT
from tellwire.protocol.operations.listeners import MarkCheckpoint

TURNS_KEPT = 16
"""Remembered turns of one agent: a client's hooks may tell of the same one more than once."""


def decide_report(state: State, command: ReportTurn, context: Context) -> Decision:
    """Record how a turn ended, once, and notify those whom it concerns."""
    agent = state.agents.get(command.agent)
    if agent is None or agent.session != command.session or not _is_new(agent, command, context):
        return Decision(Done())
    data = command.text.strip().encode(errors="replace")  # a client's file may hold half a surrogate pair
    text = data.decode()
    checkpoint = command.checkpoint or agent.checkpoint == 1
    event = TurnEnded(
        agent=agent.id,
        turn=command.turn,
        outcome=command.outcome,
        size=len(data),
        digest=digest_of("", text) if data else "",
        human=command.human and not checkpoint,
        checkpoint=checkpoint,
        bare=bool(data) and is_acknowledgement(text),
    )
    post = Post(context)
    if agent.links and command.outcome != "waiting":
        for link_id in agent.links:
            _on_link(state, state.links[link_id], agent, event, text, context, post)
    post.add(event)
    hops = 0 if event.human else hops_of(agent, context)
    notify_turn(state, agent, event, text, post, hops=hops)
    if (child := state.children.get(agent.id)) is not None:
        # An agent that was asked one question is gone when the answer is read.
        body = shortened(text, context.limits.body_bytes_max, "" if child.asked else agent.name)
        report_turn(state, agent, event, body, post, context, hops=hops, is_last=command.is_last)
    return Decision(Done(), post.events, post.texts)


def _is_new(agent: Agent, command: ReportTurn, context: Context) -> bool:
    known = 0 < len(command.turn) <= context.limits.text_length_max
    return known and _mark(command.turn, command.outcome) not in agent.turns


def _mark(turn: str, outcome: str) -> str:
    """The entry of a turn among those known; that it waits for a person is known separately."""
    return f"{turn} waits" if outcome == "waiting" else turn


def _on_link(
    state: State, link: Link, agent: Agent, event: TurnEnded, text: str, context: Context, post: Post
) -> None:
    if event.human and link.status == "paused":
        resume(state, link, agent.id, post)
    elif link.status != "active":
        return
    if (
        event.outcome != "ended"
        or event.checkpoint
        or not text
        or not _crosses(link, agent, human=event.human)
    ):
        return
    if not event.human and _adds_nothing(link, agent, event):
        pause(state, link, "nothing new", post)
        return
    limits = context.limits
    body = shortened(text, limits.body_bytes_max, agent.name)
    size = len(body.encode())
    reached = admit_members(state, link, agent, size, context)
    if reached.recipients:
        words = Words(body=body, size=size, ttl_s=limits.ttl_s, kind="notification", turn=event.turn)
        fan_out(state, link, agent, words, reached, post, human=event.human)


def _crosses(link: Link, agent: Agent, *, human: bool) -> bool:
    heard = {heard.link for seq, heard in agent.heard.items() if seq not in agent.pending}
    if link.id in heard:
        return True
    return link.members[agent.id].share == "all" and (human or not heard)


def _adds_nothing(link: Link, agent: Agent, event: TurnEnded) -> bool:
    return link.members[agent.id].words == event.digest or (event.bare and link.bare not in ("", agent.id))


def apply_turn_ended(state: State, event: TurnEnded) -> None:
    """Remember the turn, so that a repeated report changes nothing, and start counting for the next one."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    agent.turns = [*agent.turns, _mark(event.turn, event.outcome)][-TURNS_KEPT:]
    agent.due = 0.0
    if event.outcome == "waiting":
        return
    agent.handed = agent.noticed = 0
    end_chain(agent, event.outcome)
    agent.checkpoint = max(0, agent.checkpoint - 1)
    apply_turn_on_links(state, agent, event.turn, digest=event.digest, bare=event.bare, human=event.human)


# -- checkpoints --------------------------------------------------------------------------------------


def decide_checkpoint(state: State, operation: MarkCheckpoint, context: Context) -> Decision:
    """Mark the next turn as a checkpoint; if one is marked, nothing changes."""
    agent = caller_agent(state, context) if operation.name is None else find_agent(state, operation.name)
    if context.caller.kind == AGENT and agent.id != context.caller.agent:
        raise TellwireError("forbidden", "An agent can mark only its own checkpoints.")
    busy = context.activity(agent.id) == "busy"
    return Decision(Done(), [] if agent.checkpoint else [CheckpointMarked(agent.id, busy)])


def apply_checkpoint(state: State, event: CheckpointMarked) -> None:
    """Remember which turn is the checkpoint: the next one, or the one after the turn that runs."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.checkpoint = 2 if event.busy else 1


# -- acknowledgements ---------------------------------------------------------------------------------
# A text is one if it is made of nothing but the phrases below, eight words at most, whatever its case and
# punctuation; or if it has no words at all, such as a thumb. Only turns on a link are judged by it, and only
# when two members do it one after the other.

WORDS_MAX = 8

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_PHRASES = """
    ack|acknowledged|agreed|all clear|all good|all right|alright|awesome|bye|cheers|confirmed|cool|copy that|
    correct|done|exactly|excellent|fine|good|goodbye|got it|great|k|likewise|much appreciated|my pleasure|
    nice|no problem|no worries|noted|ok|okay|perfect|received|right|roger|see you|sounds good|sounds great|
    standing by|sure|sure thing|thank you|thank you so much|thank you very much|thanks|thanks a lot|
    thanks again|thanks so much|that's fine|that's good|that's great|that's perfect|understood|very good|
    will do|wonderful|yep|yes|you're welcome
"""
_BARE = re.compile(f"(?:(?:{'|'.join(each.strip() for each in _PHRASES.split('|'))}) )*")


def is_acknowledgement(text: str) -> bool:
    """Whether a text is only an acknowledgement."""
    words = _WORD.findall(text.casefold().replace("\u2019", "'"))
    return len(words) <= WORDS_MAX and _BARE.fullmatch("".join(f"{word} " for word in words)) is not None
