"""Room on the disk: what one sender may fill of it, and what is taken while it is low."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tellwire.core.context import Caller, Context
from tellwire.core.state import Agent
from tellwire.protocol import events
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, MessageQueued
from tellwire.protocol.events import children as child_events
from tellwire.protocol.events import links as link_events

FACTS: frozenset[type] = frozenset(
    {
        events.SessionStarted,
        events.SessionPlaced,
        events.AgentOnline,
        events.AgentOffline,
        events.AgentMuted,
        events.AgentForgotten,
        events.MessagesDelivered,
        events.MessagesReturned,
        events.MessagesRead,
        events.MessageAnswered,
        events.MessagesExpired,
        events.TopicLeft,
        link_events.LinkLeft,
        link_events.LinkClosed,
        link_events.ListenerRemoved,
        child_events.PeersParted,
        child_events.ScopeReleased,
        child_events.ChildStopAsked,
        child_events.ChildEnded,
    }
)
"""What callers may still bring about while the disk is low: receipts, sessions that come and go, endings."""


def check_kept(sender: Agent, size: int, context: Context) -> None:
    """Check that a sender may store this much more.

    Raises:
        TellwireError: `storage_full`.
    """
    bytes_max = context.limits.sender_bytes_max
    kept = context.kept.get(sender.id, 0)
    if kept + size > bytes_max:
        raise TellwireError(
            "storage_full",
            f"The messages of {sender.name!r} use {kept} bytes of storage; the limit is {bytes_max}.",
            "Ask the operator to delete delivered messages with `tellwire purge --older-than 1d`, or to "
            "raise the setting `sender_bytes_max`. Nothing was stored.",
        )


def is_taken(decided: Iterable[AnyEvent], caller: Caller, agents: Mapping[str, Agent]) -> bool:
    """Whether what a caller brings about is taken although the disk is low."""
    if caller.kind == OPERATOR:
        return True
    agent = agents.get(caller.agent)
    if agent is not None and agent.name == OPERATOR:
        return True
    return all(_is_small(event) for event in decided)


def _is_small(event: AnyEvent) -> bool:
    """A receipt or the like, or a notice of the broker's own."""
    return type(event) in FACTS or (isinstance(event, MessageQueued) and not event.sender)


def kept_of(batches: Iterable[Iterable[AnyEvent]]) -> dict[str, int]:
    """The bytes of the messages that were sent in these events, by sender."""
    kept: dict[str, int] = {}
    for batch in batches:
        for event in batch:
            if type(event) is MessageQueued and event.sender:
                kept[event.sender] = kept.get(event.sender, 0) + event.size
    return kept
