"""Every bound of the core, in one frozen value; the settings may change them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from tellwire.protocol.errors import TellwireError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and times that the rules obey."""

    body_bytes_max: int = 64 * 1024
    context_bytes_max: int = 16 * 1024
    mailbox_messages_max: int = 10_000
    mailbox_bytes_max: int = 64 * 1024 * 1024
    reserve_messages_max: int = 1_000
    """Beyond a full inbox, for what a parent hears of its children."""
    reserve_bytes_max: int = 16 * 1024 * 1024
    recipients_max: int = 256
    broadcast_unconfirmed_max: int = 50
    """A broadcast to more than this must be confirmed."""
    agents_max: int = 10_000
    topics_max: int = 256
    """Subscriptions of one agent."""
    capabilities_max: int = 64
    text_length_max: int = 128
    """A capability, kind, session or request key."""
    metadata_bytes_max: int = 8 * 1024
    ids_max: int = 1_000
    """Message ids in one call."""
    window_messages_max: int = 128
    """Messages a connected client may hold unconfirmed."""
    window_bytes_max: int = 512 * 1024
    peek_max: int = 200
    """Messages in one answer: of an inbox, of history, of a search."""
    take_chars_max: int = 24_000
    """Text of one fetch: every client known takes so much in one tool result."""
    page_bytes_max: int = 512 * 1024
    """Of the bodies in one answer out of history."""
    audit_rows_max: int = 1_000
    ttl_s: float = 3_600.0
    ttl_s_max: float = 30 * 86_400.0
    forget_after_s: float = 30 * 86_400.0
    """An agent away this long, without mail, is forgotten."""
    peers_max: int = 256
    """Peers of one agent."""
    claims_max: int = 64
    """Rules that one agent holds."""
    claim_s: float = 4 * 3_600.0
    """A claim lasts so long unless it is made again."""
    claim_s_max: float = 7 * 86_400.0
    children_max: int = 16
    """Of one parent."""
    children_all_max: int = 64
    """On the machine."""
    child_depth_max: int = 4
    """Generations of children beneath an agent that nobody started."""
    child_up_s: float = 60.0
    """A child that is not up by then has failed."""
    ask_s: float = 300.0
    """An agent that is asked one question has answered by then, unless it is given another time."""
    ask_s_max: float = 3_600.0
    expire_batch_max: int = 1_000
    mute_s_max: float = 30 * 86_400.0
    """An agent is muted for so long at most, if it is for a time."""
    links_max: int = 64
    """Open links of one agent."""
    links_listed_max: int = 100
    """In one answer."""
    link_members_max: int = 32
    link_turns_max: int = 40
    """Turns on a link without a person's word; then it pauses."""
    link_hops_max: int = 60
    """Turns in a chain, each started by the one before, over whatever links; then the link pauses."""
    chain_turns_max: int = 40
    """Turns in a row that agents begin in each other by messages alone; what comes then wakes nobody."""
    wake_retry_s: float = 60.0
    """After a woken turn that failed the next wake comes after this, then after 5 and 15 times this."""
    listeners_max: int = 64
    """Of one agent, and agents one listens to."""
    overdue_after_s: float = 1_800.0
    """An agent with listeners that tells of no end for so long is reported to them."""
    sender_bytes_max: int = 1 << 30
    """Bytes of one sender's messages that are kept, delivered ones included."""
    sends_per_s_max: float = 50_000.0
    """Of one caller; a burst of one second's worth is free."""


DEPTH_MAX = 32


def check_depth(value: Any, what: str) -> None:
    """Refuse JSON that is nested so deeply that a reader's stack might not take it.

    Raises:
        TellwireError: `limit_exceeded`.
    """
    layer, depth = [value], 0
    while layer := [item for each in layer for item in _children(each)]:
        depth += 1
        if depth > DEPTH_MAX:
            raise TellwireError("limit_exceeded", f"The {what} is nested deeper than {DEPTH_MAX} levels.")


def check_numbers(value: Any, what: str) -> None:
    """Refuse integers that a snapshot of the state cannot hold.

    Raises:
        TellwireError: `limit_exceeded`.
    """
    layer = [value]
    while layer:
        if any(isinstance(each, int) and not -(1 << 63) <= each < 1 << 64 for each in layer):
            raise TellwireError("limit_exceeded", f"The {what} has an integer beyond 64 bits.")
        layer = [item for each in layer for item in _children(each)]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


class Bucket(msgspec.Struct):
    """A token bucket, filled again when it is empty: `take` tells whether one more call fits the rate now."""

    rate: float
    tokens: float
    at: float

    def take(self, now: float) -> bool:
        """Use one token if there is one at time `now`."""
        if self.tokens < 1.0:
            self.tokens = min(self.rate, max(0.0, now - self.at) * self.rate)
            self.at = now
            if self.tokens < 1.0:
                return False
        self.tokens -= 1.0
        return True
