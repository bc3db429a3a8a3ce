"""What every carrier promises: the same suite for memory, for Redis and for ssh, with real programs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tellwire.broker.registrations import Connections, Visit
from tellwire.federation.carriers.memory import MemoryWire
from tellwire.federation.carriers.redis_streams import RedisCarrier, RedisTimes
from tellwire.federation.carriers.ssh import IncomingSsh, SshCarrier, SshTimes
from tellwire.federation.ports import BLOB_BYTES_MAX, Carrier
from tellwire.machines.door import WireDoor
from tellwire.paths import socket_path
from tellwire.protocol.frames import LineDecoder, parse_hello
from tellwire.system.tasks import alongside
from tests.integration import daemons, redis_server
from tests.integration.daemons import Sshd
from tests.integration.redis_server import RedisServer
from tests.integration.world import ROOT, until

HERE, THERE = "k" + "0123456789abcdef", "k" + "fedcba9876543210"
QUICK = RedisTimes(block_s=0.5, retry_s=0.05, retry_s_max=0.3)


class End:
    """One side of a pair: a carrier that runs, and what it has told."""

    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier
        self.got: list[bytes] = []
        self.is_up = False
        self.told: list[tuple[bool, str]] = []

    async def run(self) -> None:
        await self.carrier.run(self.got.append, self._note)

    def _note(self, up: bool, why: str) -> None:
        self.is_up = up
        self.told.append((up, why))

    async def push(self, blob: bytes, last: int = 0) -> None:
        """Send one blob as soon as the carrier takes it."""
        await until(lambda: self.carrier.send(blob, last), what=f"a blob is taken: {self.told[-3:]}")


class Ends(NamedTuple):
    """Both sides, and how to cut what is between them."""

    near: End
    far: End
    cut: Callable[[], Awaitable[None]]


async def over_redis(stack: AsyncExitStack, folder: Path) -> Ends:
    server = RedisServer(folder)
    await server.start()
    stack.push_async_callback(server.kill)

    async def cut() -> None:
        await server.kill()
        await server.start()

    near = RedisCarrier(server.url, here=HERE, there=THERE, times=QUICK)
    far = RedisCarrier(server.url, here=THERE, there=HERE, times=QUICK)
    return Ends(End(near), End(far), cut)


async def over_ssh(stack: AsyncExitStack, folder: Path) -> Ends:
    """The real ssh, sshd and relay; the far broker is its door alone."""
    if reason := daemons.missing():
        pytest.skip(f"there is no real sshd: {reason}")
    sshd = Sshd(folder)
    await sshd.start()
    stack.push_async_callback(sshd.stop)
    incoming = IncomingSsh(here=THERE, there=HERE)
    door = WireDoor(Connections())
    door.expect(THERE, HERE, incoming)
    home = folder / "home"
    home.mkdir(mode=0o700)
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: Greeting(door), socket_path(str(home), {}, named=True)
    )
    stack.push_async_callback(_stop, server)
    program = folder / "tellwire"
    command = (
        f"{ROOT}/.venv/bin/python -I -c 'import sys; from tellwire.relay.wire import main; sys.exit(main())'"
    )
    program.write_text(f"#!/bin/sh\necho Welcome!\nexport TELLWIRE_HOME={home}\nexec {command}\n")
    program.chmod(0o755)
    near = SshCarrier(
        "here",
        here=HERE,
        there=THERE,
        program=str(program),
        ssh=sshd.ssh(),
        times=SshTimes(retry_s=0.05, retry_s_max=0.3),
    )

    async def cut() -> None:
        for wire in list(door.wires):
            wire.close()

    return Ends(End(near), End(incoming), cut)


async def _stop(server: asyncio.Server) -> None:
    server.close()


class Greeting(asyncio.Protocol):
    """Reads the first line as the broker's server does, and hands the connection on."""

    def __init__(self, door: WireDoor) -> None:
        self._door = door
        self._lines = LineDecoder()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        head, _, rest = data.partition(b"\n")
        assert self._transport is not None
        hello = parse_hello(head)
        assert hello.door == "wire"
        self._door.admit(Visit(self._transport, os.getpid(), hello, rest))


async def over_memory(stack: AsyncExitStack, _folder: Path) -> Ends:
    """In this process; a task lets time pass."""
    wire = MemoryWire((HERE, THERE), asyncio.get_running_loop().time, random=Random(1))
    near, far = End(wire.ends[HERE]), End(wire.ends[THERE])

    async def deliver() -> None:
        while True:
            wire.deliver()
            await asyncio.sleep(0.001)

    stack.enter_context(alongside(deliver()))

    async def cut() -> None:
        for up in (False, True):
            wire.is_up = up
            for each in wire.ends.values():
                each.note_up()

    return Ends(near, far, cut)


KINDS = {"memory": over_memory, "redis": over_redis, "ssh": over_ssh}


@pytest.fixture(params=sorted(KINDS))
async def ends(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ends]:
    """Two carriers of one kind that are connected."""
    if request.param == "redis" and (reason := redis_server.missing()):
        pytest.skip(f"there is no redis-server: {reason}")
    async with AsyncExitStack() as stack:
        made = await KINDS[request.param](stack, tmp_path)
        running = [asyncio.create_task(end.run()) for end in (made.far, made.near)]
        try:
            await until(lambda: made.near.is_up and made.far.is_up, what="both are connected")
            yield made
        finally:
            for task in running:
                task.cancel()
            for task in running:
                with suppress(asyncio.CancelledError):
                    await task


async def test_blobs_arrive_whole_and_in_order_in_both_directions(ends: Ends) -> None:
    there = [b"%d " % number + os.urandom(number * 7 % 900) for number in range(300)]
    back = [b"back %d" % number for number in range(300)]
    for number, (one, other) in enumerate(zip(there, back, strict=True)):
        await ends.near.push(one, number + 1)
        await ends.far.push(other, number + 1)
    await until(lambda: len(ends.far.got) >= 300 and len(ends.near.got) >= 300, what="all came")
    assert ends.far.got == there
    assert ends.near.got == back


async def test_the_largest_blob_passes_and_a_larger_one_is_not_taken(ends: Ends) -> None:
    largest = os.urandom(BLOB_BYTES_MAX)
    await ends.near.push(largest, 1)
    assert not ends.near.carrier.send(largest + b"\0", 2)
    await ends.near.push(b"small", 3)
    await until(lambda: len(ends.far.got) >= 2, what="both came")
    assert ends.far.got == [largest, b"small"]


async def test_what_is_between_the_ends_may_break_and_they_connect_again(ends: Ends) -> None:
    await ends.near.push(b"before", 1)
    await until(lambda: ends.far.got, what="it came")
    for number in range(3):
        told = len(ends.near.told)
        await ends.cut()
        await until(lambda told=told: len(ends.near.told) >= told + 2 and ends.near.is_up, what="it is back")
        down = next(why for up, why in ends.near.told[told:] if not up)
        assert down, "the reason is told"
        await until(lambda: ends.far.is_up, what="the other end is back")
        word = b"after %d" % number
        # What was sent while the connection broke may be lost: the exchange sends it again, as here.
        await until(lambda word=word: ends.near.carrier.send(word) and word in ends.far.got, what="it came")
        await until(lambda word=word: ends.far.carrier.send(word) and word in ends.near.got, what="it came")


async def test_much_that_is_forgotten_goes_through_without_an_end(ends: Ends) -> None:
    blob = os.urandom(60_000)
    for number in range(1, 121):
        await ends.near.push(blob, number)
        await until(lambda number=number: len(ends.far.got) >= number, what="it came")
        ends.near.carrier.forget(number)
    assert len(ends.far.got) == 120


async def test_a_carrier_that_is_not_connected_takes_nothing(ends: Ends) -> None:
    lost = RedisCarrier("redis://127.0.0.1:1/0", here=HERE, there=THERE, times=QUICK)
    assert not lost.send(b"hello", 1)
    lost.forget(1)
