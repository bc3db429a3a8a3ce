"""When the person is notified: by a table of looks, with a clock that the test turns."""

from __future__ import annotations

import pytest

from tellwire.core.operator.noticing import Due, Notices, Wanted, notice_words
from tellwire.core.operator.quiet_hours import is_quiet, parse_quiet
from tellwire.protocol.errors import TellwireError

NOW = 1_000.0
ASKS = Wanted("mail:4", "question", "a2", "bob", 4)
WRITES = Wanted("mail:5", "message", "a3", "carol", 5)
WAITS = Wanted("waiting:a2:9.0", "waiting", "a2", "bob", wants="Bash: rm -rf build")


@pytest.fixture
def notices() -> Notices:
    begun = Notices()
    assert look(begun, []) is None
    return begun


def look(
    notices: Notices, needs: list[Wanted], at: float = 0.0, *, looking: bool = False, quiet: bool = False
) -> Due | None:
    return notices.look(needs, NOW + at, looking=looking, quiet=quiet)


@pytest.mark.requirement("HUM-5", stage="console")
def test_a_need_makes_one_notice_and_one_reminder(notices: Notices) -> None:
    told = [look(notices, [ASKS], float(second)) for second in range(3_600)]
    assert [second for second, due in enumerate(told) if due is not None] == [0, 600]


def test_what_was_there_before_the_broker_is_not_told_again() -> None:
    notices = Notices()
    assert all(look(notices, [ASKS], float(second)) is None for second in range(1_000))
    assert look(notices, [ASKS, WRITES], 1_001) == Due(WRITES)


def test_an_approval_at_once_makes_no_notice(notices: Notices) -> None:
    assert look(notices, [WAITS], 0.0) is None
    assert look(notices, [], 0.9) is None
    assert look(notices, [WAITS], 1.0) is None, "it waits anew"
    assert look(notices, [WAITS], 2.0) == Due(WAITS)


def test_several_at_once_are_one_notice(notices: Notices) -> None:
    assert look(notices, [ASKS, WRITES]) == Due(ASKS, 1)
    assert look(notices, [ASKS, WRITES], 1.0) is None


def test_one_agent_makes_one_notice_of_a_kind_in_a_minute(notices: Notices) -> None:
    second = ASKS._replace(key="mail:6", seq=6)
    third = ASKS._replace(key="mail:7", seq=7)
    other = ASKS._replace(key="mail:8", seq=8, agent="a9", who="erin")
    assert look(notices, [ASKS]) == Due(ASKS)
    assert look(notices, [ASKS, second], 5.0) is None
    assert look(notices, [ASKS, second, other], 6.0) == Due(other)
    assert look(notices, [ASKS, second, third], 61.0) == Due(third)


@pytest.mark.requirement("HUM-5", stage="console")
def test_nobody_is_notified_while_looking_nor_later_of_what_was_seen(notices: Notices) -> None:
    assert look(notices, [ASKS], looking=True) is None
    assert all(look(notices, [ASKS], at) is None for at in (1.0, 700.0, 4_000.0))


@pytest.mark.requirement("HUM-5", stage="console")
def test_quiet_hours_end_with_one_notice_of_what_is_still_there(notices: Notices) -> None:
    gone = ASKS._replace(key="mail:9", seq=9)
    assert look(notices, [ASKS, gone], quiet=True) is None
    assert look(notices, [ASKS, gone, WRITES], 60.0, quiet=True) is None
    assert look(notices, [ASKS, WRITES], 3_000.0, quiet=True) is None, "no reminder either"
    assert look(notices, [ASKS, WRITES], 4_000.0) == Due(ASKS, 1, digest=True)
    assert all(look(notices, [ASKS, WRITES], at) is None for at in (4_001.0, 4_700.0))


def test_after_quiet_hours_in_which_all_was_answered_nothing_is_told(notices: Notices) -> None:
    look(notices, [ASKS], quiet=True)
    assert look(notices, [], 10.0) is None


def test_a_clock_that_is_set_back_makes_no_storm(notices: Notices) -> None:
    assert look(notices, [ASKS], 500.0) == Due(ASKS)
    assert [look(notices, [ASKS], at) for at in (0.0, 1.0, 2.0)] == [None] * 3


@pytest.mark.parametrize(
    ("due", "words"),
    [
        (Due(ASKS), ("bob asks: Drop it?", "")),
        (Due(WRITES, 2), ("carol writes: Drop it?", " (and 2 more)")),
        (Due(WAITS), ("bob waits for you: Bash: rm -rf build", "")),
        (Due(WAITS._replace(wants="")), ("bob waits for you", "")),
        (Due(WAITS._replace(kind="errored", wants="")), ("bob: its last turn failed", "")),
        (Due(ASKS, 1, digest=True), ("In quiet hours: bob asks: Drop it?", " (and 1 more)")),
    ],
)
def test_what_a_notice_says(due: Due, words: tuple[str, str]) -> None:
    assert notice_words(due, lambda _seq: "Drop it?") == words


@pytest.mark.parametrize(
    ("text", "quiet", "loud"),
    [
        ("22:00-07:30", [1_320, 1_439, 0, 449], [450, 1_319]),
        ("09:00-17:00", [540, 1_019], [539, 1_020]),
        ("08:00-08:00", [], [480, 0]),
        ("", [], [0]),
    ],
)
def test_quiet_hours(text: str, quiet: list[int], loud: list[int]) -> None:
    hours = parse_quiet(text)
    assert all(is_quiet(hours, minute) for minute in quiet)
    assert not any(is_quiet(hours, minute) for minute in loud)


@pytest.mark.parametrize("text", ["22-7", "24:00-07:00", "22:00", "22:00-07:60", "night"])
def test_hours_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(TellwireError, match="quiet hours") as refused:
        parse_quiet(text)
    assert "22:00-07:30" in refused.value.advice
