"""The tools for links and listeners of our own dialect, and what they answer."""

from __future__ import annotations

from tellwire.mcp.dialects.answer import Answer, in_line, plain
from tellwire.mcp.dialects.tool import Argument, Tool
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkList,
    LinkRecord,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from tellwire.protocol.operations.listeners import Listen, Listening, Unlisten
from tellwire.protocol.operations.messages import Sent
from tellwire.protocol.relay import ALL

_LINK = Argument("link", "Such as l4f2k.")
_SHARE = "`all` of your turns cross, or `link`: only those that answer the link."

LINK_TOOLS = (
    Tool(
        "open_link",
        OpenLink,
        "Open a conversation with peers: what a member finally says in a turn goes to all others.",
        (
            Argument("members", "The peers' names."),
            Argument("roles", "From name to role."),
            Argument("share", _SHARE),
        ),
    ),
    Tool(
        "close_link",
        CloseLink,
        "End a conversation for all its members.",
        (
            Argument("link", "Such as l4f2k; or"),
            Argument("peer", "the peer of your direct link."),
            Argument("message", "A last word, delivered first."),
        ),
    ),
    Tool(
        "add_member",
        AddMember,
        "Bring a peer into a link you are in.",
        (_LINK, Argument("name"), Argument("role"), Argument("share", "As in open_link.")),
        repeatable=True,
        set=ALL,
    ),
    Tool("leave_link", LeaveLink, "Leave a link; the others go on.", (_LINK,), set=ALL),
    Tool(
        "resume_link",
        ResumeLink,
        "Let a paused link go on, if there is more to do.",
        (_LINK,),
        repeatable=True,
        set=ALL,
    ),
    Tool(
        "list_links",
        ListLinks,
        "The links you are in, and their members.",
        (Argument("all", "Also closed ones."), Argument("link", "Only this one.")),
        reads=True,
        set=ALL,
    ),
    Tool(
        "listen",
        Listen,
        "Be told when a peer stops, fails, waits for its human or is gone.",
        (Argument("agent"),),
        repeatable=True,
        set=ALL,
    ),
    Tool("unlisten", Unlisten, "Stop listening.", (Argument("agent"),), repeatable=True, set=ALL),
)


def render_link(reply: LinkRecord, me: str) -> Answer:
    """One link, and what to do next."""
    others = [name for name in _here(reply) if name != me]
    text = f"link:{reply.id} is {reply.status}"
    if reply.status == "closed":
        text += f": {reply.reason}."
    elif reply.status == "paused":
        text += f' ({reply.reason}); resume_link("{reply.id}") lets it go on.'
    else:
        made = f" ({reply.made})" if reply.made else ""
        text = (
            f"link:{reply.id} is open{made} with {', '.join(others)}. What you finally say in a turn goes to "
            f'them, and theirs to you; agent_send(to="link:{reply.id}") says more now.'
        )
    return Answer(text, plain(reply))


def render_links(reply: LinkList) -> Answer:
    """The links one is in."""
    lines = [
        f"link:{each.id} ({each.status}, {each.turns}/{each.turns_max} turns): "
        + ", ".join(
            f"{member.number} {member.name}" + (f" ({in_line(member.role)})" if member.role else "")
            for member in each.members
            if not member.left_at or each.status == "closed"
        )
        for each in reply.links
    ]
    if reply.hidden:
        lines.append(f"{reply.hidden} older ones are not shown.")
    return Answer("\n".join(lines) or "No links.", plain(reply))


def render_listening(reply: Listening) -> Answer:
    """Whom one listens to."""
    return Answer(f"You are told when these stop: {', '.join(reply.agents) or 'nobody'}.", plain(reply))


def render_direct_link(reply: Sent, peer: str) -> str:
    """What a direct send means from now on."""
    if not reply.made:
        return ""
    how = "Opened" if reply.made == "created" else "On"
    return (
        f"{how} link:{reply.link}: what you and {peer} finally say in a turn goes to the other by itself; "
        f'close_link("{reply.link}") ends it.'
    )


def _here(reply: LinkRecord) -> list[str]:
    return [member.name for member in reply.members if not member.left_at]
