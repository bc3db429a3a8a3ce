"""What crosses a link, to whom, and when that has to end.

A thing said on a link goes as one message to all its other members. Each turn in which a member speaks there
costs one of the link's budget; to speak again before having heard anything new is the same turn. A person's
word — the operator's message, or a turn that a person started — makes the budget fresh. `hops` tells how
many turns, each started by the one before, led to a message, whatever links they went over. What a member
heard is dealt with when its turn ends, or, where its client reports no turns, when it speaks.
"""

from __future__ import annotations

import msgspec

from tellwire.core.context import Context
from tellwire.core.mail.drafts import digest_of
from tellwire.core.mail.notices import Post
from tellwire.core.mail.routing import Route, admit
from tellwire.core.state import Agent, Heard, Link, State
from tellwire.protocol.addresses import LINK, OPERATOR
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.links import LinkPaused
from tellwire.protocol.operations.messages import Outcome

HEARD_KEPT = 256
"""Of one agent. Not a setting: applying an event must not depend on one."""
WHY = {
    "turns": "{} turns went by without a person's word",
    "hops": "{} turns in a row each came of the one before",
    "nothing new": "the last turns added nothing",
}


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A text to be sent to the other members of a link."""

    body: str
    size: int
    ttl_s: float
    json: bool = False
    context: str = ""
    kind: str = "request"
    re: str = ""
    mode: str = ""
    key: str = ""
    turn: str = ""


class Reached(msgspec.Struct, frozen=True):
    """The members that have room for a message, and the outcome for each of them."""

    recipients: list[Agent]
    outcomes: list[Outcome]


def is_person(sender: Agent) -> bool:
    """Whether it is the person who runs all this: nobody else can bear that name."""
    return sender.name == OPERATOR


def others(state: State, link: Link, sender: Agent) -> list[Agent]:
    """The members that hear what the sender says; never itself (SC-4)."""
    return [state.agents[agent] for agent in link.here() if agent != sender.id and agent in state.agents]


def admit_members(
    state: State, link: Link, sender: Agent, size: int, context: Context, *, several: bool = True
) -> Reached:
    """Who has room for a message; a full inbox of one does not stop the rest.

    Raises:
        TellwireError: `mailbox_full`, unless it is for `several`.
    """
    found = Route(others(state, link, sender), several=several)
    return Reached(*admit(state, sender, found, size, context))


def fan_out(
    state: State, link: Link, sender: Agent, words: Words, reached: Reached, post: Post, *, human: bool
) -> None:
    """Queue the message for the members, and pause the link if this uses up its bounds."""
    said = link.said + 1
    to = f"{LINK}{link.id}/{said}"
    hops = 0 if human else hops_of(sender)
    event = MessageQueued(
        sender=sender.id,
        sender_name=sender.name,
        to=to,
        recipients=[agent.id for agent in reached.recipients],
        size=words.size,
        digest=digest_of(to, words.body),
        ttl_s=words.ttl_s,
        kind=words.kind,
        re=words.re,
        mode=words.mode,
        json=words.json,
        context=words.context,
        key=words.key,
        several=not link.direct,
        link=link.id,
        said=said,
        hops=hops,
        turn=words.turn,
    )
    post.put(event, words.body)
    if human:
        return
    member = link.members.get(sender.id)
    spent = link.turns + (member is not None and not member.spoke)
    if spent >= post.limits.link_turns_max:
        pause(state, link, "turns", post)
    elif hops >= post.limits.link_hops_max:
        pause(state, link, "hops", post)


def hops_of(sender: Agent) -> int:
    """How many turns led to what it says now, its own included."""
    given = [heard.hops for seq, heard in sender.heard.items() if seq not in sender.pending]
    return 1 + max(given, default=0)


def pause(state: State, link: Link, reason: str, post: Post) -> None:
    """Pause the link and notify members and operator; a paused link is not paused again."""
    bound = post.limits.link_turns_max if reason == "turns" else post.limits.link_hops_max
    text = (
        f"{LINK}{link.id} is paused: {WHY[reason].format(bound)}. Nothing crosses it now. "
        f'If there is more to do, resume_link("{link.id}") lets it go on; else close_link("{link.id}").'
    )
    post.add(LinkPaused(link.id, reason))
    post.tell_all(state, link.here(), text, "link_paused", operator=True)


# -- applying events -----------------------------------------------------------------------------------


def apply_fan_out(state: State, event: MessageQueued) -> None:
    """Something was said on a link: it counts, and its recipients have heard it."""
    link = state.links.get(event.link)
    if link is None:
        return
    link.said = event.said
    link.bare = ""
    member = link.members.get(event.sender)
    sender = state.agents.get(event.sender)
    if event.sender_name == OPERATOR:
        link.turns = 0
        forget_hops(state, link)
    elif member is not None:
        link.turns += not member.spoke
        member.spoke = True
        if event.turn:
            member.turn = event.turn
    if sender is not None and not sender.turns:
        _deal_with_heard(sender)
    for agent_id in event.recipients:
        if (hearer := link.members.get(agent_id)) is not None:
            hearer.spoke = False
        _hear(state.agents[agent_id], state.seq, Heard(link.id, event.hops))


def _hear(agent: Agent, seq: int, heard: Heard) -> None:
    agent.heard[seq] = heard
    if len(agent.heard) >= 2 * HEARD_KEPT:  # half at a time: taking one by one off a dict's front is slow
        agent.heard = dict(list(agent.heard.items())[-HEARD_KEPT:])


def _deal_with_heard(agent: Agent) -> None:
    agent.heard = {seq: heard for seq, heard in agent.heard.items() if seq in agent.pending}


def apply_turn_on_links(
    state: State, agent: Agent, turn: str, *, digest: str, bare: bool, human: bool
) -> None:
    """A turn is over: what was heard before is dealt with, and the next words are a new turn's."""
    for link_id in agent.links:
        link = state.links[link_id]
        member = link.members[agent.id]
        if member.turn == turn:
            member.words = digest
            link.bare = agent.id if bare else ""
        member.spoke = False
        if human:
            link.turns = 0
    _deal_with_heard(agent)


def forget_hops(state: State, link: Link) -> None:
    """Restart the count of chained turns on this link."""
    for agent_id in link.here():
        agent = state.agents.get(agent_id)
        for heard in agent.heard.values() if agent is not None else ():
            if heard.link == link.id:
                heard.hops = 0
