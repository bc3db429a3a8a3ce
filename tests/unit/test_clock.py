"""Engine time: `now` follows the wall clock, `awake` stands still at rest, a gap holds time-outs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.system.clock import GAP_S, LEAD_S, Clock

HOLD_S = 90.0
START = 1_700_000_000.0


class Hands:
    """Both hands of a clock, turned by the test."""

    def __init__(self) -> None:
        self.wall = START
        self.monotonic = 50.0
        self.clock = Clock(hold_s=HOLD_S, wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def run(self, seconds: float) -> None:
        """The machine runs, and the broker looks every second."""
        for _ in range(int(seconds)):
            self.step(1.0, 1.0)

    def step(self, wall: float, monotonic: float) -> None:
        """Both go on, each by its own; then the broker looks once."""
        self.wall += wall
        self.monotonic += monotonic
        self.clock.read()


def test_both_times_go_on_with_the_machine() -> None:
    hands = Hands()
    hands.run(30)
    assert (hands.clock.now, hands.clock.awake, hands.clock.held) == (START + 30, 30.0, False)


@pytest.mark.requirement("F2-5")
def test_a_clock_set_back_is_followed_and_holds_time_outs() -> None:
    hands = Hands()
    hands.run(10)
    hands.step(-3600.0, 1.0)
    assert (hands.clock.now, hands.clock.awake, hands.clock.held) == (START + 10 - 3600, 11.0, True)
    hands.run(10)
    assert hands.clock.now == START + 20 - 3600


def test_a_small_step_back_makes_time_stand_still_until_the_wall_clock_has_caught_up() -> None:
    hands = Hands()
    hands.step(-LEAD_S, 0.0)
    assert (hands.clock.now, hands.clock.held) == (START, False)
    hands.run(LEAD_S)
    assert hands.clock.now == START
    hands.run(1)
    assert hands.clock.now == START + 1


@pytest.mark.requirement("F2-5")
@pytest.mark.parametrize("jump", [10.0, 3_600.0, 45 * 86_400.0, 30 * 365 * 86_400.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_jump_that_is_taken_back_does_not_leave_time_ahead(jump: float, restarts: bool) -> None:
    hands = Hands()
    hands.step(jump, 1.0)
    hands.run(14)
    ahead, awake = hands.clock.now, hands.clock.awake
    hands.wall -= jump
    if restarts:
        hands.clock = Clock(hold_s=HOLD_S, wall=lambda: hands.wall, monotonic=lambda: hands.monotonic)
        hands.clock.resume(ahead, awake)
    hands.run(1)
    assert hands.clock.now == START + 15
    assert hands.clock.awake >= awake


@pytest.mark.requirement("F2-5")
def test_a_clock_set_forward_is_followed_but_no_awake_time_passes() -> None:
    hands = Hands()
    hands.step(86_400.0, 1.0)
    assert (hands.clock.now, hands.clock.awake, hands.clock.held) == (START + 86_400, 1.0, True)


@pytest.mark.requirement("F2-5")
@pytest.mark.parametrize("monotonic_counts_sleep", [True, False])
def test_suspended_time_does_not_count(monotonic_counts_sleep: bool) -> None:
    hands = Hands()
    hands.run(5)
    hands.step(8 * 3600.0, 8 * 3600.0 if monotonic_counts_sleep else 0.5)
    assert hands.clock.awake <= 5.5
    assert hands.clock.now == START + 5 + 8 * 3600
    assert hands.clock.held


@pytest.mark.requirement("F2-5")
def test_a_gap_holds_time_outs_until_everybody_had_the_chance_to_come_back() -> None:
    hands = Hands()
    hands.step(60.0, 60.0)
    assert hands.clock.held
    hands.run(HOLD_S - 1)
    assert hands.clock.held
    hands.run(1)
    assert not hands.clock.held


def test_a_short_delay_is_no_gap() -> None:
    hands = Hands()
    hands.step(GAP_S, GAP_S)
    assert (hands.clock.awake, hands.clock.held) == (GAP_S, False)


def test_a_new_life_goes_on_from_the_times_of_the_last() -> None:
    hands = Hands()
    hands.clock.resume(START + 3, 1234.0)
    assert hands.clock.now == START + 3
    hands.run(5)
    assert (hands.clock.now, hands.clock.awake) == (START + 5, 1239.0)


def test_a_new_life_in_a_later_year_does_not_go_back_to_the_old_time() -> None:
    hands = Hands()
    hands.clock.resume(START - 500, 3.0)
    assert hands.clock.read() == START


def test_a_recent_monotonic_time_is_told_as_engine_time() -> None:
    hands = Hands()
    hands.run(10)
    assert hands.clock.wall_of(hands.monotonic - 4) == START + 6
    assert hands.clock.wall_of(hands.monotonic + 4) == START + 10


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-10, 1e6)), max_size=30))
def test_whatever_the_machines_clocks_do_awake_grows_and_now_does_not_lead(
    steps: list[tuple[float, float]],
) -> None:
    hands = Hands()
    for wall, monotonic in steps:
        now, awake = hands.clock.now, hands.clock.awake
        hands.step(wall, monotonic)
        assert hands.wall <= hands.clock.now <= hands.wall + LEAD_S
        assert hands.clock.now >= min(now, hands.wall)
        assert awake <= hands.clock.awake <= awake + GAP_S
