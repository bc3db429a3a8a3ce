"""Whether a tick begins at once or lets a few more calls join its commit.

A sync costs the same for one message as for a hundred. When the ticks of the last moment were larger than
what waits now, the rest is probably being written by the clients at this very moment: looking at the sockets
again, for a fraction of the time that a commit takes, lets them share it. A lone client never waits: its
ticks are of one call, and one call is there.
"""

from __future__ import annotations

from collections.abc import Callable

SHARE = 0.7
"""Of a commit's usual time, waited at most."""
WAIT_S_MAX = 0.000_25
FEW = 12
"""Calls; ticks of more share a commit well enough, and their clients would only wait for each other."""
DECAY = 0.9
"""What a tick that was smaller than expected leaves of the expectation."""


class GroupCommit:
    """Remembers how large ticks were and how long commits took."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since = 0.0
        self._expected = 0.0
        self._commit_s = 0.0

    def should_wait(self, count: int) -> bool:
        """Whether a tick of `count` calls should be put off a little."""
        if count < self._expected <= FEW:
            now = self._monotonic()
            if not self._since:
                self._since = now
            if now - self._since < min(SHARE * self._commit_s, WAIT_S_MAX):
                return True
        self._since = 0.0
        self._expected = max(count, DECAY * self._expected)
        return False

    def begin(self) -> float:
        """Start timing a commit."""
        return self._monotonic()

    def end(self, began: float) -> None:
        """Record how long the commit took."""
        self._commit_s += 0.1 * (self._monotonic() - began - self._commit_s)
