"""What the tools for links and listeners say."""

from __future__ import annotations

from tellwire.mcp.dialects.tellwire import Answer, in_line, plain
from tellwire.protocol.operations.links import LinkList, LinkRecord
from tellwire.protocol.operations.listeners import Listening
from tellwire.protocol.operations.messages import Sent


def say_link(reply: LinkRecord, me: str) -> Answer:
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


def say_links(reply: LinkList) -> Answer:
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


def say_listening(reply: Listening) -> Answer:
    """Whom one listens to."""
    return Answer(f"You are told when these stop: {', '.join(reply.agents) or 'nobody'}.", plain(reply))


def say_direct(reply: Sent, peer: str) -> str:
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
