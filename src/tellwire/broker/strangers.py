"""Connections that were turned away: counted, and told to the log in one line, however many come."""

from __future__ import annotations

import logging
import time
from collections import Counter

log = logging.getLogger("tellwire.server")

PERIOD_S = 60.0
"""The first are told with the next beat; what follows, once in so long."""


class Strangers:
    """How many were turned away since the log was last told, by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._told_at = -PERIOD_S

    def note(self, reason: str) -> None:
        """One was; the reasons are few and ours, never a stranger's words."""
        self._counts[reason] += 1

    def tell(self, *, last: bool = False) -> None:
        """Tell the log, unless that was lately; at the `last` time in any case."""
        now = time.monotonic()
        if not self._counts or (now - self._told_at < PERIOD_S and not last):
            return
        reasons = ", ".join(f"{count} {reason}" for reason, count in self._counts.most_common())
        log.warning("turned %d connections away: %s", self._counts.total(), reasons)
        self._counts.clear()
        self._told_at = now
