"""The broker dies again and again beneath ten MCP sessions in mid-call, and their clients never notice."""

import asyncio
import json
import os
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mcp_world import ERAS, Shim, Shims, open_shims, result_of
from tests.integration.world import Home, until

KILLS = int(os.environ.get("TELLWIRE_TEST_MCP_KILLS", "20"))
SHIMS = 10
BACK_S = 60.0
ROUND_S = 12.0
DELAY_S_MAX = 0.15


class Talker:
    """One session: it holds a fetch open all the time, and sends to the others meanwhile."""

    def __init__(self, shim: Shim, name: str, others: list[str], dice: random.Random) -> None:
        self.shim = shim
        self.name = name
        self.others = others
        self.dice = dice
        self.stopping = False
        self.asked: list[int] = []
        self.acked: dict[str, str] = {}
        """What was said to whom, by the id of the message."""
        self.counts: Counter[str] = Counter()
        self.got: list[tuple[str, str]] = []
        """What came: the id and the body, in the order of coming."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the answer must be a result."""
        number, line = self.shim.tool(tool, arguments)
        self.asked.append(number)
        await self.shim.write(line)
        try:
            result = result_of(await self.shim.arrival(number, within_s=BACK_S))
        except TimeoutError:
            raise AssertionError(f"{self.name}: no answer to {number}, {tool} {arguments}") from None
        assert not result.failed, f"{self.name}, {tool}: {result.text}"
        return result.data

    async def fetch(self, total: asyncio.Future[int]) -> None:
        """Take messages until as many came as there will be."""
        while not (total.done() and len(self.got) >= total.result()):
            data = await self.call("get_messages", wait_s=2 if self.stopping else 20)
            self.got += [(each["id"], each["body"]) for each in data["messages"]]

    async def speak(self) -> None:
        """Send numbered messages, one after the other."""
        while not self.stopping:
            to = self.dice.choice(self.others)
            body = json.dumps([self.name, to, self.counts[to]])
            data = await self.call("agent_send", to=to, body=body)
            self.counts[to] += 1
            self.acked[str(data["id"])] = body


class Killer:
    """Ends the broker, whenever it pleases."""

    def __init__(self, home: Home, talkers: list[Talker], dice: random.Random) -> None:
        self.home = home
        self.talkers = talkers
        self.dice = dice
        self.killed = 0
        self.slowest_s = 0.0

    async def kill(self) -> None:
        """Wait for a broker that lives, sometimes for what it does, and kill it."""
        await until(lambda: self.home.pid != self.killed and is_running(self.home.pid), within_s=BACK_S)
        if self.dice.random() < 0.8:  # else while it starts
            began = time.monotonic()
            acked = self.acked()
            await until(
                lambda: self.acked() > acked + 20, within_s=BACK_S, what="messages are accepted again"
            )
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            moment = time.monotonic() + self.dice.random() * DELAY_S_MAX
            await until(lambda: time.monotonic() > moment)
        assert len(brokers := self.home.brokers()) <= 1, f"two brokers: {brokers}"
        self.killed = self.home.pid
        self.home.signal(self.home.KILL)
        await until(lambda: not is_running(self.killed))

    def acked(self) -> int:
        """How many messages were accepted so far."""
        return sum(len(talker.acked) for talker in self.talkers)


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.mark.requirement("REC-2", "REC-3", "NET-8", stage="mcp")
@pytest.mark.timeout(60 + KILLS * ROUND_S)
async def test_the_broker_is_killed_in_mid_call_and_no_client_notices(home: Home) -> None:
    dice = random.Random(11)
    names = [f"agent{number}" for number in range(SHIMS)]
    async with open_shims(home) as shims:
        talkers = [await join(shims, names, place, dice) for place in range(SHIMS)]
        totals: dict[str, asyncio.Future[int]] = {
            name: asyncio.get_running_loop().create_future() for name in names
        }
        killer = Killer(home, talkers, dice)
        async with asyncio.TaskGroup() as tasks:
            for talker in talkers:
                tasks.create_task(talker.fetch(totals[talker.name]))
            speaking = [tasks.create_task(talker.speak()) for talker in talkers]
            for _ in range(KILLS):
                await killer.kill()
            for talker in talkers:
                talker.stopping = True
            await asyncio.wait(speaking)
            for name in names:
                totals[name].set_result(sum(talker.counts[name] for talker in talkers))
        for talker in talkers:
            assert (await talker.shim.call("get_messages")).ids == [], (
                "nothing is left, and nothing comes twice"
            )
        assert violations(talkers) == []
        assert home.brokers() == [home.pid]
        assert "Traceback" not in home.log
    print(f"{KILLS} kills, {killer.acked()} messages, slowest recovery {killer.slowest_s:.2f} s")


async def join(shims: Shims, names: list[str], place: int, dice: random.Random) -> Talker:
    """Start the session of one of them; the eras take turns."""
    name = names[place]
    shim = await shims.open(name, era=ERAS[place % len(ERAS)])
    return Talker(shim, name, [other for other in names if other != name], random.Random(dice.random()))


def violations(talkers: list[Talker]) -> list[str]:
    """What must not be: an answer too many or too few, a message lost, doubled or out of its order."""
    found: list[str] = []
    acked: dict[str, str] = {}
    for talker in talkers:
        acked |= talker.acked
        counts = {number: len(talker.shim.answers[number]) for number in talker.asked}
        found += [
            f"{talker.name}: {count} answers to {number}" for number, count in counts.items() if count != 1
        ]
        if talker.shim.answers[None]:
            found.append(f"{talker.name}: {talker.shim.answers[None]}")
    got = [each for talker in talkers for each in talker.got]
    times = Counter(message for message, _ in got)
    found += [f"{message} came {times[message]} times" for message in acked if times[message] != 1]
    found += [f"{message} was never sent" for message in times if message not in acked]
    for talker in talkers:
        orders: defaultdict[str, list[int]] = defaultdict(list)
        for message, body in talker.got:
            sender, to, number = json.loads(body)
            if to != talker.name or acked.get(message) != body:
                found.append(f"{talker.name} got {message}, {body}")
            orders[sender].append(number)
        found += [
            f"{sender} to {talker.name}: {numbers}"
            for sender, numbers in orders.items()
            if numbers != list(range(len(numbers)))
        ]
    return found
