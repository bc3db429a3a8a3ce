"""Dialects: sets of tool names for the same operations, as data; a gateway builds its tools from them.

`tellwire` is our own. `f2` has the names and record shapes of an agent registry, `agent-network` those of a
mesh skill, for agents and prompts that know them already. What a tool says is for a model: each word is paid.
"""

from __future__ import annotations

from tellwire.protocol.lineage_tools import LINEAGE_TOOLS
from tellwire.protocol.link_tools import LINK_TOOLS
from tellwire.protocol.operations.agents import (
    GetAgent,
    Heartbeat,
    ListAgents,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.history import ReadHistory, SearchMessages
from tellwire.protocol.operations.messages import MessageStatus, PeekMessages, SendMessage, TakeMessages
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe
from tellwire.protocol.tool import (
    ALL,
    ANY_CLIENT,
    CORE,
    OBJECT,
    ONCE_S,
    TEXT,
    TEXT_OR_OBJECT,
    Argument,
    Dialect,
    Tool,
)

_PAST = (
    Argument("peer", "Only with this agent."),
    Argument("link", "Only on this link."),
    Argument("since", "Unix seconds."),
    Argument("until", "Unix seconds."),
    Argument("before", "A message id: only older ones."),
    Argument("limit", "At most 200."),
)
_PARTS = (
    Argument("id", "Of a large message, to read it in parts."),
    Argument("offset", "With id: where to go on."),
    Argument("after", "The last id you got: it was read."),
)
_TO = "A name, several, `broadcast` (online peers of this project), `#topic` or `link:ID`."
_DIRECT = "On the direct link: what each finally says then crosses by itself."

TELLWIRE = Dialect(
    "tellwire",
    (
        Tool(
            "list_peers",
            ListAgents,
            "Other agents you can message: online in this project, or all.",
            (
                Argument("all", "Also offline ones and other projects'."),
                Argument("capability", "Only peers that announce it."),
            ),
            reads=True,
        ),
        Tool(
            "agent_send",
            SendMessage,
            "Send a message to other agents. A reply is a later message; do not wait or resend.",
            (
                Argument("to", _TO),
                Argument("body", "What to say; complete in itself.", schema=TEXT_OR_OBJECT),
                Argument("re", "The id of the message you answer."),
                Argument("mode", "What you want of the recipient."),
                Argument("context", "Facts to travel along.", schema=OBJECT),
                Argument("ttl_s", "Seconds it may wait unread; default 3600."),
                Argument("confirm", "Needed for very large broadcasts."),
                Argument("direct", _DIRECT),
                Argument("listen", "Be told when this peer stops."),
            ),
            at_hand=True,
        ),
        Tool(
            "get_messages",
            TakeMessages,
            "Fetch messages that wait for you, when a result says so.",
            _PARTS,
            waits=True,
            at_hand=True,
        ),
        Tool(
            "message_status",
            MessageStatus,
            "How far a message you sent got: pending, delivered, read, answered or expired.",
            (Argument("id"),),
            reads=True,
        ),
        Tool(
            "announce",
            UpdateAgent,
            "Set your own name, or say what you can do.",
            (
                Argument("name", "A short new name; peers write to it."),
                Argument("capabilities", "Short words, e.g. rust, review."),
                Argument("metadata", schema=OBJECT),
            ),
            repeatable=True,
        ),
        Tool(
            "subscribe",
            Subscribe,
            "Receive what is sent to a topic.",
            (Argument("topic", "Such as #build."),),
            repeatable=True,
        ),
        Tool(
            "get_session_data",
            GetSessionData,
            "Look at the end of a peer's session: what it was told, what it said.",
            (
                Argument("agent"),
                Argument("tail", "Characters: 2000, at most 24000."),
                Argument("since", "Unix seconds."),
            ),
            reads=True,
        ),
        *LINK_TOOLS,
        *LINEAGE_TOOLS,
        Tool("unsubscribe", Unsubscribe, "Leave a topic.", (Argument("topic"),), repeatable=True, set=ALL),
        Tool(
            "get_agent", GetAgent, "All that is known of one agent.", (Argument("name"),), reads=True, set=ALL
        ),
        Tool(
            "peek_messages",
            PeekMessages,
            "Look at waiting messages without taking them.",
            (Argument("limit", "At most 200."),),
            reads=True,
            set=ALL,
        ),
        Tool(
            "read_history",
            ReadHistory,
            "What you sent and received before, newest first.",
            _PAST,
            reads=True,
            set=ALL,
        ),
        Tool(
            "search_messages",
            SearchMessages,
            "Find earlier messages by their words.",
            (
                Argument("query", 'All words must occur; "a phrase"; begin*.'),
                *_PAST,
            ),
            reads=True,
            set=ALL,
        ),
        Tool(
            "heartbeat", Heartbeat, "A sign of life; any call is one.", reads=True, repeatable=True, set=ALL
        ),
        Tool(
            "leave",
            UnregisterAgent,
            "Leave the mesh; mail is kept until you return.",
            (Argument("forget", "Give name and mail up."),),
            destroys=True,
            set=ALL,
        ),
    ),
    labels=True,
)

_AGENT_ID = "An agent's id or name."
_MODE = Argument("mode", "challenge, agree, collaborate or deduce.")

F2 = Dialect(
    "f2",
    (
        Tool(
            "register_agent",
            RegisterAgent,
            "Announce your presence to the broker.",
            (
                Argument("name", "Short; others write to it. One in use gets a suffix."),
                Argument("kind", "What kind of agent, e.g. claude-code.", name="type"),
                Argument("capabilities", "What you can do."),
            ),
            repeatable=True,
        ),
        Tool("unregister_agent", UnregisterAgent, "Disconnect cleanly."),
        Tool("heartbeat", Heartbeat, "Keep-alive; any call is one.", reads=True, repeatable=True),
        Tool(
            "list_agents",
            ListAgents,
            "All other online agents, of every project.",
            fixed={"all": True},
            reads=True,
        ),
        Tool(
            "get_agent_info",
            GetAgent,
            "Details of one agent.",
            (Argument("name", _AGENT_ID, name="agent_id"),),
            reads=True,
        ),
        Tool(
            "query_capabilities",
            ListAgents,
            "Online agents with a capability.",
            (Argument("capability", needed=True),),
            fixed={"all": True},
            reads=True,
        ),
        Tool(
            "send_message",
            SendMessage,
            "Send a message to one agent. Its answer is a later message.",
            (
                Argument("to", "An agent's id or name, or #topic.", name="agent_id", schema=TEXT),
                Argument("body", name="message", schema=TEXT_OR_OBJECT),
                _MODE,
                Argument("context", schema=OBJECT),
                Argument("kind", "request, response or notification.", name="type"),
                Argument("re", "The message_id you answer."),
                Argument("direct", "Start a direct conversation: final answers then cross by themselves."),
            ),
        ),
        Tool(
            "broadcast",
            SendMessage,
            "Send to all online agents of this project.",
            (Argument("body", name="message", schema=TEXT_OR_OBJECT), _MODE),
            fixed={"to": "broadcast", "confirm": True},
        ),
        Tool("get_messages", TakeMessages, "Fetch your pending messages.", _PARTS, waits=True),
        Tool(
            "subscribe", Subscribe, "Receive what is sent to a topic.", (Argument("topic"),), repeatable=True
        ),
        Tool(
            "ask_agent",
            AskAgent,
            "Ask a fresh agent one question: it is started, answers, and ends.",
            (
                Argument("client", f"{ANY_CLIENT}, or command.", name="type"),
                Argument("question"),
                Argument("command", "For type=command: the program and its arguments."),
                Argument("timeout_s", "Default 300, at most 3600."),
            ),
            set=ALL,
        ),
    ),
    joins=False,
    reply_with="send_message",
)

AGENT_NETWORK = Dialect(
    "agent-network",
    (
        Tool("list_peers", ListAgents, "Who is online now, yourself excluded.", reads=True),
        Tool(
            "agent_send",
            SendMessage,
            "Send to a peer, several, or broadcast; returns a status: received, denied, timeout, sent or "
            "refused. Replies arrive in a later turn.",
            (
                Argument("to", "A peer, a list of peers, or broadcast."),
                Argument("body", "Text or JSON.", schema=TEXT_OR_OBJECT),
                Argument("re", "The id you reply to."),
                Argument("confirm", "Needed for very large broadcasts."),
            ),
            fixed={"once_s": ONCE_S},
        ),
        Tool(
            "get_messages",
            TakeMessages,
            "Drain and read your inbox; call it at the start of every turn.",
            _PARTS,
        ),
        Tool(
            "agent_request",
            SendMessage,
            "DEPRECATED, use agent_send: sends, and blocks until the peer replies.",
            (
                Argument("to", "A peer.", schema=TEXT),
                Argument("body", "Text or JSON.", schema=TEXT_OR_OBJECT),
            ),
            fixed={"once_s": ONCE_S},
            waits=True,
        ),
    ),
)

DIALECTS: dict[str, Dialect] = {each.name: each for each in (TELLWIRE, F2, AGENT_NETWORK)}


def tools_of(dialect: Dialect, wanted: str) -> dict[str, Tool]:
    """The tools of a dialect: the core set, or all."""
    return {tool.name: tool for tool in dialect.tools if wanted == ALL or tool.set == CORE}
