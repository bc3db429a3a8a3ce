"""The broker's own messages to an agent: durable history like any other (AUD-6)."""

from __future__ import annotations

from palaver.core.context import Context
from palaver.core.digests import digest_of
from palaver.core.state import Agent
from palaver.protocol.addresses import SYSTEM
from palaver.protocol.events import MessageQueued


def notice(agent: Agent, text: str, context: Context, *, re: str = "") -> tuple[MessageQueued, str]:
    """A notification for one agent, and its body."""
    event = MessageQueued(
        sender="",
        sender_name=SYSTEM,
        to=agent.name,
        recipients=[agent.id],
        size=len(text.encode()),
        digest=digest_of(agent.name, text),
        ttl_s=context.limits.ttl_s,
        kind="notification",
        re=re,
    )
    return event, text
