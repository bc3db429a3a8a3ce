"""The engine's two clocks: one for people, and one that stops while the machine sleeps.

`now` is the wall clock without its small steps back. A larger step is followed, so `now` never leads by more
than `LEAD_S`. `awake` counts the seconds in which the broker ran and never goes back; times to live, absence
and the keeping of history run on it, so no suspended machine, stopped process or clock set by hand lets
anything expire (F2-5). After a gap nothing times out for a while: everybody may come back first.
"""

from __future__ import annotations

import time
from collections.abc import Callable

GAP_S = 5.0
LEAD_S = 5.0
"""How far `now` may be ahead of the wall clock after that was set back."""


class Clock:
    """Both times, read together, so that a gap in one is noticed by the other."""

    def __init__(
        self,
        *,
        hold_s: float,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self.monotonic = monotonic
        self._hold_s = hold_s
        self._last_wall = wall()
        self._last_monotonic = monotonic()
        self._held_until = 0.0
        self.now = self._last_wall
        self.awake = 0.0

    def resume(self, now: float, awake: float) -> None:
        """Go on from the times of the last commit of an earlier life."""
        self.now = _within_lead(now, self.now)
        self.awake = max(self.awake, awake)

    def read(self) -> float:
        """Bring both times up to date and return `now`."""
        wall, monotonic = self._wall(), self.monotonic()
        passed = max(0.0, monotonic - self._last_monotonic)
        jumped = abs(wall - self._last_wall - passed) > GAP_S
        self._last_wall, self._last_monotonic = wall, monotonic
        if passed > GAP_S or jumped:
            self._held_until = self.awake + self._hold_s
        if passed <= GAP_S:
            self.awake += passed
        self.now = _within_lead(self.now, wall)
        return self.now

    def wall_of(self, monotonic: float) -> float:
        """The engine time of a recent monotonic one."""
        return self.now - max(0.0, self._last_monotonic - monotonic)

    @property
    def held(self) -> bool:
        """Whether a gap was so recent that nothing may time out."""
        return self.awake < self._held_until


def _within_lead(now: float, wall: float) -> float:
    """The later of both, unless `now` leads by more than it may."""
    return now if 0.0 < now - wall <= LEAD_S else wall
