"""How soon a message is in the model's context while the client works: sent → in a request of that turn.

The model holds its answer back until the sender has its receipt, and then asks for a tool call. So a figure
is one send and one tool call with mail; the calls between, without mail, tell what a call alone takes.
"""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.clients import PACKAGES, leading, play, staged, title_of
from bench.engine import RoundFailed
from bench.process import wait_for_quiet
from bench.report import Ratio, Section, compare
from bench.rounds import Outcome, interleave
from bench.workshop import Workshop, value_detail
from tests.end_to_end.mesh import until_known

ROW = "sent → in the model's context, in a turn"
ALONE = "a tool call without mail"
CALLS_MAX = 3
"""So many calls later a message has to be there."""
WARM_UP = 2

Times = dict[str, list[float]]
"""Milliseconds, one by one, by what they are of."""
Measure = Callable[[str, Path, int], Coroutine[Any, Any, Times]]


def measure_reach_turn(workshop: Workshop) -> Section:
    """One client after the other, a session for each round."""
    section = Section()
    for short in PACKAGES:
        row = f"{ROW}: {title_of(short)}"
        outcome = rounds_of(workshop, short, _measure, workshop.plan.rounds if workshop.plan.judges else 1)
        if not outcome.samples:
            section.ratios.append(Ratio(row, "ms", "tellwire", None, note=outcome.why_not))
            continue
        ours, alone = (value_detail(row, name, "ms", part(outcome, name)) for name in ("tellwire", ALONE))
        section.details += [ours, alone]
        section.ratios.append(compare(row, "ms", ours, alone, "value"))
    return section


def rounds_of(workshop: Workshop, short: str, measure: Measure, rounds: int) -> Outcome[Times]:
    """Measure a client in so many sessions."""

    def once() -> Times:
        wait_for_quiet(workshop.plan.patience_s)
        with workshop.folder() as folder:
            return play(measure(short, folder, workshop.plan.reaches))

    return interleave({title_of(short): once}, rounds, workshop.tell)[title_of(short)]


def part(outcome: Outcome[Times], name: str) -> Outcome[float]:
    """All times of one kind, of all sessions: the spread is theirs, not that of medians."""
    every = [each for sample in outcome.samples for each in sample[name]]
    return Outcome(every, outcome.missing, outcome.failures)


def bodies() -> Iterator[str]:
    """Texts that nobody else says."""
    return (f"Note number {number} for the shop." for number in range(1_000))


async def _measure(short: str, folder: Path, reaches: int) -> Times:
    times: Times = {"tellwire": [], ALONE: []}
    texts = bodies()
    async with staged(short, folder) as stage:
        calls = WARM_UP + reaches * (CALLS_MAX + 1)
        async with leading({short: stage.client}, stage.model, calls) as (led,):
            await until_known(stage.alice, stage.agent)
            for number in range(WARM_UP + reaches):
                alone_s = await led.call_s()
                if number < WARM_UP:
                    continue
                text, began = next(texts), perf_counter()
                await stage.alice.send(stage.agent, text)
                came = await led.call()
                for _ in range(CALLS_MAX - 1):
                    if text not in led.context:
                        came = await led.call()
                if text not in led.context:
                    raise RoundFailed(f"not in the context after {CALLS_MAX} calls")
                times["tellwire"].append((came - began) * 1000)
                times[ALONE].append(alone_s * 1000)
    return times
