"""Links: conversations that agents share. Opening, joining, leaving, closing, resuming, listing; and who may.

A link belongs to its members: any of them may bring another in, leave, resume it or close it for all. The
operator and scripts may do the same from outside. An agent that is not in a link learns nothing of it.
"""

from __future__ import annotations

from msgspec.structs import replace

from tellwire.core.agents.roster import caller_agent, find_visible
from tellwire.core.context import Context, Decision
from tellwire.core.links.fanout import Words, admit_members, fan_out, forget_hops, is_person
from tellwire.core.mail.drafts import size_of
from tellwire.core.mail.notices import Post, harmless
from tellwire.core.state import Agent, Link, Member, State
from tellwire.protocol.addresses import LINK, parse_link, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.links import (
    LinkClosed,
    LinkJoined,
    LinkLeft,
    LinkOpened,
    LinkPaused,
    LinkResumed,
    NewMember,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.base import AGENT
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkList,
    LinkRecord,
    ListLinks,
    Made,
    MemberRecord,
    OpenLink,
    ResumeLink,
)

CLOSED_KEPT = 1_000
"""Closed links that are still known, at least. Not a setting: applying an event must not depend on one."""
ROLE_LENGTH_MAX = 64
GONE = "is gone"
LINKS = "link joins agents of two machines"
"""Why a member left that ended its session."""


# -- opening ------------------------------------------------------------------------------------------


def decide_open(state: State, operation: OpenLink, context: Context) -> Decision:
    """Open a link, or find the one that two agents have already."""
    limits = context.limits
    if len(operation.members) > limits.link_members_max:
        raise TellwireError("limit_exceeded", f"A link has at most {limits.link_members_max} members.")
    me = state.agents.get(context.caller.agent)
    if me is not None and is_person(me):
        me = None  # a command of the operator's: it is over before anything is said
    members = [] if me is None else [me]
    for name in operation.members:
        agent, _ = find_visible(state, name, context, here=LINKS)
        if agent is me:
            raise TellwireError("bad_request", "You are a member anyway.", "Name only the others.")
        if agent not in members:
            members.append(agent)
    if len(members) < 2:
        raise TellwireError("bad_request", "A link needs at least two members.", "Name the others.")
    if len(members) > limits.link_members_max:
        raise TellwireError("limit_exceeded", f"A link has at most {limits.link_members_max} members.")
    roles = {name.lower(): _role(role) for name, role in operation.roles.items()}
    if unknown := roles.keys() - {agent.name.lower() for agent in members}:
        raise TellwireError(
            "bad_request", f"A role was given for {shorten(min(unknown))}, which is not a member."
        )
    if len(members) == 2 and (known := direct_link(state, members[0], members[1].id)) is not None:
        return Decision(record_of(known, context, "reused"))
    shares = {me.id: operation.share} if me is not None else {}
    seats = [
        NewMember(
            agent.id, agent.name, number, roles.get(agent.name.lower(), ""), shares.get(agent.id, "all")
        )
        for number, agent in enumerate(members, 1)
    ]
    post = Post(context)
    link = open_link(state, members, seats, context, post)
    who = "" if me is None else me.id
    names = ", ".join(f"{seat.name} ({seat.role})" if seat.role else seat.name for seat in seats)
    text = (
        f"{LINK}{link.id} is open: {names}. What a member finally says in a turn goes to the others; "
        f'agent_send(to="{LINK}{link.id}") says more, close_link("{link.id}") ends it.'
    )
    post.tell_all(state, [seat.agent for seat in seats if seat.agent != who], text, "link_opened")
    return Decision(record_of(link, context, "created"), post.events, post.texts)


def open_link(
    state: State, members: list[Agent], seats: list[NewMember], context: Context, post: Post
) -> Link:
    """Add the event that opens the link; returns the link as it will be.

    Raises:
        TellwireError: `agent_gone` or `limit_exceeded`.
    """
    for agent in members:
        check_present(agent)
        _check_count(agent, context)
    opener = context.caller.agent or context.caller.kind
    event = LinkOpened(seats, direct=len(seats) == 2, opener=opener)
    post.add(event)
    return _link_of(event, state.seq + 1, context.now)


def _check_count(agent: Agent, context: Context) -> None:
    if len(agent.links) >= context.limits.links_max:
        raise TellwireError("limit_exceeded", f"{agent.name!r} is already in {len(agent.links)} links.")


def _role(role: str) -> str:
    if len(role) > ROLE_LENGTH_MAX:
        raise TellwireError("limit_exceeded", f"A role is longer than {ROLE_LENGTH_MAX} characters.")
    return harmless(role)


# -- members ------------------------------------------------------------------------------------------


def decide_add(state: State, operation: AddMember, context: Context) -> Decision:
    """Add an agent to a link, and notify all members."""
    link = live_link(state, operation.link)
    check_member(state, link, context)
    agent, _ = find_visible(state, operation.name, context, here=LINKS)
    if agent.id in link.here():
        return Decision(record_of(link, context))
    check_present(agent)
    _check_count(agent, context)
    here = link.here()
    if len(here) >= context.limits.link_members_max:
        raise TellwireError("limit_exceeded", f"{LINK}{link.id} already has {len(here)} members.")
    before = link.members.get(agent.id)
    number = len(link.members) + 1 if before is None else before.number
    seat = NewMember(agent.id, agent.name, number, _role(operation.role), operation.share)
    post = Post(context)
    post.add(LinkJoined(link.id, seat, context.caller.agent or context.caller.kind))
    names = ", ".join(state.agents[each].name for each in here)
    post.tell_all(state, here, f"{agent.name} joined {LINK}{link.id}.", "link_joined")
    text = f"You are in {LINK}{link.id} with {names}. What you finally say in a turn goes to them."
    post.tell(agent, text, "link_joined")
    members = {**link.members, agent.id: _member_of(seat, context.now)}
    changed = replace(link, members=members, direct=False)
    return Decision(record_of(changed, context), post.events, post.texts)


def decide_leave(state: State, operation: LeaveLink, context: Context) -> Decision:
    """Leave a link, or remove another member from it."""
    link = live_link(state, operation.link)
    if operation.name is None:
        agent = caller_agent(state, context)
    else:
        agent, _ = find_visible(state, operation.name, context)
        if context.caller.kind == AGENT and agent.id != context.caller.agent:
            raise TellwireError("forbidden", "An agent can remove only itself from a link.")
    if agent.id not in link.here():
        raise TellwireError("forbidden", f"{agent.name!r} is not in {LINK}{link.id}.", "See list_links.")
    post = Post(context)
    leave(state, link, agent, post, why="left")
    return Decision(Done(), post.events, post.texts)


def leave(state: State, link: Link, agent: Agent, post: Post, *, why: str) -> None:
    """Out of the link; a direct one ends with that, another when only one is left (SC-8)."""
    rest = [each for each in link.here() if each != agent.id]
    post.add(LinkLeft(link.id, agent.id, why))
    if link.direct or len(rest) < 2:
        reason = f"{agent.name} {why}"
        post.add(LinkClosed(link.id, agent.id, reason))
        kind = "link_lost" if why == GONE else "link_closed"
        post.tell_all(state, rest, f"{LINK}{link.id} is closed: {reason}.", kind)
    else:
        text = f"{agent.name} {why}: {LINK}{link.id} goes on with {len(rest)} members."
        post.tell_all(state, rest, text, "link_left")


# -- ending, pausing ----------------------------------------------------------------------------------


def decide_close(state: State, operation: CloseLink, context: Context) -> Decision:
    """End it for all (SC-7), after a last word if there is one."""
    link = _link_to_close(state, operation, context)
    check_member(state, link, context)
    post = Post(context)
    said = link.said
    if operation.message is not None:
        sender = caller_agent(state, context)
        size = size_of(operation.message, context.limits.body_bytes_max, "message")
        words = Words(body=operation.message, size=size, ttl_s=context.limits.ttl_s)
        reached = admit_members(state, link, sender, size, context)
        if reached.recipients:
            fan_out(state, link, sender, words, reached, post, human=True)
            said += 1
    who = state.agents.get(context.caller.agent)
    by = context.caller.kind if who is None else who.name
    post.add(LinkClosed(link.id, context.caller.agent or context.caller.kind, f"{by} closed it"))
    rest = [agent for agent in link.here() if agent != context.caller.agent]
    post.tell_all(state, rest, f"{LINK}{link.id} is closed: {by} closed it.", "link_closed")
    closed = replace(link, status="closed", reason=f"{by} closed it", closed_at=context.now, said=said)
    return Decision(record_of(closed, context), post.events, post.texts)


def _link_to_close(state: State, operation: CloseLink, context: Context) -> Link:
    """The one that is meant; never another one instead."""
    if (operation.link is None) == (operation.peer is None):
        raise TellwireError("bad_request", "Name either the `link` or the `peer`.", "See list_links.")
    if operation.link is not None:
        return live_link(state, operation.link)
    me = caller_agent(state, context)
    peer, _ = find_visible(state, operation.peer or "", context)
    link = direct_link(state, me, peer.id)
    if link is None:
        raise TellwireError("unknown_link", f"You have no direct link with {peer.name!r}.")
    return link


def decide_resume(state: State, operation: ResumeLink, context: Context) -> Decision:
    """Resume a link; repeating it is harmless."""
    link = live_link(state, operation.link)
    check_member(state, link, context)
    if link.status != "paused":
        return Decision(record_of(link, context))
    post = Post(context)
    resume(state, link, context.caller.agent or context.caller.kind, post)
    fresh = replace(link, status="active", reason="", turns=0)
    return Decision(record_of(fresh, context), post.events, post.texts)


def resume(state: State, link: Link, by: str, post: Post) -> None:
    """Resume the link and notify the other members."""
    post.add(LinkResumed(link.id, by))
    who = state.agents.get(by)
    rest = [agent for agent in link.here() if agent != by]
    text = f"{LINK}{link.id} goes on: {by if who is None else who.name} resumed it."
    post.tell_all(state, rest, text, "link_resumed")


# -- applying events -----------------------------------------------------------------------------------


def _link_of(event: LinkOpened, seq: int, now: float) -> Link:
    members = {seat.agent: _member_of(seat, now) for seat in event.members}
    return Link(
        id=format_id("l", seq), members=members, direct=event.direct, opener=event.opener, opened_at=now
    )


def _member_of(seat: NewMember, now: float) -> Member:
    return Member(name=seat.name, number=seat.number, role=seat.role, share=seat.share, joined_at=now)


def apply_opened(state: State, event: LinkOpened) -> None:
    link = _link_of(event, state.seq, state.now)
    state.links[link.id] = link
    for agent in link.members:
        state.agents[agent].links[link.id] = None


def apply_joined(state: State, event: LinkJoined) -> None:
    """One more member, or one that is back."""
    link = state.links[event.link]
    link.members[event.member.agent] = _member_of(event.member, state.now)
    link.direct = False
    state.agents[event.member.agent].links[link.id] = None


def apply_left(state: State, event: LinkLeft) -> None:
    """One member less; that it was one stays known."""
    _out(state, state.links[event.link], event.agent)


def apply_paused(state: State, event: LinkPaused) -> None:
    """Pause a link: nothing is sent on it until it is resumed."""
    link = state.links[event.link]
    link.status, link.reason, link.paused_at = "paused", event.reason, state.now


def apply_resumed(state: State, event: LinkResumed) -> None:
    """Resume a link and reset its count of turns."""
    link = state.links[event.link]
    link.status, link.reason, link.turns, link.bare = "active", "", 0, ""
    for member in link.members.values():
        member.words = ""
    forget_hops(state, link)


def apply_closed(state: State, event: LinkClosed) -> None:
    """It is over for all; it stays known for a while."""
    link = state.links[event.link]
    for agent in link.here():
        _out(state, link, agent)
    link.status, link.reason, link.closed_at = "closed", event.reason, state.now
    state.closed[link.id] = None
    if len(state.closed) >= 2 * CLOSED_KEPT:  # half at a time: taking one by one off a dict's front is slow
        ids = list(state.closed)
        for link_id in ids[:-CLOSED_KEPT]:
            state.links.pop(link_id, None)
        state.closed = dict.fromkeys(ids[-CLOSED_KEPT:])


def _out(state: State, link: Link, agent_id: str) -> None:
    link.members[agent_id].left_at = state.now
    agent = state.agents.get(agent_id)
    if agent is not None:
        agent.links.pop(link.id, None)
        agent.heard = {seq: heard for seq, heard in agent.heard.items() if heard.link != link.id}


ENDED = frozenset({"left", "disconnected"})


def decide_list(state: State, operation: ListLinks, context: Context) -> Decision:
    """The links of one agent, or all for the operator and scripts."""
    agent: Agent | None = None
    if operation.agent is not None:
        agent, _ = find_visible(state, operation.agent, context)
    if context.caller.kind == AGENT:
        me = caller_agent(state, context)
        if agent not in (None, me) and not is_person(me):
            raise TellwireError("forbidden", "An agent can list only its own links.")
        agent = agent if is_person(me) else me
    links = state.links.values() if operation.link is None else [find_link(state, operation.link)]
    wanted = [
        link
        for link in links
        if (operation.all or operation.link is not None or link.status != "closed")
        and (agent is None or agent.id in link.members)
    ]
    shown = wanted[-context.limits.links_listed_max :]
    records = [record_of(link, context) for link in shown]
    return Decision(LinkList(links=records, hidden=len(wanted) - len(shown)))


def find_link(state: State, text: str) -> Link:
    """The link of that id or address.

    Raises:
        TellwireError: `address_invalid` or `unknown_link`.
    """
    link = state.links.get(parse_link(text))
    if link is None:
        raise TellwireError("unknown_link", f"There is no link {shorten(text)}.")
    return link


def live_link(state: State, text: str) -> Link:
    """The same, if it is not over.

    Raises:
        TellwireError: also `link_closed`.
    """
    link = find_link(state, text)
    if link.status == "closed":
        raise TellwireError("link_closed", f"{LINK}{link.id} is closed: {link.reason}.")
    return link


def check_member(state: State, link: Link, context: Context, *, past: bool = False) -> None:
    """Only members, the operator and scripts may change a link.

    Raises:
        TellwireError: `forbidden`.
    """
    me = state.agents.get(context.caller.agent)
    if context.caller.kind != AGENT or (me is not None and is_person(me)):
        return
    if me is None or (me.id not in link.members if past else me.id not in link.here()):
        raise TellwireError(
            "forbidden", f"You are not a member of {LINK}{link.id}.", "list_links shows yours."
        )


def record_of(link: Link, context: Context, made: Made = "") -> LinkRecord:
    """A link as its members see it in a listing."""
    members = [
        MemberRecord(
            name=member.name,
            number=member.number,
            role=member.role,
            share=member.share,  # pyright: ignore[reportArgumentType]  # only such words are stored
            joined_at=member.joined_at,
            left_at=member.left_at,
        )
        for member in link.members.values()
    ]
    return LinkRecord(
        id=link.id,
        status=link.status,  # pyright: ignore[reportArgumentType]  # as above
        reason=link.reason,
        direct=link.direct,
        made=made,
        opener=next((member.name for agent, member in link.members.items() if agent == link.opener), ""),
        opened_at=link.opened_at,
        closed_at=link.closed_at,
        said=link.said,
        turns=link.turns,
        turns_max=context.limits.link_turns_max,
        members=members,
    )


def direct_link(state: State, agent: Agent, peer: str) -> Link | None:
    """The direct link of two agents, if it lives."""
    for link_id in agent.links:
        link = state.links[link_id]
        if link.direct and peer in link.members:
            return link
    return None


def check_present(agent: Agent) -> None:
    """Refuse an agent whose session is over: nothing could ever cross to it (SC-8).

    Raises:
        TellwireError: `agent_gone`.
    """
    if not agent.online and agent.offline_reason in ENDED:
        raise TellwireError("agent_gone", f"The session of {agent.name!r} has ended.")
