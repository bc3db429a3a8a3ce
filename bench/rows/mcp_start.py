"""How long an agent waits for its MCP server: from the spawn to the answer of `initialize`."""

import itertools
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter

from bench.engines.tellwire_broker import TellwireEngine
from bench.mcp_process import McpProcess, opened, opened_sdk, opened_shim
from bench.process import wait_for_quiet
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.rows.stored import BARE_PYTHON
from bench.workshop import Workshop, value_detail

ROW = "MCP server: spawn → initialize"
SHIM = "tellwire shim"
FIRST = "tellwire shim, first of its broker"
SDK = "SDK in process"

Opened = Callable[[], AbstractContextManager[McpProcess]]


def measure_mcp_start(workshop: Workshop) -> Section:
    """The SDK's server, our shim with a broker that has MCP loaded, and an interpreter that does nothing."""
    engine, names = TellwireEngine(), _names()
    with workshop.folder() as folder, workshop.folder() as home, workshop.running(engine, home):
        load_mcp(engine)
        outcomes = interleave(
            {
                SHIM: partial(_median_ms, workshop, lambda: opened_shim(engine, next(names)), _initialize_ms),
                SDK: partial(_median_ms, workshop, lambda: opened_sdk(folder), _initialize_ms),
                BARE_PYTHON: partial(_median_ms, workshop, _opened_bare, _end_ms),
                FIRST: partial(_first_ms, workshop),
            },
            workshop.plan.rounds,
            workshop.tell,
        )
    details = [value_detail(ROW, name, "ms", outcome) for name, outcome in outcomes.items()]
    ours, sdk, bare, first = details
    return Section(
        ratios=[
            compare(ROW, "ms", ours, sdk, "value", better="lower", target=Target("≥", 40.0)),
            compare(ROW, "ms", ours, bare, "value"),
            compare(ROW, "ms", sdk, bare, "value"),
            compare(ROW, "ms", first, sdk, "value", better="lower"),
        ],
        details=details,
    )


def load_mcp(engine: TellwireEngine) -> None:
    """Have the broker load what it needs for MCP, as the first shim of its life does."""
    with opened_shim(engine, "first") as shim:
        shim.open()


def _names() -> Iterator[str]:
    """Each shim a name of its own: the one before may not have given its name back yet."""
    return (f"agent-{number}" for number in itertools.count())


def _median_ms(workshop: Workshop, start: Opened, took_ms: Callable[[McpProcess], float]) -> float:
    wait_for_quiet(workshop.plan.patience_s)
    times: list[float] = []
    for _ in range(workshop.plan.mcp_starts):
        with start() as process:
            times.append(took_ms(process))
    return statistics.median(times)


def _initialize_ms(process: McpProcess) -> float:
    process.initialize()
    return (perf_counter() - process.spawned) * 1000


def _opened_bare() -> AbstractContextManager[McpProcess]:
    return opened([sys.executable, "-I", "-S", "-c", "pass"], os.environ)


def _end_ms(process: McpProcess) -> float:
    process.wait_for_end()
    return (perf_counter() - process.spawned) * 1000


def _first_ms(workshop: Workshop) -> float:
    engine = TellwireEngine()
    with workshop.folder() as home, workshop.running(engine, home):
        wait_for_quiet(workshop.plan.patience_s)
        with opened_shim(engine, "first") as shim:
            return _initialize_ms(shim)
