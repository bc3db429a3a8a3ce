"""`python -m bench`: choose the rows, measure them one after the other, print the table, write the JSON."""

import argparse
import dataclasses
import fnmatch
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType

from bench.engine import Missing, RoundFailed
from bench.machine import describe, lasting_folder
from bench.plan import FULL, QUICK, Plan
from bench.process import raise_file_limit
from bench.report import Section, write_json
from bench.rows.command import measure_commands
from bench.rows.console import measure_console
from bench.rows.console_screen import measure_console_screen
from bench.rows.growth import measure_agents, measure_backlog
from bench.rows.hook_cost import measure_hook_cost
from bench.rows.hook_process import measure_hook_processes
from bench.rows.link_fan_out import measure_link_fan_out
from bench.rows.load import measure_load
from bench.rows.mcp_call import measure_mcp_call
from bench.rows.mcp_memory import measure_mcp_memory
from bench.rows.mcp_schema import measure_mcp_schema
from bench.rows.mcp_stall import measure_mcp_stall
from bench.rows.mcp_start import measure_mcp_start
from bench.rows.memory import measure_memory
from bench.rows.reach_beside import measure_reach_beside
from bench.rows.reach_idle import measure_reach_idle
from bench.rows.reach_turn import measure_reach_turn
from bench.rows.stored import measure_stored
from bench.table import render
from bench.workshop import Workshop

JSON_FILE = Path("build/bench.json")
ALL = "*"

Measure = Callable[[Workshop], Section]


def main() -> int:
    """Run as the arguments say; 1 if not one row could be measured."""
    arguments = _parse()
    plan: Plan = QUICK if arguments.quick else FULL
    changed = {"rounds": arguments.rounds, "patience_s": arguments.patience}
    plan = dataclasses.replace(plan, **{key: value for key, value in changed.items() if value is not None})
    chosen = select(plan, arguments.rows)
    if not chosen:
        print(f"bench: no row matches {arguments.rows!r}; rows: {', '.join(names(plan))}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    signal.signal(signal.SIGTERM, _end)
    raise_file_limit()
    root = Path(tempfile.mkdtemp(prefix="tellwire-bench-", dir=lasting_folder()))
    try:
        machine = describe(root)
        sections = _measure(chosen, Workshop(plan, root))
    except KeyboardInterrupt:
        print("bench: interrupted, nothing reported", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(root, ignore_errors=True)
    machine["load average after"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    machine["run"] = (
        f"{plan.name}, {plan.rounds} interleaved rounds, medians; windows of at least {plan.window_s} s"
    )
    sizes = {**dataclasses.asdict(plan), "peers": sorted(plan.peers)}
    facts = {"machine": machine, "plan": sizes, "rows": list(chosen)}
    write_json(arguments.json, facts, sections)
    print(render(machine, sections))
    print(f"\nJSON: {arguments.json}")
    return 0 if any(section.ratios for section in sections.values()) else 1


def names(plan: Plan) -> list[str]:
    """The names that `--rows` knows."""
    return [*(f"load-{clients}x{size}" for clients, size in plan.cells), *_GROUPS, *_STORED]


def select(plan: Plan, pattern: str) -> dict[str, Measure]:
    """The measurements whose name matches; what needs the same full store is measured together."""
    wanted = {name for name in names(plan) if fnmatch.fnmatch(name, f"*{pattern}*")}
    if pattern == ALL and not plan.judges:
        wanted -= _NOT_QUICK  # a quick run is to take a minute; ask for them by name
    chosen: dict[str, Measure] = {
        f"load-{clients}x{size}": partial(measure_load, clients=clients, body_bytes=size)
        for clients, size in plan.cells
    }
    chosen |= _GROUPS
    chosen = {name: measure for name, measure in chosen.items() if name in wanted}
    kinds = frozenset(wanted & _STORED.keys())
    if kinds:
        chosen["+".join(sorted(kinds, reverse=True))] = partial(measure_stored, kinds=kinds)
    return chosen


_GROUPS: Mapping[str, Measure] = {
    "command": measure_commands,
    "console-screen": measure_console_screen,
    "memory": measure_memory,
    "growth-agents": measure_agents,
    "growth-backlog": measure_backlog,
    "link-fan-out": measure_link_fan_out,
    "console": measure_console,
    "mcp-start": measure_mcp_start,
    "mcp-memory": measure_mcp_memory,
    "mcp-call": measure_mcp_call,
    "mcp-stall": measure_mcp_stall,
    "mcp-schema": measure_mcp_schema,
    "hook-cost": measure_hook_cost,
    "hook-process": measure_hook_processes,
    "reach-turn": measure_reach_turn,
    "reach-idle": measure_reach_idle,
    "reach-beside": measure_reach_beside,
}
_NOT_QUICK = frozenset(
    {
        "console-screen",
        "hook-cost",
        "hook-process",
        "reach-turn",
        "reach-idle",
        "reach-beside",
        "mcp-start",
        "mcp-stall",
    }
)
_STORED: Mapping[str, str] = {"stored": "load on a long history", "restart": "kill -9 to first ack"}


def _measure(chosen: Mapping[str, Measure], workshop: Workshop) -> dict[str, Section]:
    sections: dict[str, Section] = {}
    for name, measure in chosen.items():
        begun = time.perf_counter()
        try:
            sections[name] = measure(workshop)
        except (Missing, RoundFailed, OSError) as failure:
            workshop.tell(f"{name} could not be measured: {failure}")
            continue
        workshop.tell(f"{name} measured in {time.perf_counter() - begun:.0f} s")
    return sections


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rows, about a minute")
    parser.add_argument("--rows", default=ALL, metavar="PATTERN", help="only rows whose name matches")
    parser.add_argument("--rounds", type=int, metavar="N", help="instead of the plan's number")
    parser.add_argument(
        "--patience", type=float, metavar="S", help="wait so long before a round of load for a quiet machine"
    )
    parser.add_argument("--json", type=Path, default=JSON_FILE, metavar="FILE", help=f"default {JSON_FILE}")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("at least one round is needed")
    return arguments


def _end(_number: int, _frame: FrameType | None) -> None:
    """Treat a wish to end like Ctrl-C: asyncio takes that well, servers are stopped, folders removed."""
    signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
