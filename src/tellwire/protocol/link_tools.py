"""The tools for links and listeners."""

from __future__ import annotations

from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from tellwire.protocol.operations.listeners import Listen, Unlisten
from tellwire.protocol.tool import ALL, Argument, Tool

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
        "link_history",
        LinkHistory,
        "What was said on a link, newest first.",
        (_LINK, Argument("before", "A message id: only older ones."), Argument("limit", "At most 200.")),
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
