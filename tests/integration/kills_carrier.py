"""Kills Redis again and again under load between two machines, and counts what is lost, doubled or reordered.

    python -m tests.integration.kills_carrier --kills 300

Five agents on each of two brokers write numbered messages to those on the other one. Redis is killed with
SIGKILL at random moments and started empty. In the end every message whose send was answered must have been
shown to its recipient once, in the order of its pair. The last line sums up; the exit code is 1 if anything
was violated.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import tellwire
from tests.integration.machines_world import Computer, computers, pair_over_redis
from tests.integration.redis_server import RedisServer
from tests.integration.world import until

AGENTS = 5
"""On each machine."""
PAUSE_S = 0.01
SETTLE_S = 120.0
PROGRESS_EVERY = 25


class Writer:
    """One agent: writes to a partner on the other machine, and notes what comes from there."""

    def __init__(self, name: str, partner: str) -> None:
        self.name = name
        self.partner = partner
        self.sent = 0
        self.got: dict[str, list[int]] = defaultdict(list)
        self.agent: tellwire.Agent | None = None

    async def write(self, stop: asyncio.Event) -> None:
        """Send numbers without an end."""
        assert self.agent is not None
        while not stop.is_set():
            try:
                await self.agent.send(self.partner, str(self.sent))
                self.sent += 1
            except tellwire.TellwireError as error:
                if error.code != "machine_full":
                    raise
            await asyncio.sleep(PAUSE_S)

    async def read(self) -> None:
        """Take what comes."""
        assert self.agent is not None
        while True:
            messages = await self.agent.messages(wait_s=5.0)
            for message in messages:
                if message.sender != "tellwire":
                    self.got[message.sender].append(int(str(message.body)))
            if messages:
                await self.agent.confirm([message.id for message in messages])


class Result:
    """What one run came to."""

    def __init__(self) -> None:
        self.messages = 0
        self.violations: list[str] = []
        self.settled_s = 0.0


async def run(kills: int, *, seed: int = 1) -> Result:
    """Pair two machines, write, kill, settle, and count."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        await server.start()
        try:
            async with computers("laptop", "desk") as (laptop, desk):
                await pair_over_redis(laptop, desk, server.url)
                return await _load(server, laptop, desk, kills, random.Random(seed))
        finally:
            await server.kill()


async def _load(
    server: RedisServer, laptop: Computer, desk: Computer, kills: int, dice: random.Random
) -> Result:
    result = Result()
    writers: list[Writer] = []
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        for here, there in ((laptop, desk), (desk, laptop)):
            for number in range(AGENTS):
                each = Writer(f"{here.label}-{number}", f"{there.label}:{there.label}-{number}")
                each.agent = await stack.enter_async_context(tellwire.connect(each.name, home=here.path))
                writers.append(each)
        await until(lambda: _all_listed(writers), what="all agents are known on both machines")
        reading = [asyncio.create_task(each.read()) for each in writers]
        writing = [asyncio.create_task(each.write(stop)) for each in writers]
        for number in range(1, kills + 1):
            await asyncio.sleep(dice.uniform(0.05, 0.6))
            await server.kill()
            await asyncio.sleep(dice.choice((0.0, 0.0, 0.3)))
            await server.start()
            if number % PROGRESS_EVERY == 0:
                print(f"{number} kills, {sum(each.sent for each in writers)} messages", flush=True)
        stop.set()
        await asyncio.gather(*writing)
        began = time.monotonic()
        missing = lambda: sum(each.sent for each in writers) - _count(writers)  # noqa: E731 - read twice
        try:
            await until(lambda: missing() <= 0, within_s=SETTLE_S, what="all messages came")
        except AssertionError:
            result.violations.append(f"{missing()} messages are lost")
        result.settled_s = time.monotonic() - began
        for task in reading:
            task.cancel()
    result.messages = sum(each.sent for each in writers)
    result.violations += _violations(writers)
    return result


async def _all_listed(writers: list[Writer]) -> bool:
    for each in writers:
        assert each.agent is not None
        names = {peer.name for peer in await each.agent.peers(all=True)}
        if each.partner not in names:
            return False
    return True


def _count(writers: list[Writer]) -> int:
    return sum(len(numbers) for each in writers for numbers in each.got.values())


def _violations(writers: list[Writer]) -> list[str]:
    by_name = {each.name: each for each in writers}
    found: list[str] = []
    for each in writers:
        for sender, numbers in each.got.items():
            expected = list(range(by_name[sender.partition(":")[2]].sent))
            if sorted(numbers) != expected:
                lost, doubled = set(expected) - set(numbers), len(numbers) - len(set(numbers))
                found.append(f"{sender} to {each.name}: {len(lost)} lost, {doubled} doubled")
            elif numbers != expected:
                found.append(f"{sender} to {each.name}: out of order")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    result = asyncio.run(run(arguments.kills, seed=arguments.seed))
    for words in result.violations:
        print(words)
    print(
        f"{arguments.kills} kills of Redis, {result.messages} messages, {len(result.violations)} violations, "
        f"all there {result.settled_s:.2f} s after the last one"
    )
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
