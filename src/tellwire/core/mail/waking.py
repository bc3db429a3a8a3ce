"""When what waits for an agent may begin a turn, or keep one from ending: rules over what its client shows.

What waits is judged by `notices.held_back`; here is the rest: what the client is doing, its human, how its
last woken turns went, and a budget for each sender, so that nobody's chatter delays another's mail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tellwire.core.mail.notices import MUTED, held_back
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.addresses import OPERATOR

WAKEABLE = ("idle", "errored", "")
"""States in which a wake may begin a turn; empty is one that nobody knows."""
WAKES_MAX = 12
WAKE_WINDOW_S = 120.0
"""The most wakes of one agent by one sender, within this many seconds."""
PEER_WAKES_MAX = 36
"""The most wakes by all senders together, except the operator, the parent, children and the broker."""
CONTINUATIONS_MAX = 8
"""Ends of turns in a row at which text may keep the turn going; some clients give up after more."""
ESC_S = 4.0
"""How long an agent is not woken after its human stopped it: the human may be typing."""
STARTED_S = 2.0
"""A wake shows as a turn within this; what comes meanwhile joins that turn."""
RETRY_S = 60.0
RETRIES = (1, 5, 15)
"""Multiples of `RETRY_S` (or the time that is set) before the next wake after a woken turn failed."""
MUTED_LOOK_S = 1.0

BUSY = "a turn is in progress"
STARTED = "it was woken just now"
FAILED = "its last wake failed"
LEFT = f"left to its human after {len(RETRIES) + 1} failed wakes"
STOPPED = "its human has just interrupted it"
BEHIND = "an earlier message of the same sender has not been read yet"
OFTEN = "it has been woken too often in the last minutes"
ENDED = "its session has ended, and no other has begun"

NOTICES, RESULTS = "notices", "results"
"""Who sends what no agent sent: the broker, and the children whose final words it passes on."""


class Wake(NamedTuple):
    """One wake: when, and whose mail it was for."""

    at: float
    senders: frozenset[str]


class Standing(NamedTuple):
    """What is known of an agent's client."""

    state: str
    failures: int = 0
    """Woken turns in a row that failed; a turn that succeeds or a human's prompt ends the row (WAKE-3)."""
    failed_at: float = 0.0
    """When the last of them did."""
    interrupted_at: float = 0.0
    """When its human stopped it, if they have said nothing since."""
    woken_at: float = 0.0
    """When it was woken, if that turn has not ended."""
    wakes: Sequence[Wake] = ()
    """The wakes so far, the first one first."""
    has_ended: bool = False
    """Its conversation is over, and no other has begun."""


class Leave(NamedTuple):
    """Whether an agent may be woken: at once, or to be asked again in a while, or not for what waits now."""

    why_not: str = ""
    again_s: float = 0.0
    """When to ask again; 0: not before something new happens."""
    senders: frozenset[str] = frozenset()
    """Whose mail the wake is for, if it may be."""


def leave_to_wake(
    state: State, agent: Agent, standing: Standing, now: float, *, retry_s: float = RETRY_S
) -> Leave:
    """Whether what waits, or a woken turn that failed, may begin a turn now; if not, why, and when to ask."""
    why = held_back(agent, now)
    if why not in ("", MUTED) and not standing.failures:
        return Leave(BUSY if standing.state not in WAKEABLE else why)
    hold = hold_of(standing, now, retry_s=retry_s)
    if hold.why_not in (BUSY, LEFT):
        return hold
    if agent.is_muted(now):
        return Leave(MUTED, MUTED_LOOK_S)
    if hold.why_not:
        return hold
    return Leave() if why else _within_budget(state, agent, recent(standing.wakes, now), now)


def hold_of(standing: Standing, now: float, *, retry_s: float = RETRY_S) -> Leave:
    """What keeps an agent from being woken, independent of the sender."""
    if standing.state not in WAKEABLE:
        return Leave(BUSY)
    if standing.has_ended:
        return Leave(ENDED)
    if standing.failures > len(RETRIES):
        return Leave(LEFT)
    for why, since, wait_s in (
        (FAILED, standing.failed_at, backoff_s(standing.failures, retry_s)),
        (STOPPED, standing.interrupted_at, ESC_S),
        (STARTED, standing.woken_at, STARTED_S),
    ):
        left_s = since + wait_s - now
        if 0 < left_s <= wait_s:  # more is left only if the clock was set back: then it holds nobody up
            return Leave(why, left_s)
    return Leave()


def describe(leave: Leave) -> str:
    """Why an agent is not woken, for people: with the time of the next try where there is one."""
    if leave.why_not in (FAILED, OFTEN, STOPPED) and leave.again_s > 0:
        return f"{leave.why_not}; next try in {_span(leave.again_s)}"
    return leave.why_not


def backoff_s(failures: int, retry_s: float) -> float:
    """How long to wait after this many failed woken turns in a row."""
    return 0.0 if not failures else RETRIES[min(failures, len(RETRIES)) - 1] * retry_s


def recent(wakes: Sequence[Wake], now: float) -> list[Wake]:
    """The wakes that count for the budget; of a clock that went back, none."""
    return [wake for wake in wakes if now - WAKE_WINDOW_S <= wake.at <= now]


def may_continue(continuations: int, agent: Agent, now: float) -> bool:
    """Whether mail may keep a turn from ending once more."""
    return continuations < CONTINUATIONS_MAX and not held_back(agent, now)


def _within_budget(state: State, agent: Agent, wakes: list[Wake], now: float) -> Leave:
    """Each sender has a budget; the wake is for those that have something left of theirs."""
    peers_wait_s = _wait_s([wake.at for wake in wakes if _are_peers(state, agent, wake)], PEER_WAKES_MAX, now)
    waits: dict[str, float] = {}
    held = {receipt.sender for receipt in agent.leased.values()}
    strong = (receipt for receipt in agent.pending.values() if not receipt.weak)
    for sender in {_sender_of(receipt) for receipt in strong if receipt.sender not in held}:
        wait_s = _wait_s([wake.at for wake in wakes if sender in wake.senders], WAKES_MAX, now)
        waits[sender] = max(wait_s, peers_wait_s) if _is_peer(state, agent, sender) else wait_s
    if not waits:
        return Leave(BEHIND)
    senders = frozenset(sender for sender, wait_s in waits.items() if wait_s <= 0)
    return Leave(senders=senders) if senders else Leave(OFTEN, min(waits.values()))


def _wait_s(times: list[float], bound: int, now: float) -> float:
    """When the budget allows one more wake."""
    return max(0.0, times[-bound] + WAKE_WINDOW_S - now) if len(times) >= bound else 0.0


def _sender_of(receipt: Receipt) -> str:
    return receipt.sender or (RESULTS if receipt.quotes else NOTICES)


def _are_peers(state: State, agent: Agent, wake: Wake) -> bool:
    return all(_is_peer(state, agent, sender) for sender in wake.senders)


def _is_peer(state: State, agent: Agent, sender: str) -> bool:
    """Whether a sender shares the budget of all: not the operator, the parent, a child or the broker."""
    if sender in (NOTICES, RESULTS):
        return False
    own, theirs, person = state.children.get(agent.id), state.children.get(sender), state.find(OPERATOR)
    is_parent = own is not None and own.parent == sender
    is_child = theirs is not None and theirs.parent == agent.id
    return not (is_parent or is_child or (person is not None and person.id == sender))


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1.0, seconds):.0f} s"
