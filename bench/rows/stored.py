"""What a long history costs: load with much in store against nothing, and the way back after kill -9."""

import asyncio
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench.engine import Client, RoundFailed
from bench.engines.tellwire_broker import TellwireEngine
from bench.load import connect, disconnect, fill, run
from bench.process import settle
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.workshop import MESSAGES_PER_S, Workshop, load_detail, value_detail

CLIENTS = 100
BODY_BYTES = 200
FIRST_ACK_S = 30.0
BEFORE, AFTER = "before the kill", "after the kill"
BARE_PYTHON = "python -I -S -c pass"


def measure_stored(workshop: Workshop, *, kinds: frozenset[str]) -> Section:
    """Fill one folder, then measure what was asked for: `stored` (load) and `restart` (kill -9)."""
    section = Section()
    with workshop.folder() as empty, workshop.folder() as full:
        _fill(workshop, full)
        if "stored" in kinds:
            _measure_history(workshop, full, section)
        if "restart" in kinds:
            _measure_restart(workshop, empty, full, section)
    return section


def _fill(workshop: Workshop, folder: Path) -> None:
    plan, engine = workshop.plan, TellwireEngine()
    begun = time.perf_counter()
    workshop.tell(f"storing {plan.stored:,} messages")
    with workshop.running(engine, folder):
        step = min(plan.stored, 100_000)
        for _ in range(0, plan.stored, step):
            run(fill(engine, step, CLIENTS, BODY_BYTES, workshop.bodies))
        settle(engine.pid)
        workshop.tell(f"stored and settled in {time.perf_counter() - begun:.0f} s")


def _measure_history(workshop: Workshop, full: Path, section: Section) -> None:
    shape = workshop.plan.shape(CLIENTS, BODY_BYTES)
    name = f"tellwire, {workshop.plan.stored:,} stored"
    outcomes = interleave(
        {
            name: partial(workshop.load_in, full, TellwireEngine(), shape),
            "tellwire, empty": partial(workshop.load_afresh, TellwireEngine(), shape),
        },
        workshop.plan.rounds,
        workshop.tell,
    )
    row = f"history, {CLIENTS} clients, {BODY_BYTES} B"
    details = [load_detail(row, contender, outcome) for contender, outcome in outcomes.items()]
    section.details += details
    target = Target("≥", 0.9) if workshop.plan.judges else None
    section.ratios.append(compare(row, MESSAGES_PER_S, *details, figure="per_s", target=target))


def _measure_restart(workshop: Workshop, empty: Path, full: Path, section: Section) -> None:
    plan = workshop.plan
    stored = f"tellwire, {plan.stored:,} stored"
    outcomes = interleave(
        {
            "tellwire, empty": partial(_first_ack_ms, workshop, empty),
            stored: partial(_first_ack_ms, workshop, full),
            f"{stored}, {plan.tail:,} just now": partial(_first_ack_ms, workshop, full, plan.tail),
            BARE_PYTHON: bare_python_ms,
        },
        plan.rounds,
        workshop.tell,
    )
    row = "kill -9 → first ack"
    details = [value_detail(row, contender, "ms", outcome) for contender, outcome in outcomes.items()]
    section.details += details
    fresh, *later, bare = details
    target = Target("≤", 500.0, of="figure") if plan.judges else None
    section.ratios.append(compare(row, "ms", fresh, bare, "value", target=target))
    section.ratios += [compare(row, "ms", detail, fresh, "value", target=target) for detail in later]


def _first_ack_ms(workshop: Workshop, folder: Path, tail: int = 0) -> float:
    """Kill the broker under a connected client and send at once: the SDK starts another and waits for it.

    With a tail, that many messages were committed just before, so that no snapshot covers them yet.
    """
    engine = TellwireEngine()
    with workshop.running(engine, folder):
        if tail:
            run(fill(engine, tail, CLIENTS, BODY_BYTES, workshop.bodies))
        return run(_send_through_kill(engine))


async def _send_through_kill(engine: TellwireEngine) -> float:
    sender, receiver = await connect(engine, 2)
    try:
        await sender.send(1, BEFORE)
        killed = engine.kill()
        async with asyncio.timeout(FIRST_ACK_S):
            await sender.send(1, AFTER)
            took_s = time.perf_counter() - killed
            await _receive_both(receiver)
    finally:
        engine.find_pid()
        await disconnect([sender, receiver])
    return took_s * 1000


async def _receive_both(receiver: Client) -> None:
    """What was acknowledged before the kill and after it must come, once each."""
    came: list[str] = []
    while len(came) < 2:
        batch = await receiver.receive()
        came += [message.body for message in batch]
        await receiver.confirm([message.handle for message in batch])
    if came != [BEFORE, AFTER]:
        raise RoundFailed(f"through the kill came {came}")


def bare_python_ms() -> float:
    """How long an interpreter takes to start and do nothing."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1000
