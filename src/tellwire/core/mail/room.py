"""Room in an inbox, and the reserve beyond it; an agent's share of the operator's."""

from __future__ import annotations

from tellwire.core.limits import Limits
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR


def has_room(agent: Agent, size: int, limits: Limits, *, more: int = 0) -> bool:
    """Whether a message of `size` fits an agent's inbox, with `more` others on their way into it."""
    return (
        len(agent.pending) + len(agent.leased) + more < _messages_max(agent, limits)
        and agent.pending_bytes + agent.leased_bytes + size <= limits.mailbox_bytes_max
    )


def has_reserve(agent: Agent, size: int, limits: Limits, *, more: int = 0) -> bool:
    """The same for what is told nowhere else: others cannot fill the whole inbox against it."""
    messages_max = _messages_max(agent, limits) + limits.reserve_messages_max
    bytes_max = limits.mailbox_bytes_max + limits.reserve_bytes_max
    return (
        len(agent.pending) + len(agent.leased) + more < messages_max
        and agent.pending_bytes + agent.leased_bytes + size <= bytes_max
    )


def _messages_max(agent: Agent, limits: Limits) -> int:
    return limits.operator_messages_max if agent.name == OPERATOR else limits.mailbox_messages_max


def has_share(state: State, sender: Agent, operator: Agent, limits: Limits) -> bool:
    """Whether an agent may have one more open message at the operator; others are not kept from it."""
    return open_at(state, sender.id, operator) < limits.operator_share_max


def open_at(state: State, sender: str, operator: Agent) -> int:
    """How many messages of one sender the operator has not read, or not answered though they ask."""
    unread = sum(receipt.sender == sender for receipt in operator.pending.values())
    asked = sum(
        question.sender == sender and seq not in operator.pending
        for seq, question in state.questions().items()
    )
    return unread + asked
