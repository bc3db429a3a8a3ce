"""What is kept of fuzzing, played again, and a little more of it by a fixed seed."""

from __future__ import annotations

import itertools

import pytest

from tellwire.daemon import Times
from tellwire.sessions.doors.hook_http import HttpTimes
from tellwire.wiring import SessionTimes
from tests.fuzz.cases import DOORS, cases, samples
from tests.fuzz.doors import Doors
from tests.integration.leave import served
from tests.integration.world import Home

MORE = 40
HURRIED = Times(sessions=SessionTimes(endpoint_s=0.05, http=HttpTimes(head_s=0.3, body_s=0.3)))
"""Half of the requests are cut short, and each of them is waited for."""


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("door", DOORS)
async def test_changed_input_harms_nobody_and_leaves_nobody_waiting(home: Home, door: str) -> None:
    home.up(HURRIED, beat_s=0.2)
    doors = Doors(home, await served(home))
    for case in itertools.islice(cases(door, 7), len(samples(door)) + MORE):
        await doors.attempt(door, case)
    await doors.check()
