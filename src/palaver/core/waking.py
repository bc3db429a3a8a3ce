"""When what waits for an agent may begin a turn, or keep one from ending: rules over what its client shows.

What waits is judged by `notices.held_back`; here is the rest: what the client is doing, its human, and a
budget, so that two agents that wake each other come to rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palaver.core.notices import MUTED, NOTHING, WEAK, held_back
from palaver.core.state import Agent

WAKEABLE = ("idle", "errored", "")
"""States in which a wake may begin a turn; empty is one that nobody knows."""
WAKES_MAX = 12
WAKE_WINDOW_S = 120.0
"""At most so many wakes of one agent within so many seconds."""
CONTINUATIONS_MAX = 8
"""Ends of turns in a row at which text may keep the turn going; some clients give up after more."""
ESC_S = 4.0
"""After its human stopped it, an agent stays stopped for so long at least: the human may be typing."""
MUTED_LOOK_S = 1.0
BUDGET_LOOK_S = 20.0

BUSY = "a turn is under way"
FAILED = "its last wake failed, and it has shown no life by itself since"
STOPPED = "its human has just stopped it"
OFTEN = "it was woken often enough for now"


class Standing(NamedTuple):
    """What is known of an agent's client."""

    state: str
    has_failed: bool = False
    """It errored after a wake, and has shown no life by itself since (WAKE-3)."""
    interrupted_at: float = 0.0
    """When its human stopped it, if they have said nothing since."""
    wakes: Sequence[float] = ()
    """When it was woken, the first one first."""


class Leave(NamedTuple):
    """Whether an agent may be woken: at once, or to be asked again in a while, or not for what waits now."""

    why_not: str = ""
    again_s: float = 0.0
    """0: not before something new happens."""


def leave_to_wake(agent: Agent, standing: Standing, now: float) -> Leave:
    """Whether what waits may begin a turn now."""
    if standing.state not in WAKEABLE:
        return Leave(BUSY)
    if standing.has_failed:
        return Leave(FAILED)
    why = held_back(agent, now)
    if why in (NOTHING, WEAK):
        return Leave(why)
    if why == MUTED:
        return Leave(why, MUTED_LOOK_S)
    stopped_s = standing.interrupted_at + ESC_S - now
    if stopped_s > 0:
        return Leave(STOPPED, min(stopped_s, ESC_S))
    if len(recent(standing.wakes, now)) >= WAKES_MAX:
        return Leave(OFTEN, BUDGET_LOOK_S)
    return Leave()


def recent(wakes: Sequence[float], now: float) -> list[float]:
    """The wakes that count for the budget; of a clock that went back, none."""
    return [at for at in wakes if now - WAKE_WINDOW_S <= at <= now]


def may_continue(continuations: int, agent: Agent, now: float) -> bool:
    """Whether what waits may keep a turn from ending that it has kept so often before."""
    return continuations < CONTINUATIONS_MAX and not held_back(agent, now)
