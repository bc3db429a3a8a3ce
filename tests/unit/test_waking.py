"""When what waits for an agent may begin a turn, or keep one from ending."""

from __future__ import annotations

import pytest

from tellwire.core.mail.notices import MUTED, NOTHING, WEAK
from tellwire.core.mail.waking import (
    BEHIND,
    BUSY,
    CONTINUATIONS_MAX,
    ENDED,
    ESC_S,
    FAILED,
    LEFT,
    NOTICES,
    OFTEN,
    PEER_WAKES_MAX,
    RETRIES,
    RETRY_S,
    STARTED,
    STARTED_S,
    STOPPED,
    WAKE_WINDOW_S,
    WAKEABLE,
    WAKES_MAX,
    Leave,
    Standing,
    Wake,
    describe,
    leave_to_wake,
    may_continue,
    recent,
)
from tellwire.core.state import Agent, Child, Receipt, State

NOW = 1_000.0
PEER = "a2"
BY_PEER = Wake(NOW, frozenset({PEER}))


def agent_with(*, mail: int = 0, notices: int = 0, muted_until: float = 0.0) -> Agent:
    agent = Agent(id="a1", name="worker", kind="claude-code", session="i")
    agent.muted, agent.muted_until = muted_until > 0, muted_until
    for seq in range(mail + notices):
        agent.pending[seq] = Receipt(PEER if seq < mail else "", 1, NOW + 60, weak=seq >= mail)
    return agent


def world_of(*agents: Agent) -> State:
    known = [
        Agent(id=id, name=name, kind="claude-code", session="i")
        for id, name in (("a2", "peer"), ("a3", "operator"), ("a4", "parent"), ("a5", "kid"), ("a6", "other"))
    ]
    state = State(agents={agent.id: agent for agent in (*agents, *known)})
    state.names = {agent.name: agent.id for agent in state.agents.values()}
    state.children = {"a1": Child(parent="a4"), "a5": Child(parent="a1")}
    return state


def leave_of(agent: Agent, standing: Standing, now: float = NOW) -> Leave:
    return leave_to_wake(world_of(agent), agent, standing, now)


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize(
    ("agent", "standing", "why"),
    [
        (agent_with(mail=1), Standing("idle"), ""),
        (agent_with(mail=1, notices=1), Standing("errored"), ""),
        (agent_with(mail=1), Standing(""), ""),
        (agent_with(mail=1), Standing("", has_ended=True), ENDED),
        (agent_with(mail=1), Standing("busy"), BUSY),
        (agent_with(mail=1), Standing("waiting"), BUSY),
        (agent_with(mail=1), Standing("errored", failures=1, failed_at=NOW), FAILED),
        (agent_with(mail=1), Standing("errored", failures=1, failed_at=NOW - RETRY_S), ""),
        (agent_with(mail=1), Standing("errored", failures=4, failed_at=NOW - 86_400), LEFT),
        (agent_with(mail=1), Standing("idle", failures=0, failed_at=NOW), ""),
        (agent_with(), Standing("idle"), NOTHING),
        (agent_with(notices=2), Standing("idle"), WEAK),
        (agent_with(mail=1, muted_until=NOW + 60), Standing("idle"), MUTED),
        (agent_with(mail=1, muted_until=NOW - 1), Standing("idle"), ""),
        (agent_with(mail=1), Standing("idle", interrupted_at=NOW - 1), STOPPED),
        (agent_with(mail=1), Standing("idle", interrupted_at=NOW - ESC_S), ""),
        (agent_with(mail=1), Standing("idle", woken_at=NOW - 0.1), STARTED),
        (agent_with(mail=1), Standing("idle", woken_at=NOW - STARTED_S), ""),
        (agent_with(mail=1), Standing("idle", wakes=[BY_PEER] * WAKES_MAX), OFTEN),
        (
            agent_with(mail=1),
            Standing("idle", wakes=[Wake(NOW - WAKE_WINDOW_S - 1, frozenset({PEER}))] * WAKES_MAX),
            "",
        ),
    ],
)
def test_an_agent_is_woken_only_with_good_reason(agent: Agent, standing: Standing, why: str) -> None:
    leave = leave_of(agent, standing)
    assert leave.why_not == why
    passes = why in (MUTED, STOPPED, OFTEN, STARTED, FAILED)
    assert (leave.again_s > 0) == passes, "what passes by itself is asked again, the rest waits for news"


def test_who_is_woken_again_and_again_comes_to_rest_and_is_woken_later() -> None:
    agent, wakes, now = agent_with(mail=1), list[Wake](), NOW
    while not (leave := leave_of(agent, Standing("idle", wakes=wakes), now)).why_not:
        wakes = [*recent(wakes, now), Wake(now, leave.senders)]
        now += 1
    assert (leave.why_not, len(wakes)) == (OFTEN, WAKES_MAX)
    assert leave.again_s == NOW + WAKE_WINDOW_S - now, "when the first wake no longer counts"
    assert not leave_of(agent, Standing("idle", wakes=wakes), now + leave.again_s).why_not


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize("sender", ["a3", "a4", "a5", "a6", "", "results"])
def test_nobody_waits_behind_a_chatty_peer(sender: str) -> None:
    agent = agent_with(mail=5)
    chatter = [BY_PEER] * WAKES_MAX
    assert leave_of(agent, Standing("idle", wakes=chatter)).why_not == OFTEN
    agent.pending[9] = Receipt("" if sender == "results" else sender, 1, NOW + 60, quotes=sender == "results")
    leave = leave_of(agent, Standing("idle", wakes=chatter))
    assert (leave.why_not, leave.senders) == ("", {sender or NOTICES}), "and the chatter counts no further"


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize(("sender", "waits"), [("a3", False), ("a4", False), ("a5", False), ("a6", True)])
def test_all_peers_together_have_a_bound_and_kin_and_operator_have_their_own(
    sender: str, waits: bool
) -> None:
    agent = agent_with()
    agent.pending[9] = Receipt(sender, 1, NOW + 60)
    crowd = [Wake(NOW, frozenset({f"b{number}"})) for number in range(PEER_WAKES_MAX)]
    assert (leave_of(agent, Standing("idle", wakes=crowd)).why_not == OFTEN) == waits
    own = [Wake(NOW, frozenset({sender}))] * WAKES_MAX
    assert leave_of(agent, Standing("idle", wakes=own)).why_not == OFTEN, "bounded on its own"


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_failed_wakes_are_tried_again_ever_later_and_then_left_to_the_human() -> None:
    agent, waits = agent_with(mail=1), list[float]()
    failures, now = 1, NOW
    while (leave := leave_of(agent, Standing("errored", failures, failed_at=now), now)).again_s:
        assert leave_of(agent, Standing("errored", failures, failed_at=now), now + leave.again_s).senders
        waits.append(leave.again_s)
        now += leave.again_s
        failures += 1
    assert waits == [60, 300, 900]
    assert describe(leave) == "left to its human after 4 failed wakes"
    assert len(waits) == len(RETRIES)


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_a_failed_wake_is_tried_again_though_its_mail_is_in_the_context() -> None:
    tried = Standing("errored", failures=1, failed_at=NOW - RETRY_S)
    assert leave_of(agent_with(), tried) == Leave()
    assert leave_of(agent_with(), tried._replace(failed_at=NOW)).why_not == FAILED
    assert leave_of(agent_with(muted_until=NOW + 60), tried).why_not == MUTED
    assert leave_of(agent_with(), tried._replace(state="busy")).why_not == BUSY


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_nobody_is_woken_for_mail_that_must_not_overtake_what_is_on_its_way() -> None:
    agent = agent_with(mail=1)
    agent.leased[0] = Receipt(PEER, 1, 60, lease=7)
    assert leave_of(agent, Standing("idle")) == Leave(BEHIND)
    agent.pending[9] = Receipt("a6", 1, NOW + 60)
    assert leave_of(agent, Standing("idle")).senders == {"a6"}


@pytest.mark.requirement("FIRST-2", stage="contact")
def test_why_an_agent_is_not_woken_is_said_with_the_next_try() -> None:
    failed = leave_of(agent_with(mail=1), Standing("errored", failures=2, failed_at=NOW - 60))
    assert describe(failed) == "its last wake failed; next try in 4 min"
    often = leave_of(agent_with(mail=1), Standing("idle", wakes=[BY_PEER] * WAKES_MAX), NOW + 90)
    assert describe(often) == f"{OFTEN}; next try in 30 s"
    assert describe(leave_of(agent_with(mail=1), Standing("busy"))) == BUSY
    assert describe(leave_of(agent_with(mail=1), Standing("idle"))) == ""


def test_a_clock_that_was_set_back_shuts_nobody_out() -> None:
    wakes = [Wake(NOW + 3_600, frozenset({PEER}))] * WAKES_MAX
    assert not leave_of(agent_with(mail=1), Standing("idle", wakes=wakes)).why_not
    for late in (
        Standing("idle", interrupted_at=NOW + 3_600),
        Standing("idle", woken_at=NOW + 3_600),
        Standing("errored", failures=1, failed_at=NOW + 3_600),
    ):
        assert not leave_of(agent_with(mail=1), late).why_not


@pytest.mark.requirement("AUD-5", stage="lineage")
def test_the_end_of_a_turn_asks_the_same_of_what_waits() -> None:
    assert may_continue(CONTINUATIONS_MAX - 1, agent_with(mail=1), NOW)
    assert not may_continue(CONTINUATIONS_MAX, agent_with(mail=1), NOW)
    assert not may_continue(0, agent_with(notices=1), NOW)
    assert not may_continue(0, agent_with(mail=1, muted_until=NOW + 60), NOW)
    assert set(WAKEABLE).isdisjoint({"busy", "waiting"})
