"""The commands that wait for the next tick, and when that tick begins: at once, or after a few more calls.

A sync costs the same for one message as for a hundred. If recent ticks were larger than what waits now, the
other clients are probably writing their calls at this moment: polling the sockets again, for a fraction of
the time that a commit takes, lets them share the commit. A lone client never waits: its ticks have one call,
and one call is there.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from tellwire.broker.ports import Source
from tellwire.core.kernel import Command
from tellwire.protocol.errors import TellwireError

SHARE = 0.7
"""The longest wait, as a share of the time that a commit usually takes."""
WAIT_S_MAX = 0.000_25
FEW = 12
"""Larger ticks do not wait: they share a commit well enough already."""
DECAY = 0.9
"""By how much the expected size shrinks with each tick that was smaller."""

Job: TypeAlias = tuple[Source | None, int, Command | TellwireError]
"""The source (None: the broker itself), the number of the call, and the command or a refusal."""


class GroupCommit:
    """Remembers how large ticks were and how long commits took; a context manager around each commit."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since = 0.0
        self._expected = 0.0
        self._commit_s = 0.0
        self._began = 0.0

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

    def __enter__(self) -> None:
        self._began = self._monotonic()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._commit_s += 0.1 * (self._monotonic() - self._began - self._commit_s)


class CommandQueue:
    """The commands of the next tick. An `exclusive` operation gets a tick of its own."""

    def __init__(
        self,
        tick: Callable[[], None],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        monotonic: Callable[[], float],
        exclusive: Container[type],
    ) -> None:
        self._tick = tick
        self._call_soon = call_soon
        self._exclusive = exclusive
        self._exclusive_waits = False
        self._jobs: list[Job] = []
        self.commit_timer = GroupCommit(monotonic)
        self.scheduled = False
        """A tick will run soon."""

    @property
    def crowded(self) -> bool:
        """Whether several calls wait for the next tick."""
        return len(self._jobs) > 1

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        if type(job[2]) in self._exclusive:
            self._exclusive_waits = True
        if not self.scheduled:
            self.scheduled = True
            self._call_soon(self._tick)

    def schedule(self) -> None:
        """Have a tick soon, even if no command waits."""
        if not self.scheduled:
            self.scheduled = True
            self._call_soon(self._tick)

    def take(self) -> list[Job] | None:
        """Return the commands of this tick; None if it should run a moment later, which is then scheduled."""
        if self.commit_timer.should_wait(len(self._jobs)):
            self._call_soon(self._tick)
            return None
        self.scheduled = False
        jobs, self._jobs = self._jobs, []
        return self._split(jobs) if self._exclusive_waits else jobs

    def _split(self, jobs: list[Job]) -> list[Job]:
        """Cut the queue so that an operation that must find nothing uncommitted has a tick of its own."""
        places = [place for place, job in enumerate(jobs) if type(job[2]) in self._exclusive]
        cut = len(jobs) if not places else (places[0] or 1)
        self._exclusive_waits = bool(places) and cut < len(jobs)
        if cut < len(jobs):
            self._jobs = [*jobs[cut:], *self._jobs]
            self.schedule()
        return jobs[:cut]
