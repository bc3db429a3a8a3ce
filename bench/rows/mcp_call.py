"""A durable `agent_send` as an MCP client sees it: through shim and broker, against the SDK in process."""

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.bodies import Bodies
from bench.engine import RoundFailed
from bench.engines.tellwire_broker import STORED, TellwireEngine
from bench.load import quantile
from bench.mcp_process import McpProcess, opened_sdk, opened_shim
from bench.process import wait_for_quiet
from bench.report import Section, compare
from bench.rounds import interleave
from bench.workshop import Workshop, part_detail

BODY_BYTES = 200
WARM_UP = 20
ROW = f"MCP agent_send, {BODY_BYTES} B, durable"
SHIM = "tellwire, shim and broker"
SDK = "SDK in process, SQLite"


@dataclass(frozen=True)
class CallSample:
    """One block of calls, one after the other."""

    p50_us: float
    p99_us: float


def measure_mcp_call(workshop: Workshop) -> Section:
    """Both servers stay up; blocks of calls alternate between them."""
    plan, bodies, engine = workshop.plan, workshop.bodies, TellwireEngine()
    numbers = itertools.count()

    def ours(sender: McpProcess) -> CallSample:
        name = f"bob-{next(numbers)}"
        with opened_shim(engine, name) as receiver:  # each block has an empty inbox to fill
            receiver.open()
            return _block(workshop, sender, name, bodies)

    with workshop.folder() as folder, _both(workshop, engine, folder) as (shim, sdk):
        outcomes = interleave(
            {SHIM: lambda: ours(shim), SDK: lambda: _block(workshop, sdk, "bob", bodies)},
            plan.rounds,
            workshop.tell,
        )
    section = Section()
    for key in ("p50", "p99"):
        row = f"{ROW}: {key}"
        mine, theirs = (
            part_detail(row, name, "us", outcome, lambda sample, key=key: getattr(sample, f"{key}_us"))
            for name, outcome in outcomes.items()
        )
        section.details += [mine, theirs]
        section.ratios.append(compare(row, "us", mine, theirs, "value", better="lower"))
    return section


@contextmanager
def _both(
    workshop: Workshop, engine: TellwireEngine, folder: Path
) -> Generator[tuple[McpProcess, McpProcess], None, None]:
    """Both servers, each with its database below the same folder."""
    with (
        workshop.running(engine, folder),
        opened_shim(engine, "alice") as shim,
        opened_sdk(folder) as sdk,
    ):
        shim.open()
        sdk.open()
        yield shim, sdk


def _block(workshop: Workshop, sender: McpProcess, to: str, bodies: Bodies) -> CallSample:
    for _ in range(WARM_UP):
        _send_us(sender, to, bodies)
    wait_for_quiet(workshop.plan.patience_s)
    times = sorted(_send_us(sender, to, bodies) for _ in range(workshop.plan.mcp_calls))
    return CallSample(quantile(times, 0.5), quantile(times, 0.99))


def _send_us(sender: McpProcess, to: str, bodies: Bodies) -> float:
    _, body = bodies.next(BODY_BYTES)
    begun = perf_counter()
    sent = sender.call("agent_send", {"to": to, "body": body})
    took_us = (perf_counter() - begun) * 1e6
    if sent["status"] not in STORED:
        raise RoundFailed(f"{to}: {sent}")
    return took_us
