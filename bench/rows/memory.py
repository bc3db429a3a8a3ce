"""The broker's memory: alone, with idle connections, with messages that wait."""

import asyncio

from bench.engines.tellwire_broker import TellwireEngine
from bench.load import connect, disconnect, run
from bench.process import rss_mb, settle
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.rows.pending import store_pending
from bench.workshop import Workshop, value_detail

QUIET_S = 0.5


def measure_memory(workshop: Workshop) -> Section:
    """Resident memory in each state, each in a broker of its own."""
    plan = workshop.plan
    waiting = max(plan.pending)
    names = (
        "tellwire, no connection",
        f"tellwire, {plan.connections:,} idle",
        f"tellwire, {waiting:,} pending",
    )
    outcomes = interleave(
        {
            names[0]: lambda: _idle_mb(workshop, 0),
            names[1]: lambda: _idle_mb(workshop, plan.connections),
            names[2]: lambda: _pending_mb(workshop, waiting),
        },
        plan.memory_rounds,
        workshop.tell,
    )
    row = "broker RSS"
    details = [value_detail(row, name, "MB", outcome) for name, outcome in outcomes.items()]
    alone, idle, pending = details
    target = Target("≤", 90.0, of="figure") if plan.judges else None
    return Section(
        ratios=[
            compare(row, "MB", idle, alone, "value", target=Target("≤", 45.0, of="figure")),
            compare(row, "MB", pending, alone, "value", target=target),
        ],
        details=details,
    )


def _idle_mb(workshop: Workshop, connections: int) -> float:
    engine = TellwireEngine()
    with workshop.folder() as folder, workshop.running(engine, folder):
        return run(_connected_mb(engine, connections))


async def _connected_mb(engine: TellwireEngine, connections: int) -> float:
    clients = await connect(engine, connections)
    await asyncio.sleep(QUIET_S)
    memory_mb = rss_mb(engine.pid)
    await disconnect(clients)
    return memory_mb


def _pending_mb(workshop: Workshop, waiting: int) -> float:
    engine = TellwireEngine()
    with workshop.folder() as folder, workshop.running(engine, folder):
        run(store_pending(engine, waiting, workshop.bodies))
        settle(engine.pid)
        return rss_mb(engine.pid)
