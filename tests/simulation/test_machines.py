"""Machines lose, double and reorder nothing, whatever the wire and the disks do.

200 seeds in `make test`; `TELLWIRE_MACHINE_SEEDS=10000` runs more.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.machines_world import World

SEEDS = int(os.environ.get("TELLWIRE_MACHINE_SEEDS", "200"))
GROUPS = 4
STEPS = 120


@pytest.fixture(autouse=True)
def quiet() -> object:
    """A store that was put back is told in the log, thousands of times here."""
    log = logging.getLogger("tellwire")
    before, log.level = log.level, logging.CRITICAL
    yield
    log.level = before


def run_seeds(group: int, share: float, live: Callable[[int], World]) -> Counter[str]:
    """So many of the seeds, and what befell them."""
    trace: Counter[str] = Counter()
    for seed in range(group, int(SEEDS * share), GROUPS):
        try:
            trace += live(seed).trace
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return trace


@pytest.mark.requirement("FED-3", "NET-6", stage="federation")
@pytest.mark.parametrize("group", range(GROUPS))
def test_messages_arrive_once_and_in_order_whatever_the_carrier_does(group: int) -> None:
    def live(seed: int) -> World:
        world = World(seed)
        for _ in range(3):
            world.live(STEPS // 3)
            world.check_statuses()
        world.drain()
        world.check_once_in_order()
        world.check_nothing_lost()
        world.check_same_ends()
        world.check_replay()
        return world

    trace = run_seeds(group, 0.4, live)
    assert min(trace[word] for word in ("crash", "wiped", "asleep", "disk full")) > 0


@pytest.mark.requirement("NET-10", stage="federation")
@pytest.mark.parametrize("group", range(GROUPS))
def test_what_runs_out_of_time_is_called_the_same_on_both_sides(group: int) -> None:
    def live(seed: int) -> World:
        world = World(10_000 + seed)
        world.live(STEPS, ttl=True)
        world.check_statuses()
        world.drain()
        world.check_once_in_order()
        world.check_same_ends()
        world.check_replay()
        return world

    run_seeds(group, 0.25, live)


@pytest.mark.requirement("FED-3", stage="federation")
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_store_that_is_put_back_leaves_nobody_stuck_and_doubles_nothing_elsewhere(group: int) -> None:
    def live(seed: int) -> World:
        world = World(20_000 + seed)
        world.live(STEPS, put_back=True)
        world.drain()
        world.check_once_in_order()
        world.check_replay()
        return world

    assert run_seeds(group, 0.25, live)["put back"] > 0


@pytest.mark.requirement("FED-3", stage="federation")
def test_three_machines_do_not_disturb_each_other() -> None:
    def live(seed: int) -> World:
        world = World(30_000 + seed, labels=("desk", "laptop", "server"))
        world.hosts[2].asleep = True
        world.live(STEPS)
        world.drain()
        world.check_once_in_order()
        world.check_nothing_lost()
        world.check_same_ends()
        world.check_replay()
        return world

    run_seeds(0, 0.1, live)
