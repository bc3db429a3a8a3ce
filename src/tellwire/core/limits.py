"""Every bound of the core, in one frozen value; the settings may change them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from tellwire.protocol.errors import TellwireError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and times that the rules obey."""

    body_bytes_max: int = 64 * 1024
    """Size of a message."""
    context_bytes_max: int = 16 * 1024
    """Size of a message's `context`."""
    mailbox_messages_max: int = 10_000
    """Messages in one inbox."""
    mailbox_bytes_max: int = 64 * 1024 * 1024
    """Size of one inbox."""
    reserve_messages_max: int = 1_000
    """Space beyond a full inbox for a parent's notices about its children."""
    reserve_bytes_max: int = 16 * 1024 * 1024
    """Size of that space."""
    operator_messages_max: int = 5_000
    """Unread messages at the operator, of all agents together."""
    operator_share_max: int = 50
    """Of one agent: unread messages at the operator, and questions that it has not answered."""
    recipients_max: int = 256
    """Recipients of one message."""
    broadcast_unconfirmed_max: int = 50
    """A broadcast to more agents than this must be confirmed."""
    agents_max: int = 10_000
    """Agents that the broker knows."""
    topics_max: int = 256
    """Subscriptions of one agent."""
    capabilities_max: int = 64
    """Capabilities of one agent."""
    text_length_max: int = 128
    """Length of a capability, kind, session or request key."""
    metadata_bytes_max: int = 8 * 1024
    """Size of an agent's metadata."""
    ids_max: int = 1_000
    """Message ids in one call."""
    window_messages_max: int = 128
    """Messages that a connected client may hold unconfirmed."""
    window_bytes_max: int = 512 * 1024
    """Size of what a connected client may hold unconfirmed."""
    peek_max: int = 200
    """Messages in one reply: of an inbox, of history, of a search."""
    take_chars_max: int = 24_000
    """Characters in one fetch; every known client accepts this much in one tool result."""
    page_bytes_max: int = 512 * 1024
    """Bytes of message bodies in one page of history."""
    audit_rows_max: int = 1_000
    """Events in one page of the audit."""
    ttl_s: float = 3_600.0
    """How long a message waits to be read before it expires, unless its sender says otherwise."""
    ttl_s_max: float = 30 * 86_400.0
    """The longest time that a sender may ask for."""
    forget_after_s: float = 30 * 86_400.0
    """An agent that has been offline this long and has no mail is deleted."""
    peers_max: int = 256
    """Peers of one agent."""
    claims_max: int = 64
    """Claims that one agent may hold."""
    claim_s: float = 4 * 3_600.0
    """How long a claim lasts unless it is renewed."""
    claim_s_max: float = 7 * 86_400.0
    """The longest time that a claim may be made for."""
    children_max: int = 16
    """Running children of one parent."""
    children_all_max: int = 64
    """Running children on the machine."""
    child_depth_max: int = 4
    """How many levels of children an agent may have below it."""
    child_up_s: float = 60.0
    """How long a child may take to start."""
    ask_s: float = 300.0
    """How long `ask_agent` waits for an answer by default."""
    ask_s_max: float = 3_600.0
    """The longest time that `ask_agent` may wait."""
    expire_batch_max: int = 1_000
    """Messages that expire in one step."""
    mute_s_max: float = 30 * 86_400.0
    """The longest time for which an agent can be muted with `for_s`."""
    links_max: int = 64
    """Open links of one agent."""
    links_listed_max: int = 100
    """Links in one reply."""
    link_members_max: int = 32
    """Members of one link."""
    link_turns_max: int = 40
    """Turns on a link without a message from a person; then it pauses."""
    link_hops_max: int = 60
    """Turns in a chain, each started by the one before, on any links; then the link pauses."""
    chain_turns_max: int = 40
    """Turns in a row started only by messages between agents; further messages then wake nobody."""
    wake_retry_s: float = 60.0
    """Delay before a failed wake is retried; then 5 and 15 times this."""
    listeners_max: int = 64
    """Listeners of one agent, and agents that one agent listens to."""
    overdue_after_s: float = 1_800.0
    """An agent that has finished no turn for this long is reported to its listeners."""
    sender_bytes_max: int = 1 << 30
    """Bytes stored per sender, delivered messages included."""
    sends_per_s_max: float = 50_000.0
    """Sends per second of one caller; a burst of one second's worth is allowed."""


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
            raise TellwireError("limit_exceeded", f"The {what} contains an integer of more than 64 bits.")
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
