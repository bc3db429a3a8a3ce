"""What MCP costs in memory: the process beside each agent, and what the broker carries for all of them."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import NamedTuple

from bench.engines.tellwire_broker import TellwireEngine
from bench.mcp_process import McpProcess, opened, opened_sdk, opened_shim
from bench.process import pss_mb, rss_mb, settle
from bench.report import Detail, Ratio, Section, Target, compare
from bench.rounds import Outcome, interleave
from bench.rows.mcp_start import SDK, SHIM
from bench.workshop import Workshop, part_detail, value_detail

ROW = "MCP process of an agent"
BROKER_ROW = "broker RSS, MCP"
ALL_ROW = "agents and broker, RSS together"
BARE = "python -I -S, waiting"
UNREADABLE = "the kernel does not tell (smaps_rollup)"
TARGET = Target("≥", 6.0)


class Memory(NamedTuple):
    """Of one process."""

    rss_mb: float
    pss_mb: float | None


class Carried(NamedTuple):
    """The broker's resident memory on its way."""

    alone_mb: float
    first_mb: float
    many_mb: float


def measure_mcp_memory(workshop: Workshop) -> Section:
    """Each process after initialize, a listing of the tools and one call; the broker before and after."""
    plan, engine = workshop.plan, TellwireEngine()
    with workshop.folder() as folder, workshop.folder() as home, workshop.running(engine, home):
        processes = interleave(
            {
                SHIM: partial(_used_memory, lambda: opened_shim(engine, "alice")),
                SDK: partial(_used_memory, lambda: opened_sdk(folder)),
                BARE: _bare_memory,
            },
            plan.memory_rounds,
            workshop.tell,
        )
    brokers = interleave({"tellwire": partial(_carried, workshop)}, plan.memory_rounds, workshop.tell)
    section = Section()
    for kind, outcomes in (("RSS", _resident(processes)), ("PSS", _proportional(processes))):
        row = f"{ROW}, {kind}"
        ours, sdk, bare = details = [value_detail(row, name, "MB", each) for name, each in outcomes.items()]
        section.details += details
        target = TARGET if kind == "RSS" else None
        section.ratios += [
            compare(row, "MB", ours, sdk, "value", better="lower", target=target),
            compare(row, "MB", ours, bare, "value"),
        ]
    shim, sdk = section.details[:2]
    _report_broker(plan.mcp_sessions, brokers["tellwire"], shim, sdk, section)
    return section


def _report_broker(
    sessions: int, outcome: Outcome[Carried], shim: Detail, sdk: Detail, section: Section
) -> None:
    """What the broker has more, and the sum that a user pays for one agent and for many."""

    def part(name: str, unit: str, figure: Callable[[Carried], float]) -> Detail:
        return part_detail(BROKER_ROW, name, unit, outcome, figure)

    alone = part("tellwire, MCP not loaded", "MB", lambda sample: sample.alone_mb)
    first = part("tellwire, 1 MCP session", "MB", lambda sample: sample.first_mb)
    many = part(f"tellwire, {sessions + 1} MCP sessions", "MB", lambda sample: sample.many_mb)
    each = part("tellwire, each further", "kB", lambda sample: _further_kb(sample, sessions))
    section.details += [alone, first, many, each]
    section.ratios += [
        compare(BROKER_ROW, "MB", first, alone, "value"),
        compare(BROKER_ROW, "MB", many, first, "value"),
        Ratio(BROKER_ROW, "kB", each.contender, each.figures.get("value"), note=each.missing),
        _together(1, first, shim, sdk),
        _together(sessions + 1, many, shim, sdk),
    ]


def _together(agents: int, broker: Detail, shim: Detail, sdk: Detail) -> Ratio:
    """All that runs for so many agents; the SDK's servers have no broker to count."""
    carried, own, theirs = (detail.figures.get("value") for detail in (broker, shim, sdk))
    ours = None if carried is None or own is None else carried + agents * own
    peer = None if theirs is None else agents * theirs
    ratio = peer / ours if ours and peer else None
    words = f"{agents} agent{'s' if agents > 1 else ''}"
    return Ratio(ALL_ROW, "MB", f"tellwire, {words}", ours, f"{SDK}, {words}", peer, ratio)


def _use(process: McpProcess, to: str) -> None:
    process.open()
    process.list_tools()
    process.call("agent_send", {"to": to, "body": "hello"})


def _memory(process: McpProcess) -> Memory:
    return Memory(rss_mb(process.pid), pss_mb(process.pid))


def _used_memory(start: Callable[[], AbstractContextManager[McpProcess]]) -> Memory:
    with start() as process:
        _use(process, "broadcast")
        return _memory(process)


def _bare_memory() -> Memory:
    program = "import os; os.write(1, b'here\\n'); os.read(0, 1)"
    with opened([sys.executable, "-I", "-S", "-c", program], os.environ) as process:
        process.line()
        return _memory(process)


def _carried(workshop: Workshop) -> Carried:
    engine, sessions = TellwireEngine(), workshop.plan.mcp_sessions
    with workshop.folder() as home, workshop.running(engine, home), ExitStack() as shims:
        settle(engine.pid)
        alone_mb = rss_mb(engine.pid)
        _use(shims.enter_context(opened_shim(engine, "agent-0")), "broadcast")
        settle(engine.pid)
        first_mb = rss_mb(engine.pid)
        for number in range(sessions):
            _use(shims.enter_context(opened_shim(engine, f"agent-{number + 1}")), "agent-0")
        settle(engine.pid)
        return Carried(alone_mb, first_mb, rss_mb(engine.pid))


def _further_kb(sample: Carried, sessions: int) -> float:
    return (sample.many_mb - sample.first_mb) * 1000 / sessions


def _resident(outcomes: dict[str, Outcome[Memory]]) -> dict[str, Outcome[float]]:
    return {
        name: Outcome([sample.rss_mb for sample in outcome.samples], outcome.missing, outcome.failures)
        for name, outcome in outcomes.items()
    }


def _proportional(outcomes: dict[str, Outcome[Memory]]) -> dict[str, Outcome[float]]:
    return {
        name: Outcome(
            [sample.pss_mb for sample in outcome.samples if sample.pss_mb is not None],
            outcome.missing or (UNREADABLE if outcome.samples else ""),
            outcome.failures,
        )
        for name, outcome in outcomes.items()
    }
