"""Room in an inbox."""

from __future__ import annotations

from palaver.core.limits import Limits
from palaver.core.state import Agent


def has_room(agent: Agent, size: int, limits: Limits, *, more: int = 0) -> bool:
    """Whether a message of `size` fits an agent's inbox, with `more` others on their way into it."""
    return (
        len(agent.pending) + len(agent.leased) + more < limits.mailbox_messages_max
        and agent.pending_bytes + agent.leased_bytes + size <= limits.mailbox_bytes_max
    )
