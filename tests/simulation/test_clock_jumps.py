"""A clock that is set forward and back, by seconds to years, with restarts in between: nothing is lost by it.

The same life is lived twice, with a clock that jumps and with one that does not: both must keep the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellwire.broker.housekeeping import Housekeeping
from tellwire.broker.ports import Journal
from tellwire.broker.server import Server
from tellwire.broker.ticker import SLOW_BEAT_S, Ticker
from tellwire.core.context import EndSession
from tellwire.core.limits import Limits
from tellwire.core.record.stored import Query
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.messages import ConfirmMessages, SendMessage
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tellwire.system.clock import LEAD_S
from tests.simulation.bench import Bench

DAY_S = 86_400.0
RETENTION_S = FORGET_S = 30 * DAY_S
BEAT_S = 4.0
JUMPS = (3.0, 60.0, 3_600.0, DAY_S, 45 * DAY_S, 30 * 365 * DAY_S)


class World(Bench):
    """A broker with its ticker and its housekeeping, whose clock the test turns."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, Limits(forget_after_s=FORGET_S))
        self.timers: list[Callable[[], None]] = []
        self.off = 0.0
        """By how much the wall clock is wrong."""
        self._begin()
        self.alice, self.bob = self.join("alice"), self.join("bob")
        gone = self.join("gone")
        self.life.engine.submit(gone, 0, EndSession(gone.caller.agent, "s-gone"))
        self.life.run()

    def _begin(self) -> None:
        engine = self.life.engine
        server = Server(engine, Limits(), version="x", heartbeat_s=30, greeting_s=10, connections_max=10)
        self.ticker = Ticker(engine, server, beat_s=BEAT_S, offline_after_s=90.0)
        self.keeping = Housekeeping(
            engine,
            self.tap.journal,
            retention_s=RETENTION_S,
            call_later=lambda _, action: self.timers.append(action),
            fatal=self._fail,
        )
        engine.commits.observe(self.keeping.after_commit)

    def _fail(self, error: TellwireError) -> None:
        raise AssertionError(error)

    def settle(self, body: str) -> int:
        """A message that was sent and read."""
        sent = self.call(self.alice, SendMessage(to="bob", body=body))
        self.call(self.bob, ConfirmMessages(ids=[sent.id]))
        return self.life.state.seq

    def jump(self, seconds: float) -> None:
        """Set the wall clock; no system takes a time before 1970."""
        seconds = max(seconds, -self.time.wall)
        self.off += seconds
        self.time.wall += seconds

    def live(self, seconds: float) -> None:
        """Let real time go by, with beats and idle moments; a long while goes by in fewer steps."""
        for port in (self.alice, self.bob):
            port.last_seen = float("inf")
        for _ in range(int(seconds / BEAT_S)):
            self.time.pass_by(BEAT_S)
            self.ticker.beat()
            self.life.run()
        self.rest()

    def rest(self) -> None:
        """Idle moments, until housekeeping has nothing left to do."""
        self.keeping.snapshot()
        self.keeping.snapshot()
        self.keeping.after_commit()
        for _ in range(300):
            timers, self.timers = self.timers, []
            for timer in timers:
                timer()
            self.life.run()
            if not self.timers:
                return

    def restart(self) -> None:
        super().restart()
        self.timers = []
        self._begin()
        self.alice, self.bob = self.join("alice"), self.join("bob")

    def kept(self) -> list[str]:
        """The bodies that history still has, in order."""
        found = self.tap.journal.find(Query(200, 1 << 20))
        return [message.body for message in reversed(found.messages)]


def step(world: World, number: int, *, jump: float, seconds: float, restarts: bool) -> None:
    world.settle(f"before {number}")
    world.jump(jump)
    world.live(seconds)
    if restarts:
        world.restart()
    world.settle(f"after {number}")
    world.live(BEAT_S)


@pytest.mark.requirement("NET-9", "F2-5")
@pytest.mark.parametrize("jump", [sign * jump for jump in JUMPS for sign in (1, -1)])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_jump_that_is_taken_back_loses_nothing_and_leaves_no_time_ahead(
    tmp_path: Path, jump: float, restarts: bool
) -> None:
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as journal:
        world = World(journal)
        for number in range(8):
            world.settle(f"settled {number}")
        world.live(SLOW_BEAT_S)
        before = world.kept()
        world.jump(jump)
        world.live(SLOW_BEAT_S + 100.0)  # longer than time-outs are held, and than the slow beat needs
        during = world.life.state.seq
        world.settle("meanwhile")
        world.jump(-jump)
        if restarts:
            world.restart()
        world.live(SLOW_BEAT_S)
        assert world.kept() == [*before, "meanwhile"]
        assert world.life.state.find("gone") is not None, "a wrong clock makes nobody forgotten"
        world.life.engine.clock.read()
        assert world.life.engine.clock.now - world.time.wall <= LEAD_S
        assert world.life.state.seq > during
        world.settle("since")
        since = Query(10, 1 << 20, since=world.time.wall - 60.0)
        assert journal.find(since).messages[0].body == "since"


@pytest.mark.requirement("NET-9", "F2-5")
@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([sign * jump for jump in JUMPS for sign in (0, 1, -1)]),
            st.sampled_from([BEAT_S, 14.0, SLOW_BEAT_S]),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    in_memory=st.booleans(),
)
def test_whatever_the_clock_does_history_is_what_it_would_be_without(
    steps: list[tuple[float, float, bool]], in_memory: bool
) -> None:
    with TemporaryDirectory() as folder:
        kept: list[list[str]] = []
        for jumps in (True, False):
            journal = MemoryJournal() if in_memory else SqliteJournal(Path(folder) / f"{jumps}.db")
            with closing(journal):
                world = World(journal)
                for number, (jump, seconds, restarts) in enumerate(steps):
                    step(world, number, jump=jump * jumps, seconds=seconds, restarts=restarts)
                world.jump(-world.off)
                world.live(SLOW_BEAT_S)
                assert world.life.engine.clock.now - world.time.wall <= LEAD_S
                assert world.life.state.find("gone") is not None
                kept.append(world.kept())
        assert kept[0] == kept[1]


@pytest.mark.requirement("F2-5")
def test_history_goes_after_its_time_whatever_the_clock_said_when_it_was_written() -> None:
    world = World(MemoryJournal())
    world.settle("old")
    world.jump(45 * DAY_S)
    world.settle("with a wrong clock")
    world.jump(-45 * DAY_S)
    world.settle("after")
    clock = world.life.engine.clock
    clock.awake += RETENTION_S - 60.0  # it ran for so long
    world.settle("young")
    world.live(SLOW_BEAT_S)
    clock.awake += 4_000.0
    world.settle("younger")
    world.live(SLOW_BEAT_S)
    assert world.kept() == ["young", "younger"]
