"""Whole documents for `--json`: the wire leaves fields at their default out, a document has them all.

The fast commands cannot ask msgspec for the defaults; a test compares these tables with the operations'.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Facts: TypeAlias = dict[str, Any]

AGENT: Facts = {
    "id": "",
    "name": "",
    "kind": "",
    "status": "",
    "activity": "",
    "capabilities": [],
    "reason": "open",
    "offline_reason": "",
    "group": "",
    "connected_at": 0.0,
    "last_heartbeat": 0.0,
    "pending": 0,
    "metadata": {},
    "muted": False,
    "muted_until": 0.0,
    "paths": [],
    "terminal": "",
    "title": "",
    "deaf": False,
    "unreached": "",
    "waits": "",
    "doubt": "",
    "machine": "",
}
OUTCOME: Facts = {"name": "", "status": "", "note": ""}
SENT: Facts = {
    "id": "",
    "status": "",
    "note": "",
    "why": "",
    "suggestions": [],
    "recipients": [],
    "link": "",
    "made": "",
}
MESSAGE: Facts = {
    "id": "",
    "from": "",
    "to": "",
    "body": None,
    "at": 0.0,
    "kind": "request",
    "re": None,
    "mode": None,
    "context": None,
    "repeat": False,
}

STATE: Facts = {
    "pid": 0,
    "version": "",
    "uptime_s": 0.0,
    "agents": 0,
    "online": 0,
    "pending": 0,
    "connections": 0,
    "sequence": 0,
    "storage": "ok",
    "storage_advice": "",
    "lost": [],
    "home": "",
}
COUNTS: Facts = {
    "needs": 0,
    "oldest_at": 0.0,
    "waiting": 0,
    "errored": 0,
    "busy": 0,
    "idle": 0,
    "online": 0,
}


def whole_agents(reply: Facts) -> Facts:
    """A listing of agents."""
    agents = [{**AGENT, **agent} for agent in reply.get("agents", [])]
    return {"agents": agents, "hidden": reply.get("hidden", 0)}


def whole_sent(reply: Facts) -> Facts:
    """The outcome of a send."""
    outcomes = [{**OUTCOME, **outcome} for outcome in reply.get("recipients", [])]
    return {**SENT, **reply, "recipients": outcomes}


def whole_inbox(reply: Facts) -> Facts:
    """Messages, and how many more wait."""
    messages = [whole_message(message) for message in reply.get("messages", [])]
    return {"messages": messages, "waiting": reply.get("waiting", 0)}


def whole_message(message: Facts) -> Facts:
    """One message as its recipient gets it."""
    return {**MESSAGE, **message}
