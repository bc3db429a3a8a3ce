"""Whether somebody still waits for an answer: nothing is leased to a hook that has given up."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from typing import TypeAlias

Listens: TypeAlias = Callable[[], bool]

SPARE_S = 0.05
"""How long an answer takes to be committed and to reach the caller."""
MS_MAX = 1e15
"""A time later than any clock shows."""
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


def always() -> bool:
    """For an answer that needs no listener."""
    return True


def never() -> bool:
    """For a hook that waits for nothing."""
    return False


def listener(transport: asyncio.BaseTransport | None, until: float = 0.0) -> Listens:
    """Whether the other end of a connection still waits.

    `until` is its own deadline on this machine's monotonic clock; 0 if it told none. A program that gave up
    has closed its end, which shows at once, even if this loop has not come round to hearing of it.
    """

    def listens() -> bool:
        if until and time.monotonic() > until - SPARE_S:
            return False
        return transport is not None and not transport.is_closing() and not _is_shut(transport)

    return listens


def on_our_clock(until_ms: object) -> float:
    """A deadline in milliseconds of the wall clock, on the monotonic one; 0 if it makes no sense."""
    if not isinstance(until_ms, int | float) or not 0 < until_ms < MS_MAX:
        return 0.0
    return time.monotonic() + until_ms / 1_000 - time.time()


def _is_shut(transport: asyncio.BaseTransport) -> bool:
    sock = transport.get_extra_info("socket")
    if sock is None:
        return False
    try:
        poll = select.poll()
        poll.register(sock.fileno(), _GONE)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True
