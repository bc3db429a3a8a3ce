"""One word on a link with a hundred others: how soon the last of them has it, against one send's ack."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import tellwire
from bench.bodies import Bodies
from bench.engine import RoundFailed
from bench.engines.tellwire_broker import STORED, TellwireEngine
from bench.load import CONNECT_TOGETHER, quantile, run
from bench.process import wait_for_quiet
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.workshop import Workshop, part_detail
from tellwire.protocol.operations.messages import Offer
from tellwire.sdk.connect import broker_address
from tellwire.sdk.inbox import LocalInbox
from tellwire.sdk.membership import profile_of
from tellwire.settings import load_settings

RECEIVERS = 100
BODY_BYTES = 200
WARM_UP = 10
TIMES = 100
WAIT_S = 10.0
ROW = f"fan-out 1→{RECEIVERS} on a link, last receiver p50"
TARGET = Target("≤", 8.0)


@dataclass(frozen=True)
class FanOut:
    """One round: both by turns, on the same broker."""

    last_us: float
    ack_us: float


class NotingInbox(LocalInbox):
    """Tells when something has come."""

    def __init__(self, came: asyncio.Event) -> None:
        super().__init__()
        self._came = came

    def put(self, offer: Offer) -> None:
        super().put(offer)
        self._came.set()


class Receiver(tellwire.Agent):
    """A member that notes when an offer has come, before anything is done with it."""

    def __init__(self, engine: TellwireEngine, name: str) -> None:
        address = broker_address(load_settings(home=engine.home), program="bench", autostart=False)
        super().__init__(address, profile_of(name, kind="script", capabilities=[], metadata=None))
        self.offered = asyncio.Event()
        self._inbox = NotingInbox(self.offered)


def measure_link_fan_out(workshop: Workshop) -> Section:
    """One contender only; the other figure is of the same rounds."""
    outcomes = interleave({"tellwire": partial(_round, workshop)}, workshop.plan.rounds, workshop.tell)
    outcome = outcomes["tellwire"]
    last = part_detail(ROW, "tellwire", "us", outcome, lambda sample: sample.last_us)
    ack = part_detail(ROW, "a send to one, ack", "us", outcome, lambda sample: sample.ack_us)
    # Here less is better, and the bound is on how many acks it takes.
    ratio = compare(ROW, "us", last, ack, "value", target=TARGET)
    return Section(details=[last, ack], ratios=[ratio])


def _round(workshop: Workshop) -> FanOut:
    wait_for_quiet(workshop.plan.patience_s)
    engine = TellwireEngine()
    with workshop.folder() as folder:
        home = folder / "home"
        home.mkdir(mode=0o700)
        bounds = {"link_members_max": RECEIVERS + 1, "link_turns_max": 1_000_000}
        lines = [f"{name} = {number}" for name, number in bounds.items()]
        (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with workshop.running(engine, folder):
            return run(_measure(engine, workshop.bodies))


async def _measure(engine: TellwireEngine, bodies: Bodies) -> FanOut:
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(tellwire.connect("sender", home=engine.home))
        single = await stack.enter_async_context(tellwire.connect("single", home=engine.home))
        receivers = [Receiver(engine, f"receiver-{number}") for number in range(RECEIVERS)]
        for first in range(0, RECEIVERS, CONNECT_TOGETHER):
            part = receivers[first : first + CONNECT_TOGETHER]
            await asyncio.gather(*(stack.enter_async_context(receiver) for receiver in part))
        link = await sender.links.open([receiver.name for receiver in receivers])
        await _settle(receivers)
        last_s: list[float] = []
        ack_s: list[float] = []
        for number in range(WARM_UP + TIMES):
            began = perf_counter()
            told = await sender.send("single", bodies.next(BODY_BYTES)[1])
            acked = perf_counter() - began
            began = perf_counter()
            all_have_it = asyncio.gather(*(receiver.offered.wait() for receiver in receivers))
            said = await sender.send(f"link:{link.id}", bodies.next(BODY_BYTES)[1])
            await all_have_it
            reached = perf_counter() - began
            if told.status not in STORED or len(said.recipients) != RECEIVERS:
                raise RoundFailed(f"reached {len(said.recipients)} of {RECEIVERS}")
            await _settle([*receivers, single])
            if number >= WARM_UP:
                ack_s.append(acked)
                last_s.append(reached)
        return FanOut(quantile(last_s, 0.5) * 1e6, quantile(ack_s, 0.5) * 1e6)


async def _settle(agents: "list[tellwire.Agent] | list[Receiver]") -> None:
    """Everybody reads what it got."""

    async def read(agent: tellwire.Agent) -> None:
        messages = await agent.messages(wait_s=WAIT_S)
        await agent.confirm(messages)
        if isinstance(agent, Receiver):
            agent.offered.clear()

    await asyncio.gather(*(read(agent) for agent in agents))
