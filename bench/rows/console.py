"""What a console costs: an overview of many agents, folding one event, and the feed for the broker."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import tellwire
from bench.engine import RoundFailed
from bench.engines.tellwire_broker import TellwireEngine
from bench.load import CONNECT_TOGETHER, quantile, run
from bench.process import cpu_s, wait_for_quiet
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.workshop import Workshop, part_detail
from tellwire.protocol.frames import format_feed, parse_broker_frame
from tellwire.protocol.operations.agents import ListAgents
from tellwire.protocol.operations.feed import FeedEvent, Overview
from tellwire.views.model import Model, fold

AGENTS = 1_000
OVERVIEWS = 9
OVERVIEW_ROW = f"overview of {AGENTS:,} agents"
EVENTS = 20_000
FOLD_ROW = "fold of one event, with decoding"
FOLD_TARGET = Target("≤", 12.0)
FEED_ROW = "feed: broker CPU with two consoles, per message"
FEED_TARGET = Target("≤", 1.15)
MESSAGES = 2_000
SENDERS = 10
"""Agents that send at once, so that a tick has several messages, as on a busy mesh."""
CONSOLES = 2
WATCH = """
import asyncio, sys, tellwire
async def main():
    async with tellwire.watch(home=sys.argv[1]) as feed:
        async for _ in feed:
            print("x", flush=True) if not feed.waiting else None
asyncio.run(main())
"""


@dataclass(frozen=True)
class Overviews:
    """One round: an overview, and a listing of the same agents."""

    overview_us: float
    list_us: float


@dataclass(frozen=True)
class Folds:
    """One round: events decoded and folded, and decoded only."""

    fold_us: float
    decode_us: float


@dataclass(frozen=True)
class Feeds:
    """One round: the broker's CPU for each message, with consoles and without."""

    watched_us: float
    alone_us: float


def measure_console(workshop: Workshop) -> Section:
    """Three figures, each beside the same work without a console."""
    section = Section(details=[], ratios=[])
    rounds = workshop.plan.rounds
    found = interleave({"overview": partial(_overviews, workshop)}, rounds, workshop.tell)["overview"]
    first = part_detail(OVERVIEW_ROW, "overview", "us", found, lambda each: each.overview_us)
    second = part_detail(OVERVIEW_ROW, "list_agents", "us", found, lambda each: each.list_us)
    section.details.extend([first, second])
    section.ratios.append(compare(OVERVIEW_ROW, "us", first, second, "value"))
    folded = interleave({"fold": _folds}, rounds, workshop.tell)["fold"]
    first = part_detail(FOLD_ROW, "decode and fold", "us", folded, lambda each: each.fold_us)
    second = part_detail(FOLD_ROW, "decode", "us", folded, lambda each: each.decode_us)
    section.details.extend([first, second])
    section.ratios.append(compare(FOLD_ROW, "us", first, second, "value", target=FOLD_TARGET))
    fed = interleave({"feed": partial(_feeds, workshop)}, rounds, workshop.tell)["feed"]
    first = part_detail(FEED_ROW, f"{CONSOLES} consoles", "us", fed, lambda each: each.watched_us)
    second = part_detail(FEED_ROW, "none", "us", fed, lambda each: each.alone_us)
    section.details.extend([first, second])
    section.ratios.append(compare(FEED_ROW, "us", first, second, "value", target=FEED_TARGET))
    return section


# -- the overview -------------------------------------------------------------------------------------


def _overviews(workshop: Workshop) -> Overviews:
    wait_for_quiet(workshop.plan.patience_s)
    engine = TellwireEngine()
    with workshop.folder() as folder, workshop.running(engine, folder):
        return run(_measure_overviews(engine))


async def _measure_overviews(engine: TellwireEngine) -> Overviews:
    async with AsyncExitStack() as stack:
        for first in range(0, AGENTS, CONNECT_TOGETHER):
            part = range(first, min(AGENTS, first + CONNECT_TOGETHER))
            joining = [tellwire.connect(f"agent-{number}", home=engine.home) for number in part]
            await asyncio.gather(*(stack.enter_async_context(each) for each in joining))
        feed = await stack.enter_async_context(tellwire.watch(home=engine.home))
        overviews: list[float] = []
        lists: list[float] = []
        for _ in range(OVERVIEWS):
            began = perf_counter()
            page = await feed.client.call(Overview())
            count = len(page.rows.agents)
            while page.next:
                page = await feed.client.call(Overview(after=page.next))
                count += len(page.rows.agents)
            overviews.append(perf_counter() - began)
            if count < AGENTS:
                raise RoundFailed(f"an overview of {count} agents")
            began = perf_counter()
            await feed.client.call(ListAgents(all=True))
            lists.append(perf_counter() - began)
        return Overviews(quantile(overviews, 0.5) * 1e6, quantile(lists, 0.5) * 1e6)


# -- folding ------------------------------------------------------------------------------------------


def _folds() -> Folds:
    lines = [format_feed(event).rstrip(b"\n") for event in _events()]
    began = process_time()
    for line in lines:
        parse_broker_frame(line)
    decoded = process_time() - began
    model = Model()
    began = process_time()
    for line in lines:
        event = parse_broker_frame(line).feed
        if event is not None:
            fold(model, event)
    folded = process_time() - began
    if model.seq != EVENTS:
        raise RoundFailed(f"folded up to {model.seq} of {EVENTS}")
    return Folds(folded / EVENTS * 1e6, decoded / EVENTS * 1e6)


def _events() -> list[FeedEvent]:
    """Messages, and each handed over, read and answered."""
    found: list[FeedEvent] = []
    for seq in range(1, EVENTS + 1, 4):
        ids = [f"m{seq}"]
        detail = {
            "id": ids[0],
            "to": "bob",
            "kind": "request",
            "size": 200,
            "digest": "0" * 16,
            "ttl_s": 3600.0,
        }
        queued = FeedEvent(
            seq=seq,
            at=1e9,
            type="message_queued",
            who="alice",
            whom=["bob"],
            agent="a1",
            whom_ids=["a2"],
            ids=ids,
            text="x" * 200,
            detail=detail,
        )
        found.append(queued)
        for more, word in enumerate(("messages_delivered", "messages_read", "message_answered"), 1):
            found.append(FeedEvent(seq=seq + more, at=1e9, type=word, who="bob", agent="a2", ids=ids))
    return found


# -- the feed -----------------------------------------------------------------------------------------


def _feeds(workshop: Workshop) -> Feeds:
    wait_for_quiet(workshop.plan.patience_s)
    alone, watched = (_cpu_per_message(workshop, consoles) for consoles in (0, CONSOLES))
    return Feeds(watched, alone)


def _cpu_per_message(workshop: Workshop, consoles: int) -> float:
    engine = TellwireEngine()
    with workshop.folder() as folder, workshop.running(engine, folder):
        return run(_measure_feed(engine, consoles))


async def _measure_feed(engine: TellwireEngine, consoles: int) -> float:
    async with AsyncExitStack() as stack:
        joining = [tellwire.connect(f"sender-{number}", home=engine.home) for number in range(SENDERS)]
        senders = [await stack.enter_async_context(each) for each in joining]
        receiver = await stack.enter_async_context(tellwire.connect("receiver", home=engine.home))
        for _ in range(consoles):
            await stack.enter_async_context(_watching(engine.home))
        began, read = cpu_s(engine.pid), 0
        for number in range(0, MESSAGES, SENDERS):
            await asyncio.gather(*(sender.send("receiver", "x" * 200) for sender in senders))
            while read < number + SENDERS:
                read += await receiver.confirm(await receiver.messages(wait_s=10.0))
        if read != MESSAGES:
            raise RoundFailed(f"{read} of {MESSAGES} were read")
        return (cpu_s(engine.pid) - began) / MESSAGES * 1e6


@asynccontextmanager
async def _watching(home: Path) -> AsyncGenerator[None]:
    """A console in a process of its own, from its first overview on."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WATCH, os.fspath(home), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        await child.stdout.readline()
        drain = asyncio.get_running_loop().create_task(child.stdout.read())
        yield
        drain.cancel()
    finally:
        child.kill()
        await child.wait()
