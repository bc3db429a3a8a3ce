"""Every bound of the core, in one frozen value; the settings may change them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from palaver.protocol.errors import PalaverError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and times that the rules obey."""

    body_bytes_max: int = 64 * 1024
    context_bytes_max: int = 16 * 1024
    mailbox_messages_max: int = 10_000
    mailbox_bytes_max: int = 64 * 1024 * 1024
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
    expire_batch_max: int = 1_000
    sends_per_s_max: float = 50_000.0
    """Of one caller; a burst of one second's worth is free."""


DEPTH_MAX = 32


def check_depth(value: Any, what: str) -> None:
    """Refuse JSON that is nested so deeply that a reader's stack might not take it.

    Raises:
        PalaverError: `limit_exceeded`.
    """
    layer, depth = [value], 0
    while layer := [item for each in layer for item in _children(each)]:
        depth += 1
        if depth > DEPTH_MAX:
            raise PalaverError("limit_exceeded", f"The {what} is nested deeper than {DEPTH_MAX} levels.")


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
