"""The table of commands: where each one is defined, its line in the help, and the operations it carries out.

Help, completion and the lookup of a command read this table instead of importing every command. A test
compares the help lines with what the commands themselves say.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One command."""

    name: str
    place: str
    """The module in `cli/commands`, a colon, and the name of the command; empty: made from its operation."""
    help: str
    operations: tuple[str, ...] = ()
    """The wire names of the operations that it carries out."""


LINKS = (
    "open_link",
    "add_member",
    "leave_link",
    "close_link",
    "resume_link",
    "list_links",
    "link_history",
)
CHAT = ("send_message", "get_agent", "claim_messages", "confirm_messages")
INBOX = ("peek_messages", "claim_messages", "confirm_messages")
PEERS = ("register_peer", "remove_peer", "list_peers")
MACHINES = (
    "list_machines",
    "show_machine",
    "machine_card",
    "pair_machine",
    "rename_machine",
    "set_trust",
    "remove_machine",
    "renew_machine",
)
AUDIT = ("read_audit", "acknowledge_losses")

SECTIONS: dict[str, tuple[Row, ...]] = {
    "The console": (
        Row(
            "tui",
            "watching:tui",
            "Open the console: agents, what needs you, conversations.",
            ("overview", "watch_feed"),
        ),
    ),
    "Messages": (
        Row("send", "messages:send", "Send a message.", ("send_message",)),
        Row("inbox", "messages:inbox", "Take waiting messages, and print them.", INBOX),
        Row("chat", "chat:chat", "Talk to an agent or on a link, line by line.", CHAT),
        Row(
            "needs",
            "needs:needs",
            "Show what needs you, and what to do about it.",
            ("list_needs", "overview"),
        ),
        Row("glance", "needs:glance", "Show in one line whether anything needs you.", ("glance",)),
        Row("answer", "needs:answer", "Answer a message that an agent sent you.", ("answer_message",)),
        Row(
            "broadcast",
            "messages:broadcast",
            "Send to every agent that is online in this project.",
            ("send_message",),
        ),
        Row(
            "message-status",
            "messages:message_status",
            "Show how far a message got, for each recipient.",
            ("message_status",),
        ),
        Row("why", "explaining:why", "Explain why a message has not been read.", ("explain_message",)),
        Row(
            "thread",
            "explaining:thread",
            "Show a message, what it answers, and all answers to it.",
            ("read_thread",),
        ),
    ),
    "Conversations": (
        Row("link", "links:link", "Manage conversations shared by agents.", LINKS),
        Row(
            "watch",
            "watching:watch",
            "Follow a link until it is closed, or Ctrl-C.",
            ("watch_feed", "link_history"),
        ),
        Row("listen", "links:listen", "Be notified each time an agent finishes a turn.", ("listen",)),
        Row("unlisten", "links:unlisten", "Stop listening to an agent.", ("unlisten",)),
        Row("checkpoint", "links:checkpoint", "Keep an agent's next turn private.", ("mark_checkpoint",)),
    ),
    "Agents and topics": (
        Row("list", "agents:list_agents", "List agents.", ("list_agents", "overview", "watch_feed")),
        Row("info", "agents:info", "Show everything about one agent.", ("get_agent",)),
        Row(
            "go",
            "children:go",
            "Go to an agent's terminal, to look or to type.",
            ("list_children", "overview"),
        ),
        Row("session", "agents:session", "Show an agent's session.", ("get_session_data",)),
        Row(
            "register",
            "agents:register",
            "Register an agent, so that others can send to it.",
            ("register_agent",),
        ),
        Row("update", "agents:update", "Change an agent's name or capabilities.", ("update_agent",)),
        Row("mute", "agents:mute", "Do not wake an agent.", ("mute_agent",)),
        Row("unregister", "agents:unregister", "Remove an agent (operator only).", ("unregister_agent",)),
        Row("subscribe", "agents:subscribe", "Subscribe to a topic, also while offline.", ("subscribe",)),
        Row(
            "unsubscribe",
            "agents:unsubscribe",
            "Unsubscribe from a topic; waiting messages are kept.",
            ("unsubscribe",),
        ),
        Row("topics", "agents:list_topics", "List topics and who is subscribed to them.", ("list_topics",)),
    ),
    "Peers, scopes and children": (
        Row("peer", "peers:peer", "Add, remove and list peers.", PEERS),
        Row("policy", "peers:policy_of", "Show or set who sees whom in a project.", ("mesh_policy",)),
        Row("claim", "scopes:claim", "Claim files or folders for one agent's writes.", ("claim_scope",)),
        Row("release", "scopes:release", "Release claims: those on these paths, or all.", ("release_scope",)),
        Row(
            "who-owns",
            "scopes:who_owns",
            "Show who owns a path, and whether you may write to it.",
            ("who_owns",),
        ),
        Row("scopes", "scopes:scopes", "Show who may write where, as a tree.", ("list_scopes",)),
        Row(
            "spawn",
            "children:spawn",
            "Start an agent as a child: an agent CLI, or any command.",
            ("spawn_agent",),
        ),
        Row(
            "children",
            "children:children",
            "List agents that were started by other agents.",
            ("list_children",),
        ),
        Row("stop", "children:stop", "Stop a child.", ("stop_agent",)),
        Row("ask", "asking:ask", "Ask a fresh agent one question, and print its answer.", ("ask_agent",)),
    ),
    "Agent CLIs and other MCP clients": (
        Row(
            "run", "setup.run:run", "Start agent CLIs with tellwire, for this session only.", ("list_agents",)
        ),
        Row("install", "install:install", "Add tellwire to the configuration of agent CLIs."),
        Row("uninstall", "install:uninstall", "Remove tellwire from the configuration of agent CLIs."),
        Row("mcp", "setup.mcp:mcp", "Run an MCP server on stdin and stdout."),
    ),
    "Other machines": (
        Row("machine", "machines:machine", "Pair with other machines, and list them.", MACHINES),
    ),
    "History": (
        Row("history", "records:history", "Show earlier messages, newest last.", ("read_history",)),
        Row("search", "records:search", "Search messages, newest last.", ("search_messages",)),
        Row(
            "follow",
            "watching:follow",
            "Follow what happens, in plain sentences, until Ctrl-C.",
            ("watch_feed", "overview"),
        ),
        Row("tail", "records:tail", "Follow events live, until Ctrl-C.", ("watch_feed",)),
        Row(
            "stats",
            "audit:stats",
            "Show turns and messages of each agent, hour by hour.",
            ("read_audit",),
        ),
        Row("audit", "audit:audit", "Show the journal: every event, every refused call.", AUDIT),
        Row("purge", "records:purge", "Delete delivered messages now.", ("purge_history",)),
    ),
    "The broker": (
        Row("up", "broker:up", "Start the broker."),
        Row("down", "broker:down", "Stop the broker; waiting messages are kept.", ("stop_broker",)),
        Row("status", "broker:status", "Show the state of the broker.", ("broker_status",)),
        Row("doctor", "setup.doctor:doctor", "Find problems, and say how to fix them.", ("diagnose",)),
        Row("config", "setup.config:config", "Show and change settings."),
        Row("logs", "setup.logs:logs", "Show the broker's log."),
        Row("service", "setup.service:service", "Run the broker as a service of your user."),
        Row(
            "upgrade",
            "setup.about:upgrade",
            "Say how to upgrade, and restart the broker.",
            ("broker_status",),
        ),
        Row("version", "setup.about:version", "Show the versions of tellwire and the broker."),
        Row("help", "setup.about:show_help", "Explain tellwire, or one command."),
        Row("completion", "broker:completion", "Print shell completion for commands, options and names."),
    ),
}
"""By heading of the help, in its order."""
COMMON = ("run", "install", "list", "send", "chat", "inbox", "needs", "follow", "doctor")
"""What the short help explains, in this order, as far as there is such a command."""
SHORT_TITLES = {
    "The console": "Messages",
    "Other machines": "Agents",
    "Agents and topics": "Agents",
    "Peers, scopes and children": "Children",
    "Agent CLIs and other MCP clients": "Setup",
    "The broker": "Setup",
}
"""Headings of the short help, where they differ."""
ROWS = {row.name: row for rows in SECTIONS.values() for row in rows}
ALIASES = {"attach": "go", "ls": "list", "ps": "list", "settings": "config"}
"""Former and other names of commands; they work, and the list of commands does not show them."""


def all_sections() -> dict[str, tuple[Row, ...]]:
    """The sections, and a last one with the operations of the command line that no command carries out."""
    # Imported here for start-up speed: a command that is in the table does not need it.
    from tellwire.protocol.docs import summary  # noqa: PLC0415
    from tellwire.protocol.operations import OPERATIONS  # noqa: PLC0415
    from tellwire.protocol.operations.base import CLI  # noqa: PLC0415

    known = {word for row in ROWS.values() for word in row.operations}
    rest = [
        Row(word.replace("_", "-"), "", summary(kind), (word,))
        for word, kind in OPERATIONS.items()
        if CLI in kind.surfaces and word not in known
    ]
    return {**SECTIONS, "More": tuple(rest)} if rest else SECTIONS


def all_rows() -> dict[str, Row]:
    """All commands by name, in the order of the help."""
    return {row.name: row for rows in all_sections().values() for row in rows}
