"""When what waits for an agent may begin a turn, or keep one from ending."""

from __future__ import annotations

import pytest

from palaver.core.notices import MUTED, NOTHING, WEAK
from palaver.core.state import Agent, Receipt
from palaver.core.waking import (
    BUSY,
    CONTINUATIONS_MAX,
    ESC_S,
    FAILED,
    OFTEN,
    STOPPED,
    WAKE_WINDOW_S,
    WAKEABLE,
    WAKES_MAX,
    Leave,
    Standing,
    leave_to_wake,
    may_continue,
    recent,
)

NOW = 1_000.0


def agent_with(*, mail: int = 0, notices: int = 0, muted_until: float = 0.0) -> Agent:
    agent = Agent(id="a1", name="worker", kind="claude-code", session="i")
    agent.muted, agent.muted_until = muted_until > 0, muted_until
    for seq in range(mail + notices):
        agent.pending[seq] = Receipt("a2", 1, NOW + 60, weak=seq >= mail)
    return agent


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize(
    ("agent", "standing", "why"),
    [
        (agent_with(mail=1), Standing("idle"), ""),
        (agent_with(mail=1, notices=1), Standing("errored"), ""),
        (agent_with(mail=1), Standing(""), ""),
        (agent_with(mail=1), Standing("busy"), BUSY),
        (agent_with(mail=1), Standing("waiting"), BUSY),
        (agent_with(mail=1), Standing("errored", has_failed=True), FAILED),
        (agent_with(), Standing("idle"), NOTHING),
        (agent_with(notices=2), Standing("idle"), WEAK),
        (agent_with(mail=1, muted_until=NOW + 60), Standing("idle"), MUTED),
        (agent_with(mail=1, muted_until=NOW - 1), Standing("idle"), ""),
        (agent_with(mail=1), Standing("idle", interrupted_at=NOW - 1), STOPPED),
        (agent_with(mail=1), Standing("idle", interrupted_at=NOW - ESC_S), ""),
        (agent_with(mail=1), Standing("idle", wakes=[NOW] * WAKES_MAX), OFTEN),
        (agent_with(mail=1), Standing("idle", wakes=[NOW - WAKE_WINDOW_S - 1] * WAKES_MAX), ""),
    ],
)
def test_an_agent_is_woken_only_with_good_reason(agent: Agent, standing: Standing, why: str) -> None:
    leave = leave_to_wake(agent, standing, NOW)
    assert leave.why_not == why
    passes = why in (MUTED, STOPPED, OFTEN)
    assert (leave.again_s > 0) == passes, "what passes by itself is asked again, the rest waits for news"


def test_who_is_woken_again_and_again_comes_to_rest_and_is_woken_later() -> None:
    agent, wakes, now = agent_with(mail=1), list[float](), NOW
    while not (leave := leave_to_wake(agent, Standing("idle", wakes=wakes), now)).why_not:
        wakes = [*recent(wakes, now), now]
        now += 1
    assert (leave.why_not, len(wakes)) == (OFTEN, WAKES_MAX)
    assert leave_to_wake(agent, Standing("idle", wakes=wakes), now + WAKE_WINDOW_S) == Leave()


def test_a_clock_that_was_set_back_shuts_nobody_out() -> None:
    wakes = [NOW + 3_600] * WAKES_MAX
    assert leave_to_wake(agent_with(mail=1), Standing("idle", wakes=wakes), NOW) == Leave()
    late = Standing("idle", interrupted_at=NOW + 3_600)
    assert leave_to_wake(agent_with(mail=1), late, NOW).again_s <= ESC_S


@pytest.mark.requirement("AUD-5", stage="lineage")
def test_the_end_of_a_turn_asks_the_same_of_what_waits() -> None:
    assert may_continue(CONTINUATIONS_MAX - 1, agent_with(mail=1), NOW)
    assert not may_continue(CONTINUATIONS_MAX, agent_with(mail=1), NOW)
    assert not may_continue(0, agent_with(notices=1), NOW)
    assert not may_continue(0, agent_with(mail=1, muted_until=NOW + 60), NOW)
    assert set(WAKEABLE).isdisjoint({"busy", "waiting"})
