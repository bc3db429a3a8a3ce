"""The load: n clients in a ring, each with one send in flight, each receiving and confirming meanwhile.

A message counts when its send was acknowledged, it was received, and its confirmation was acknowledged,
all inside the window. After the window the ring is drained: whatever was acknowledged must have arrived,
once, or the round is thrown away.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import uvloop

from bench.bodies import Bodies, serial_of
from bench.engine import Client, Engine, RoundFailed
from bench.process import cpu_s, machine_cpu_s

CONNECT_TOGETHER = 50
DRAIN_TIMEOUT_S = 20.0
ROUND_TIMEOUT_S = 180.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shape:
    """How much is asked of an engine in one round."""

    clients: int
    body_bytes: int
    window_s: float
    warm_up_s: float
    idle: int = 0

    @property
    def receivers(self) -> int:
        """Busy clients that must be connected: nobody writes to himself, so one sender needs a second."""
        return max(self.clients, 2)


@dataclass(frozen=True)
class LoadSample:
    """What one round gave."""

    per_s: float
    ack_p50_us: float
    ack_p99_us: float
    receive_p50_us: float
    server_cpu_us: float
    client_cpu_us: float
    others_percent: float
    """What the rest of the machine did meanwhile, in percent of one processor: noise."""


@dataclass
class Tally:
    """The ring's book: what is on its way, what is half done, and how long things took."""

    sent_at: dict[int, float] = field(default_factory=dict[int, float])
    half_done: set[int] = field(default_factory=set[int])
    ack_s: list[float] = field(default_factory=list[float])
    receive_s: list[float] = field(default_factory=list[float])
    done: int = 0
    doubled: int = 0

    def finish_half(self, serial: int) -> None:
        """Note an acknowledged send or an acknowledged confirmation: whichever comes second completes it."""
        if serial in self.half_done:
            self.half_done.remove(serial)
            self.done += 1
        else:
            self.half_done.add(serial)


@dataclass
class Ring:
    """Busy clients and the state of their round.

    The flags end the loops of clients that swallow a cancellation, as redis-py may do.
    """

    clients: Sequence[Client]
    senders: int
    body_bytes: int
    bodies: Bodies
    tally: Tally = field(default_factory=Tally)
    sending: bool = True
    receiving: bool = True

    async def send_on(self, number: int, budget: "Budget | None" = None) -> None:
        """Send to the next client, one message at a time, until told to stop or the budget is used up."""
        while self.sending and (budget is None or budget.take()):
            await self._send_one(number)

    async def receive_on(self, number: int) -> None:
        """Receive and confirm until cancelled."""
        while self.receiving:
            await self._receive_some(number)

    async def _send_one(self, number: int) -> None:
        tally = self.tally
        serial, body = self.bodies.next(self.body_bytes)
        begun = time.perf_counter()
        tally.sent_at[serial] = begun
        await self.clients[number].send((number + 1) % len(self.clients), body)
        tally.ack_s.append(time.perf_counter() - begun)
        tally.finish_half(serial)

    async def _receive_some(self, number: int) -> None:
        tally, client = self.tally, self.clients[number]
        batch = await client.receive()
        if not batch:
            return
        now = time.perf_counter()
        fresh: list[int] = []
        for message in batch:
            serial = serial_of(message.body)
            begun = tally.sent_at.pop(serial, None)
            if begun is None:
                tally.doubled += 1
            else:
                tally.receive_s.append(now - begun)
                fresh.append(serial)
        await client.confirm([message.handle for message in batch])
        for serial in fresh:
            tally.finish_half(serial)

    async def drain(self) -> None:
        """Wait until nothing is on its way."""
        deadline_s = time.monotonic() + DRAIN_TIMEOUT_S
        while self.tally.sent_at or self.tally.half_done:
            if time.monotonic() > deadline_s:
                raise RoundFailed(
                    f"{len(self.tally.sent_at)} messages never came, {len(self.tally.half_done)} were not"
                    f" confirmed within {DRAIN_TIMEOUT_S:.0f} s"
                )
            await asyncio.sleep(0.01)
        if self.tally.doubled:
            raise RoundFailed(f"{self.tally.doubled} messages came twice")


class Budget:
    """How many messages the whole ring may still send."""

    def __init__(self, messages: int) -> None:
        self._left = messages

    def take(self) -> bool:
        """Take one, if any is left."""
        self._left -= 1
        return self._left >= 0


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run on a fresh uvloop; whatever a client library raises becomes a failed round."""
    gc.collect()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_bounded(work))
        except BaseExceptionGroup as group:
            raise RoundFailed(_first_cause(group)) from group
        except (RoundFailed, KeyboardInterrupt):
            raise
        except Exception as error:
            raise RoundFailed(f"{type(error).__name__}: {error}") from error


async def measure(engine: Engine, shape: Shape, bodies: Bodies) -> LoadSample:
    """One round of load on a running engine."""
    clients = await connect(engine, shape.receivers + shape.idle)
    ring = Ring(clients[: shape.receivers], shape.clients, shape.body_bytes, bodies)
    try:
        return await _with_receivers(ring, lambda: _window(ring, shape, engine.pid))
    finally:
        await disconnect(clients)


async def fill(engine: Engine, messages: int, clients: int, body_bytes: int, bodies: Bodies) -> None:
    """Send, receive and confirm this many messages, so that the engine has them in store."""
    connected = await connect(engine, clients)
    ring = Ring(connected, clients, body_bytes, bodies)
    budget = Budget(messages)

    async def all_sent() -> None:
        async with asyncio.TaskGroup() as senders:
            for number in range(clients):
                senders.create_task(ring.send_on(number, budget))
        await ring.drain()

    try:
        await _with_receivers(ring, all_sent)
    finally:
        await disconnect(connected)


async def connect(engine: Engine, count: int) -> list[Client]:
    """Connect this many clients, some at a time."""
    clients: list[Client] = []
    for first in range(0, count, CONNECT_TOGETHER):
        numbers = range(first, min(first + CONNECT_TOGETHER, count))
        clients.extend(await asyncio.gather(*(engine.client(number) for number in numbers)))
    return clients


async def disconnect(clients: Sequence[Client]) -> None:
    """Close all, some at a time."""
    for first in range(0, len(clients), CONNECT_TOGETHER):
        await asyncio.gather(*(client.close() for client in clients[first : first + CONNECT_TOGETHER]))


async def _with_receivers(ring: Ring, work: Callable[[], Awaitable[Result]]) -> Result:
    async with asyncio.TaskGroup() as group:
        receivers = [group.create_task(ring.receive_on(number)) for number in range(len(ring.clients))]
        try:
            result = await work()
        finally:
            ring.receiving = False
        for receiver in receivers:
            receiver.cancel()
    return result


async def _window(ring: Ring, shape: Shape, pid: int) -> LoadSample:
    async with asyncio.TaskGroup() as senders:
        for number in range(ring.senders):
            senders.create_task(ring.send_on(number))
        try:
            await asyncio.sleep(shape.warm_up_s)
            sample = await _sample(ring.tally, shape.window_s, pid)
        finally:
            ring.sending = False
    await ring.drain()
    return sample


async def _sample(tally: Tally, window_s: float, pid: int) -> LoadSample:
    tally.ack_s.clear()
    tally.receive_s.clear()
    tally.done = 0
    all_s, server_s, client_s = machine_cpu_s(), cpu_s(pid), time.process_time()
    begun = time.perf_counter()
    await asyncio.sleep(window_s)
    took_s = time.perf_counter() - begun
    all_s, server_s, client_s = machine_cpu_s() - all_s, cpu_s(pid) - server_s, time.process_time() - client_s
    done, ack_s, receive_s = tally.done, sorted(tally.ack_s), sorted(tally.receive_s)
    if not (done and ack_s and receive_s):
        raise RoundFailed("not one message was completed inside the window")
    return LoadSample(
        per_s=done / took_s,
        ack_p50_us=quantile(ack_s, 0.5) * 1e6,
        ack_p99_us=quantile(ack_s, 0.99) * 1e6,
        receive_p50_us=quantile(receive_s, 0.5) * 1e6,
        server_cpu_us=server_s / done * 1e6,
        client_cpu_us=client_s / done * 1e6,
        others_percent=max(0.0, all_s - server_s - client_s) / took_s * 100,
    )


async def _bounded(work: Coroutine[Any, Any, Result]) -> Result:
    async with asyncio.timeout(ROUND_TIMEOUT_S):
        return await work


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of sorted values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _first_cause(group: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first_cause(cast("BaseExceptionGroup[BaseException]", error))
    return str(error) if isinstance(error, RoundFailed) else f"{type(error).__name__}: {error}"
