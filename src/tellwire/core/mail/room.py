"""Room in an inbox, and the reserve beyond it."""

from __future__ import annotations

from tellwire.core.limits import Limits
from tellwire.core.state import Agent


def has_room(agent: Agent, size: int, limits: Limits, *, more: int = 0) -> bool:
    """Whether a message of `size` fits an agent's inbox, with `more` others on their way into it."""
    return (
        len(agent.pending) + len(agent.leased) + more < limits.mailbox_messages_max
        and agent.pending_bytes + agent.leased_bytes + size <= limits.mailbox_bytes_max
    )


def has_reserve(agent: Agent, size: int, limits: Limits, *, more: int = 0) -> bool:
    """The same for what is told nowhere else: others cannot fill the whole inbox against it."""
    messages_max = limits.mailbox_messages_max + limits.reserve_messages_max
    bytes_max = limits.mailbox_bytes_max + limits.reserve_bytes_max
    return (
        len(agent.pending) + len(agent.leased) + more < messages_max
        and agent.pending_bytes + agent.leased_bytes + size <= bytes_max
    )
