"""Kills the broker again and again under load, and counts what is lost, doubled or out of order.

    python -m tests.integration.kills --kills 1000

Ten clients, two of them in processes of their own, write numbered messages to each other without a pause. The
broker is killed with SIGKILL at random moments, also while it starts. In the end every acknowledged message
must have been shown to its recipient once, in the order of its pair, and be `read`; all clients must bear
their names and see the same listing. The last line sums up; the exit code is 1 if anything was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import tellwire
from tests.integration.talker import Report, Talker, violations_of
from tests.integration.world import ROOT, Home, until

APART = 2
"""Clients in processes of their own."""
START_S = 30.0
SETTLE_S = 120.0
PROGRESS_EVERY = 25
MOMENTS = ("any", "any", "any", "starting", "listening", "visitor")


class Run:
    """One run: the home, its clients, and what was found."""

    def __init__(self, home: Home, *, kills: int, clients: int, seed: int) -> None:
        self.home = home
        self.kills = kills
        self.names = [f"talker-{number}" for number in range(clients)]
        self.random = random.Random(seed)
        self.talkers = [Talker(name, self.names, seed=seed) for name in self.names[APART:]]
        self.violations: list[str] = []
        self.back_s: list[float] = []
        self.done = 0
        self.killed = 0

    async def go(self) -> list[Report]:
        """Talk, kill, settle, look; the reports of all clients."""
        async with AsyncExitStack() as stack:
            for talker in self.talkers:
                await stack.enter_async_context(talker.joined(self.home.path))
            apart = [Apart(name) for name in self.names[:APART]]
            for other in apart:
                stack.push_async_callback(other.end)
                await other.start(self.home, self.names)
            async with asyncio.TaskGroup() as tasks:
                receiving = [tasks.create_task(talker.receive()) for talker in self.talkers]
                talking = [tasks.create_task(talker.talk()) for talker in self.talkers]
                await self.kill_again_and_again()
                for each in (*self.talkers, *apart):
                    each.stop()
                async with asyncio.timeout(SETTLE_S):
                    await asyncio.gather(*talking)
                    await asyncio.gather(*(each.settle() for each in (*self.talkers, *apart)))
                reports = await self.look(apart)
                for task in receiving:
                    task.cancel()
            return reports

    async def look(self, apart: list[Apart]) -> list[Report]:
        """Everybody's report, once all see the same; the last ones if they never do."""
        reports: list[Report] = []

        async def same() -> bool:
            reports[:] = [await talker.report() for talker in self.talkers]
            reports.extend([await other.report() for other in apart])
            return all(report.view == reports[0].view for report in reports)

        with suppress(AssertionError):
            await until(same, within_s=60.0)
        return reports

    # -- killing --------------------------------------------------------------------------------------

    async def kill_again_and_again(self) -> None:
        """The given number of kills, each at a moment of its own."""
        while self.done < self.kills:
            moment = self.random.choice(MOMENTS)
            pid = await until(self.fresh, within_s=START_S, what="a new broker")
            if moment != "starting":
                await until(self.home.settings.socket.exists, within_s=START_S)
            if moment in ("any", "visitor"):
                await self.first_ack(time.monotonic())
                await asyncio.sleep(self.random.uniform(0.0, 0.6))
            self.count_brokers()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.killed, at = pid, time.monotonic()
            self.done += 1
            if moment == "visitor":
                await self.visit()
            if moment in ("any", "visitor"):
                self.back_s.append(await self.first_ack(at) - at)
            if self.done % PROGRESS_EVERY == 0:
                acked = sum(talker.acked for talker in self.talkers)
                print(f"{self.done} kills, {acked} acked here, {len(self.violations)} violations", flush=True)
        await self.first_ack(time.monotonic())

    def fresh(self) -> int:
        """The broker that holds the lock, if it is another than the one killed last."""
        pid = self.home.pid
        return pid if pid != self.killed and Path(f"/proc/{pid}").exists() else 0

    async def first_ack(self, since: float) -> float:
        """When the first message that was sent after `since` was acknowledged."""
        talkers = self.talkers
        await until(lambda: any(each.acked_sent_at > since for each in talkers), within_s=START_S)
        return min(each.acked_at for each in talkers if each.acked_sent_at > since)

    async def visit(self) -> None:
        """A newcomer finds the broker dead: it starts one, at the same moment as everybody else does."""
        try:
            async with tellwire.connect("visitor", home=self.home.path) as visitor:
                await visitor.peers()
        except tellwire.TellwireError as error:
            self.violate(f"a visitor was refused: {error}")

    def count_brokers(self) -> None:
        """Two processes with the database open are two brokers, unless one of them is just dying."""
        if len(pids := set(self.home.brokers())) > 1:
            time.sleep(0.2)
            if len(pids & set(self.home.brokers())) > 1:
                self.violate(f"two brokers: {pids}")

    def violate(self, what: str) -> None:
        """Note what must not be, with its time."""
        self.violations.append(f"{what} (kill {self.done}, {time.strftime('%H:%M:%S')})")


class Apart:
    """A talker in a process of its own; see `talker.main`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, home: Home, names: list[str]) -> None:
        """Start it and wait until it has joined."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.talker", self.name, *names),
            env=home.environment(),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=8 << 20,
        )
        await self.line("joined")

    async def line(self, word: str) -> Any:
        """Its next line, which must begin with `word`; what follows the word."""
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(SETTLE_S):
            line = (await self.process.stdout.readline()).decode().strip()
        assert line.startswith(word), f"{self.name} said {line!r}, not {word!r}"
        return json.loads(line.removeprefix(word) or "{}")

    def say(self, word: str) -> None:
        """Tell it to go on."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    def stop(self) -> None:
        """No more sends."""
        self.say("stop")

    async def settle(self) -> None:
        """Wait until all its messages are read."""
        await self.line("settled")

    async def report(self) -> Report:
        """What it saw."""
        self.say("report")
        return Report.of(await self.line("report"))

    async def end(self) -> None:
        """End the process."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


async def run(home: Home, *, kills: int, clients: int, seed: int) -> list[str]:
    """Run in an empty home; the violations found. The home is removed if there are none."""
    began = time.monotonic()
    try:
        work = Run(home, kills=kills, clients=clients, seed=seed)
        reports = await work.go()
        violations = work.violations + violations_of(reports)
        acked = sum(sum(report.acked.values()) for report in reports)
        back = sorted(work.back_s) or [0.0]
        for violation in violations:
            print(f"VIOLATION {violation}")
        print(
            f"{work.done} kills, {clients} clients, {acked} acked, {len(violations)} violations, "
            f"kill to first ack median {statistics.median(back) * 1000:.0f} ms max {back[-1] * 1000:.0f} ms, "
            f"seed {seed}, {time.monotonic() - began:.0f} s"
        )
        if violations:
            print(f"kept for inspection: {home.path}")
    finally:
        home.end()
    if not violations:
        shutil.rmtree(home.path)
    return violations


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Kill the broker under load and count what is lost.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--home", type=Path, help="an empty folder; one is made if left out")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    home = Home(options.home or Path(tempfile.mkdtemp(prefix="tlw-")))
    found = asyncio.run(run(home, kills=options.kills, clients=options.clients, seed=options.seed))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
