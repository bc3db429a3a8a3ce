"""What tellwire's hooks cost a tool call in the client's own loop while nothing waits, against `/bin/true`.

All variants of a client run at once and are led call by call, by turns: what slows the machine down slows
all of them. The cost of a call is the time from the model's answer to the client's next request.
"""

import asyncio
import itertools
import json
import re
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.clients import PACKAGES, Led, leading, play, staged, title_of
from bench.engine import RoundFailed
from bench.process import wait_for_quiet
from bench.report import Detail, Ratio, Section, Target, compare
from bench.rounds import Outcome, interleave
from bench.workshop import Workshop, part_detail
from tellwire.cli.commands.setup.mcp import shim_command
from tests.end_to_end.clients import Client
from tests.end_to_end.programs import PROGRAMS, WITH_MCP
from tests.end_to_end.stage import Stage, install

BARE = "no hooks"
TRUE = "/bin/true on the same events"
OURS = "tellwire, nothing waiting"
EXTRA = "extra"
WITH_PROCESSES = ("claude", "codex", "gemini")
"""Those whose hooks are processes, or could be; the others have a plugin inside, with nothing to compare."""
EXTRA_MS_MAX = 1.0
SETTINGS: Mapping[str, str] = {
    "claude": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}
OUR_COMMAND = re.compile(r'''"[^"\n]*/relay/hook\.py[^"\n]*"''')
MAIL = "The parser is finished."
WARM_UP = 4
PAUSE_S = 0.02
"""Before a call: what the client before it still has to do after its request is done by then."""

Round = Mapping[str, float]
"""Median milliseconds of a call, by variant; and of the difference between two calls side by side."""


def measure_hook_cost(workshop: Workshop) -> Section:
    """One client after the other; each round starts its variants anew."""
    section = Section()
    for short in PACKAGES:
        row = f"tool call, {title_of(short)}"
        rounds = {row: partial(_round, workshop, short)}
        outcomes = interleave(rounds, workshop.plan.rounds, workshop.tell)
        _report(row, short, outcomes[row], section, judges=workshop.plan.judges)
    return section


def _round(workshop: Workshop, short: str) -> Round:
    wait_for_quiet(workshop.plan.patience_s)
    with workshop.folder() as folder:
        return play(_measure(short, folder, workshop.plan.hook_calls))


async def _measure(short: str, folder: Path, calls: int) -> Round:
    async with staged(short, folder) as stage:
        clients = _variants(stage, short, folder)
        times: dict[str, list[float]] = {name: [] for name in clients}
        async with leading(clients, stage.model, WARM_UP + calls + 1) as runs:
            for order in itertools.islice(itertools.cycle(itertools.permutations(runs)), WARM_UP + calls):
                for each in order:
                    await asyncio.sleep(PAUSE_S)
                    times[each.name].append(await each.call_s() * 1000)
            await _check(stage, next(each for each in runs if each.name == short))
    counted = {name: some[WARM_UP:] for name, some in times.items()}
    pairs = zip(counted[short], counted["true" if "true" in counted else "bare"], strict=True)
    extra = statistics.median(ours - theirs for ours, theirs in pairs)
    return {**{name: statistics.median(some) for name, some in counted.items()}, EXTRA: extra}


async def _check(stage: Stage, ours: Led) -> None:
    """Hooks that do nothing would be cheap: the next call has to bring mail."""
    await stage.send(MAIL)
    await ours.call_s()
    if MAIL not in ours.context:
        raise RoundFailed("tellwire's hooks brought no mail")


def _variants(stage: Stage, short: str, folder: Path) -> dict[str, Client]:
    """The same client with tellwire's MCP server, where it takes one, and other hooks."""
    server = shim_command(home=str(stage.home.path)) if short in WITH_MCP else ()

    def beside(name: str) -> Client:
        return PROGRAMS[short](folder / name, folder / f"{name}-shop", stage.model.url(name))

    bare = beside("bare")
    bare.configure(server)
    variants = {"bare": bare, short: stage.client}
    if short in WITH_PROCESSES:
        idle = variants["true"] = beside("true")
        idle.configure()
        install(stage.home, idle)
        replace_hooks(idle)
    return variants


def replace_hooks(client: Client) -> None:
    """Put `/bin/true` in the place of each hook that tellwire installed: same events, same matchers."""
    path = client.home / SETTINGS[client.short]
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        text, count = OUR_COMMAND.subn('"/bin/true"', text)
    else:
        settings: dict[str, Any] = json.loads(text)
        groups: list[dict[str, Any]] = [group for some in settings["hooks"].values() for group in some]
        for group in groups:
            group["hooks"] = [
                {"type": "command", "command": "/bin/true", "timeout": each["timeout"]}
                for each in group["hooks"]
                if not each.get("asyncRewake")
            ]
        text, count = json.dumps(settings), len(groups)
    if not count or "hook.py" in text:
        raise RoundFailed(f"tellwire's hooks in {path.name} are not as they were thought to be")
    path.write_text(text, encoding="utf-8")


def _report(row: str, short: str, outcome: Outcome[Round], section: Section, *, judges: bool) -> None:
    """The medians, and the difference that the target is about."""
    if not outcome.samples:
        section.ratios.append(Ratio(row, "ms", OURS, None, note=outcome.why_not))
        return

    def part(name: str, key: str) -> Detail:
        return part_detail(row, name, "ms", outcome, lambda sample: sample[key])

    bare, ours = part(BARE, "bare"), part(OURS, short)
    others = [part(TRUE, "true"), bare] if short in WITH_PROCESSES else [bare]
    section.details += [*reversed(others), ours]
    section.ratios += [compare(row, "ms", ours, other, "value") for other in others]
    extra = part(f"tellwire − {'/bin/true' if short in WITH_PROCESSES else 'without it'}", EXTRA)
    section.details.append(extra)
    section.ratios.append(_judged(row, extra, judged=judges and short in WITH_PROCESSES))


def _judged(row: str, extra: Detail, *, judged: bool) -> Ratio:
    """Met, missed, or within the spread: some rounds met it and some did not."""
    figure, (low, high) = extra.figures.get("value"), extra.spread or (0.0, 0.0)
    unclear = figure is not None and low <= EXTRA_MS_MAX < figure
    target = Target("≤", EXTRA_MS_MAX, of="figure") if judged and not unclear else None
    note = (
        f"within the spread, {low:.1f} to {high:.1f} ms (≤ {EXTRA_MS_MAX:g} ms)" if judged and unclear else ""
    )
    return Ratio(row, "ms", extra.contender, figure, target=target, note=extra.missing or note)
