"""The rate of one caller, and the bound on nesting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.limits import DEPTH_MAX, Bucket, check_depth
from tests.unit.mesh import refused


@pytest.mark.requirement("SEC-3")
def test_a_burst_of_one_seconds_worth_is_free_and_then_the_rate_holds() -> None:
    bucket = Bucket(5.0, 5.0, 0.0)
    assert [bucket.take(0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [bucket.take(0.2) for _ in range(2)] == [True, False]
    assert [bucket.take(10.0) for _ in range(6)] == [True] * 5 + [False]


@given(st.lists(st.floats(0.0, 2.0), max_size=60), st.integers(1, 20))
def test_no_pattern_of_calls_gets_more_than_the_rate_and_one_burst(gaps: list[float], rate: int) -> None:
    bucket, now, taken = Bucket(float(rate), float(rate), 0.0), 0.0, 0
    for gap in gaps:
        now += gap
        taken += sum(bucket.take(now) for _ in range(rate))
    assert taken <= rate * (now + 1) + 1e-6


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    bucket = Bucket(1.0, 1.0, 100.0)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)


def nested(depth: int, *, as_object: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if as_object else [value]
    return value


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("as_object", [True, False])
def test_json_nested_too_deeply_is_refused(as_object: bool) -> None:
    check_depth(nested(DEPTH_MAX, as_object=as_object), "body")
    with refused("limit_exceeded") as caught:
        check_depth(nested(DEPTH_MAX + 1, as_object=as_object), "body")
    assert "body" in caught.value.message


def test_breadth_and_texts_are_not_depth() -> None:
    check_depth([[1, 2, "[[[["], {"a": []}] * 100, "body")
    check_depth("x" * 1000, "body")
