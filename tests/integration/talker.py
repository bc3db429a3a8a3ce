"""One client of the kill test: writes numbered messages to all others, and checks what it gets.

As a program it is a client in a process of its own, led by lines on stdin:

    python -m tests.integration.talker NAME ALL-NAMES...
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

import tellwire
from tests.integration.world import until

LANES = 2
"""Sends to different recipients under way at once."""
BURST_MAX = 3
"""Sends to one recipient under way at once."""
PACE_S = 0.005
"""Between the bursts of a lane: load enough, and a thousand kills do not fill the disk."""
BACK_WITHIN_S = 20.0
SETTLE_S = 60.0
ASK_AT_ONCE = 50


class Report(msgspec.Struct):
    """What one client did and saw."""

    name: str
    born_as: str
    acked: dict[str, int]
    """Acknowledged messages by recipient."""
    seen: dict[str, int]
    """Messages shown, by sender."""
    faults: list[str]
    view: dict[str, str]
    """Names and their status."""

    @classmethod
    def of(cls, data: Any) -> Report:
        """Read a report that came out of another process."""
        return msgspec.convert(data, cls)


class Talker:
    """Sends, receives and confirms until told to stop."""

    def __init__(self, name: str, names: list[str], *, seed: int) -> None:
        self.name = name
        self.others = [other for other in names if other != name]
        self.random = random.Random(f"{seed} {name}")
        self.next_number = dict.fromkeys(self.others, 0)
        self.seen = dict.fromkeys(self.others, 0)
        self.ids: list[str] = []
        self.faults: list[str] = []
        self.acked_by = dict.fromkeys(self.others, 0)
        self.acked_at = time.monotonic()
        self.acked_sent_at = 0.0
        self._stopped = asyncio.Event()

    @property
    def acked(self) -> int:
        """How many messages were acknowledged."""
        return len(self.ids)

    @asynccontextmanager
    async def joined(self, home: str | os.PathLike[str] | None = None) -> AsyncGenerator[Talker]:
        """Be on the mesh."""
        async with tellwire.connect(self.name, home=home) as self.me:
            self.born_as = self.me.name
            yield self

    def stop(self) -> None:
        """Send no more."""
        self._stopped.set()

    # -- sending --------------------------------------------------------------------------------------

    async def talk(self) -> None:
        """Send until stopped."""
        await self.everybody_is_there()
        async with asyncio.TaskGroup() as tasks:
            for lane in range(LANES):
                tasks.create_task(self.send_in_lane(self.others[lane::LANES]))

    async def everybody_is_there(self) -> None:
        """A message to a name nobody has borne yet would be denied."""
        missing = set(self.others)
        async with asyncio.timeout(BACK_WITHIN_S):
            while missing:
                missing -= {peer.name for peer in await self.me.peers(all=True)}
                await asyncio.sleep(PACE_S)

    async def send_in_lane(self, others: list[str]) -> None:
        """Bursts to one after another of these."""
        while not self._stopped.is_set():
            to = self.random.choice(others)
            count = self.random.randint(1, BURST_MAX)
            numbers = range(self.next_number[to], self.next_number[to] + count)
            self.next_number[to] += count
            await asyncio.gather(*(self.send(to, number) for number in numbers))
            await asyncio.sleep(PACE_S)

    async def send(self, to: str, number: int) -> None:
        """Send one message until it is acknowledged."""
        key = self.me.new_key()
        began = time.monotonic()
        while True:
            try:
                receipt = await self.me.send(to, {"number": number}, key=key)
            except tellwire.TellwireError as error:
                self.faults.append(f"{self.name} could not send {number} to {to}: {error}")
                return
            if receipt.status != "timeout":
                break
        if receipt.status not in ("received", "queued"):
            self.faults.append(f"{self.name} to {to} {number}: {receipt}")
            return
        self.ids.append(receipt.id)
        self.acked_by[to] += 1
        self.acked_at = time.monotonic()
        self.acked_sent_at = max(self.acked_sent_at, began)
        if self.acked_at - began > BACK_WITHIN_S:
            self.faults.append(f"{self.name} waited {self.acked_at - began:.1f} s for an acknowledgement")

    # -- receiving ------------------------------------------------------------------------------------

    async def receive(self) -> None:
        """Take, check and confirm; sometimes the confirmation comes a batch later."""
        kept: list[str] = []
        while True:
            try:
                messages = await self.me.messages(wait_s=0.5)
            except tellwire.TellwireError as error:
                self.faults.append(f"{self.name} could not receive: {error}")
                continue
            for message in messages:
                self.check(message)
            kept += [message.id for message in messages]
            if kept and (not messages or self.random.random() < 0.7):
                await self.me.confirm(kept)
                kept = []

    def check(self, message: tellwire.Message) -> None:
        """Each message of a pair must be the one behind the last."""
        number, expected = message.body["number"], self.seen[message.sender]
        if number != expected:
            what = "doubled or out of order" if number < expected else "lost or out of order"
            self.faults.append(
                f"{what}: {message.sender} to {self.name}, {number} came ({message.id}), not {expected}"
            )
        if message.repeat:
            self.faults.append(f"marked as a repeat within one session: {message.id} to {self.name}")
        self.seen[message.sender] = max(expected, number + 1)

    # -- the end --------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until every acknowledged message is read."""
        await until(self.nothing_waits, within_s=SETTLE_S)
        open_ids = list(self.ids)
        while open_ids:
            part, open_ids = open_ids[:ASK_AT_ONCE], open_ids[ASK_AT_ONCE:]
            states = await asyncio.gather(*(self.me.status(message) for message in part))
            open_ids = [state.id for state in states if set(state.values()) != {"read"}] + open_ids

    async def nothing_waits(self) -> bool:
        """Whether everybody has read everything."""
        return not any(peer.pending for peer in await self.me.peers(all=True))

    async def report(self) -> Report:
        """What this client did and sees now."""
        view = {peer.name: peer.status for peer in await self.me.peers(all=True)}
        view[self.me.name] = (await self.me.peer(self.me.name)).status
        return Report(self.me.name, self.born_as, self.acked_by, self.seen, self.faults, view)


def violations_of(reports: list[Report]) -> list[str]:
    """What all the reports together show to be wrong."""
    found = [fault for report in reports for fault in report.faults]
    by_name = {report.name: report for report in reports}
    for report in reports:
        if report.name != report.born_as:
            found.append(f"{report.born_as} came back as {report.name}")
        for to, acked in report.acked.items():
            seen = by_name[to].seen[report.name] if to in by_name else 0
            if seen != acked:
                found.append(f"{report.name} to {to}: {acked} acknowledged, {seen} seen")
        if report.view != reports[0].view:
            found.append(f"{report.name} sees {report.view}, {reports[0].name} sees {reports[0].view}")
        away = [name for name in by_name if report.view.get(name) != "online"]
        if away:
            found.append(f"{report.name} sees {away} offline")
    return found


async def main(name: str, names: list[str]) -> None:
    """Be a client that obeys lines on stdin: `stop`, then `report` as often as wanted."""
    loop = asyncio.get_running_loop()
    talker = Talker(name, names, seed=os.getpid())
    async with talker.joined(), asyncio.TaskGroup() as tasks:
        print("joined", flush=True)
        receiving = tasks.create_task(talker.receive())
        tasks.create_task(talker.talk())
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            if line == "stop":
                talker.stop()
                tasks.create_task(say_settled(talker))
            else:
                print("report", json.dumps(msgspec.to_builtins(await talker.report())), flush=True)
        talker.stop()
        receiving.cancel()


async def say_settled(talker: Talker) -> None:
    """Tell when everything is read."""
    await talker.settle()
    print("settled", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
