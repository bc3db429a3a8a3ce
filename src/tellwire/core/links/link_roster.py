"""Finding links: by id, by member, by pair; who has a say in one; and what members see of it."""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent, find_seen
from tellwire.core.context import Context, Decision
from tellwire.core.links.fanout import is_person
from tellwire.core.state import Agent, Link, State
from tellwire.protocol.addresses import LINK, parse_link, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.base import AGENT
from tellwire.protocol.operations.links import LinkList, LinkRecord, ListLinks, Made, MemberRecord

ENDED = frozenset({"left", "disconnected"})


def decide_list(state: State, operation: ListLinks, context: Context) -> Decision:
    """The links of one agent, or all."""
    agent: Agent | None = None
    if operation.agent is not None:
        agent, _ = find_seen(state, operation.agent, context)
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
    """Only members, the operator and scripts have a say in a link.

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
    """What members see of a link."""
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
