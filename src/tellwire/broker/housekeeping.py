"""Work for idle moments: derived tables, snapshots, deleting old history. Always in small slices.

Under endless load a slice is forced once too much has piled up, so that a restart replays a bounded tail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from tellwire.broker.engine import NOT_NOW, Engine
from tellwire.broker.ports import Journal
from tellwire.core.record.stored import Pruned
from tellwire.core.state import format_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.history import Purged, PurgeHistory

log = logging.getLogger("tellwire.housekeeping")

SLICE_COMMITS = 200
LAG_EVENTS_MAX = 100_000
SNAPSHOT_EVENTS = 20_000
SNAPSHOT_EVENTS_MAX = 100_000
PRUNE_COMMITS = 50
INDEX_LAG_EVENTS_MAX = 200_000
"""From here on messages are indexed under load too, a slice now and then: a question pages over the rest."""


class HousekeepingTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How often each kind of work is done, and for how long."""

    idle_s: float = 0.02
    """After this long without a commit the broker is idle."""
    prune_every_s: float = 3_600.0
    index_every_s: float = 0.2
    head_every_s: float = 1.0
    purge_s: float = 0.005
    """How long one purge works before it answers."""


class Housekeeping:
    """Runs between the engine's ticks, on the same loop."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        *,
        retention_s: float,
        call_later: Callable[[float, Callable[[], None]], object],
        fatal: Callable[[TellwireError], None],
        times: HousekeepingTimes | None = None,
    ) -> None:
        self._times = times or HousekeepingTimes()
        self._engine = engine
        self._journal = journal
        self._retention_s = retention_s
        self._call_later = call_later
        self._fatal = fatal
        self._scheduled = False
        self._seq_seen = 0
        self._snapshot_seq = max((seq for seq, _ in journal.snapshots()), default=0)
        self._prune_at = 0.0
        self._index_at = 0.0
        self._head_at = 0.0
        self._head_waits = False
        self._alone_seq = -1
        """The sequence of the snapshot, if there is only one."""

    def after_commit(self) -> None:
        """Something was committed: look for an idle moment."""
        if not self._scheduled:
            self._scheduled = True
            self._call_later(self._times.idle_s, self._look)

    def _look(self) -> None:
        self._scheduled = False
        if self._engine.storage.error is not None:
            return
        seq = self._engine.state.seq
        idle = seq == self._seq_seen
        self._seq_seen = seq
        try:
            more = self._work(idle=idle)
        except TellwireError as error:
            if error.code not in NOT_NOW:
                self._fatal(error)
            log.warning("housekeeping waits: %s", error)
            return
        if more or not idle:
            self.after_commit()

    def _work(self, *, idle: bool) -> bool:
        """Do one slice of what is most urgent; True if more is left."""
        seq = self._engine.state.seq
        lag = seq - self._snapshot_seq
        # A snapshot costs as much as the state is large: the more is open, the rarer.
        if (idle and lag >= SNAPSHOT_EVENTS) or (
            lag >= SNAPSHOT_EVENTS_MAX and lag >= SNAPSHOT_EVENTS_MAX + self._engine.state.waiting()
        ):
            self.snapshot()
            return True
        if idle or seq - self._journal.derived() > LAG_EVENTS_MAX:
            return self._journal.derive(SLICE_COMMITS) or (idle and self._settle_down())
        now = self._engine.clock.monotonic()
        if now >= self._index_at and seq - self._journal.indexed() > INDEX_LAG_EVENTS_MAX:
            self._index_at = now + self._times.index_every_s
            self._journal.index()
        self._save_head()  # a broker that is never idle must not leave its proof behind
        return True

    def _settle_down(self) -> bool:
        """Do what is done only in idle moments; True if more is left."""
        return self._journal.index() or self._prune() or self._save_head()

    def _save_head(self) -> bool:
        """Not more often than every second: it costs a sync of its own."""
        now = self._engine.clock.monotonic()
        if now >= self._head_at:
            self._head_at = now + self._times.head_every_s
            self._journal.save_head()
        elif not self._head_waits:
            self._head_waits = True
            self._call_later(self._head_at - now, self._save_head_late)
        return False

    def _save_head_late(self) -> None:
        self._head_waits = False
        self._head_at = self._engine.clock.monotonic() + self._times.head_every_s
        try:
            self._journal.save_head()
        except TellwireError as error:
            log.warning("the head waits: %s", error)

    def _prune(self) -> bool:
        awake = self._engine.clock.awake  # a clock that is set forward makes nothing old
        if awake < self._prune_at:
            return False
        open_from = self._engine.state.oldest_open()
        done = self._journal.prune(awake - self._retention_s, open_from, PRUNE_COMMITS)
        self._engine.storage.release(done.freed)
        if done.more:
            return True
        self._prune_at = awake + self._times.prune_every_s
        return False

    def purge(self, operation: PurgeHistory) -> Purged:
        """Delete settled history now, for a few milliseconds; nothing may be uncommitted.

        Raises:
            TellwireError: `bad_request`, or the disk does not take it.
        """
        if not operation.older_than_s >= 0:
            raise TellwireError("bad_request", "`older_than_s` must not be negative.")
        if self._engine.storage.error is not None:
            raise self._engine.storage.error
        before = self._engine.clock.now - operation.older_than_s
        monotonic = self._engine.clock.monotonic
        until = monotonic() + self._times.purge_s
        commits = messages = 0
        more = True
        try:
            while more:
                done = self._purge_slice(before)
                commits, messages, more = commits + done.commits, messages + done.messages, done.more
                if monotonic() >= until:
                    break
        except TellwireError as error:
            if error.code not in NOT_NOW:
                self._fatal(error)
            raise
        oldest, open_from = self._journal.oldest(), self._engine.state.oldest_open()
        held = oldest is not None and oldest[1] < before and open_from <= self._engine.state.seq
        held_by = format_id("m", open_from) if held and not more else ""
        return Purged(messages=messages, commits=commits, more=more, held_by=held_by)

    def _purge_slice(self, before: float) -> Pruned:
        """Delete one slice, after deriving what is missing and dropping an older snapshot in the way."""
        state, journal = self._engine.state, self._journal
        oldest = journal.oldest()
        if oldest is None or oldest[1] >= before or oldest[0] >= state.oldest_open():
            return Pruned()
        if journal.derived() < state.seq and journal.derive(SLICE_COMMITS):
            return Pruned(more=True)
        done = journal.purge(before, state.oldest_open(), PRUNE_COMMITS)
        self._engine.storage.release(done.freed)
        if not done.more and self._alone_seq < state.seq:
            # The older snapshot keeps these commits from being deleted: keep only the newest one.
            journal.save_snapshot(state.seq, format_snapshot(state), keep=1)
            self._snapshot_seq = self._alone_seq = state.seq
            return Pruned(more=True)
        return done

    def snapshot(self) -> None:
        """Save the state, so that a restart replays only what follows."""
        state = self._engine.state
        self._journal.save_snapshot(state.seq, format_snapshot(state))
        self._snapshot_seq = state.seq
        self._journal.save_head()

    def finish(self) -> None:
        """At a clean stop: leave nothing to replay."""
        if self._engine.storage.error is not None:
            return
        if self._engine.state.seq > self._snapshot_seq:
            self.snapshot()
        self._journal.save_head()
