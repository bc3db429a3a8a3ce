"""`python -m tests.fuzz --minutes 10 [--seed 1] [--door mcp]`: one broker, every door in turn.

What finds a fault is written to `fuzz-findings/`; keep it, small, in `corpus/` once the fault is mended.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import DOORS, cases
from tests.fuzz.doors import Doors, FaultError
from tests.integration.leave import served
from tests.integration.world import Home

FINDINGS = Path("fuzz-findings")
CHECK_EVERY = 50
FINDINGS_MAX = 20
PARTS = 3
"""So many cases are tried on a door at a time."""


class Run:
    """Every door at once, until the time is up."""

    def __init__(self, home: Home, world: Doors, *, seed: int, minutes: float) -> None:
        self._home = home
        self._world = world
        self._seed = seed
        self._deadline = time.monotonic() + 60 * minutes
        self.tried: Counter[str] = Counter()
        self.found = 0

    async def door(self, name: str, part: int) -> None:
        """Try cases on one door; several may at the same time."""
        recent: list[bytes] = []
        for case in cases(name, self._seed * PARTS + part):
            if time.monotonic() > self._deadline or self.found >= FINDINGS_MAX:
                return
            recent.append(case)
            self.tried[name] += 1
            try:
                await self._world.attempt(name, case)
                if len(recent) == CHECK_EVERY:
                    await self._world.check()
                    recent.clear()
            except (FaultError, OSError, ValueError) as fault:
                self._note(name, fault, recent)
                recent.clear()

    def _note(self, name: str, fault: Exception, recent: list[bytes]) -> None:
        """Write down what came before a fault: the last is the likeliest."""
        self.found += 1
        print(f"fault {self.found} at {name}: {fault!r}"[:4_000], flush=True)
        FINDINGS.mkdir(exist_ok=True)
        for place, case in enumerate(reversed(recent)):
            (FINDINGS / f"{self.found:03}-{place:03}-{name}.txt").write_bytes(case)
        self._home.settings.log.write_text("", "utf-8")


async def fuzz(home: Home, doors: tuple[str, ...], *, seed: int, minutes: float) -> int:
    """Try cases until the time is up; how many faults were found."""
    world = Doors(home, await served(home))
    run = Run(home, world, seed=seed, minutes=minutes)
    async with asyncio.TaskGroup() as tasks:
        for door in doors:
            for part in range(PARTS):
                tasks.create_task(run.door(door, part))
    counts = ", ".join(f"{count} {door}" for door, count in run.tried.items())
    print(
        f"seed {seed}: {run.tried.total()} cases ({counts}), {run.found} faults, grew {world.most >> 20} MB"
    )
    return run.found


def main() -> int:
    """0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--door", choices=DOORS, action="append")
    options = parser.parse_args()
    home = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        home.up(beat_s=0.2)  # what the SDK takes is not growth
        doors = tuple(options.door or DOORS)
        return 1 if asyncio.run(fuzz(home, doors, seed=options.seed, minutes=options.minutes)) else 0
    finally:
        home.end()
        shutil.rmtree(home.path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
