"""The console never lies: an overview and the feed behind it give the state, whatever happens.

200 seeds in `make test`; `TELLWIRE_CONSOLE_SEEDS=10000` runs more.
"""

from __future__ import annotations

import os

import pytest

from tellwire.broker import feed
from tellwire.core.record import audit
from tests.simulation.console_world import World

SEEDS = int(os.environ.get("TELLWIRE_CONSOLE_SEEDS", "200"))
GROUPS = 8
STEPS = 100


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that pages, gaps and resets come often."""
    monkeypatch.setattr(feed, "PAGE_MAX", 4)
    monkeypatch.setattr(feed, "BEHIND_MAX", 12)
    monkeypatch.setattr(audit, "REPLAY_MAX", 10)


@pytest.mark.requirement("HUM-3", stage="console")
@pytest.mark.parametrize("group", range(GROUPS))
def test_the_picture_of_a_console_is_the_state(group: int) -> None:
    gaps = resets = resumed = crashes = 0
    for seed in range(group, SEEDS, GROUPS):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
                world.check()
            if world.console.port is not None and not world.console.port.writable:
                world.stall()
                world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        gaps, resets = gaps + world.console.gaps, resets + world.console.resets
        resumed, crashes = resumed + world.console.resumed, crashes + world.crashes
    if SEEDS >= 200:
        assert min(gaps, resets, resumed, crashes) > 0, "nothing of what is feared happened"
