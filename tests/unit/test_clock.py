"""Engine time: `now` never goes back, `awake` stands still while nothing runs, and a gap holds time-outs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.broker.clock import GAP_S, Clock

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
def test_a_clock_set_back_does_not_take_time_back_and_holds_time_outs() -> None:
    hands = Hands()
    hands.run(10)
    hands.step(-3600.0, 1.0)
    assert (hands.clock.now, hands.clock.awake, hands.clock.held) == (START + 11, 11.0, True)
    hands.run(10)
    assert hands.clock.now == START + 21


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
    hands.clock.resume(START + 500, 1234.0)
    hands.run(2)
    assert (hands.clock.now, hands.clock.awake) == (START + 502, 1236.0)


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
def test_whatever_the_machines_clocks_do_neither_time_goes_back(steps: list[tuple[float, float]]) -> None:
    hands = Hands()
    for wall, monotonic in steps:
        now, awake = hands.clock.now, hands.clock.awake
        hands.step(wall, monotonic)
        assert hands.clock.now >= now
        assert awake <= hands.clock.awake <= awake + GAP_S
