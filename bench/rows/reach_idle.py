"""How soon a message is in the model's context of a client that waits for its user: sent → in a request.

The client is in a terminal and has ended its turn; a while later mail comes, which has to start a turn.
"""

import asyncio
import random
import shutil
from pathlib import Path
from time import perf_counter

from bench.clients import PACKAGES, Gate, staged, title_of
from bench.engine import Missing
from bench.report import Ratio, Section
from bench.rows.reach_turn import Times, bodies, part, rounds_of
from bench.workshop import Workshop, value_detail
from tests.end_to_end.mesh import until_known
from tests.end_to_end.script import Step, say
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.trust import trusted

ROW = "sent → in the model's context, idle"
READY = "Ready for it."
PAUSE_S = (1.0, 4.0)
"""Between the end of a turn and the next message, by chance: a client may look for mail at set times."""
WAKE_S = 30.0
SESSIONS_MAX = 2
NO_TMUX = "no tmux: run `make client-setup`"


def measure_reach_idle(workshop: Workshop) -> Section:
    """One client after the other."""
    section = Section()
    sessions = min(workshop.plan.rounds, SESSIONS_MAX) if workshop.plan.judges else 1
    for short in PACKAGES:
        row = f"{ROW}: {title_of(short)}"
        outcome = rounds_of(workshop, short, _measure, sessions)
        ours = value_detail(row, "tellwire", "ms", part(outcome, "tellwire"))
        if outcome.samples:
            section.details.append(ours)
        section.ratios.append(Ratio(row, "ms", "tellwire", ours.figures.get("value"), note=ours.missing))
    return section


async def _measure(short: str, folder: Path, reaches: int) -> Times:
    if shutil.which("tmux") is None:
        raise Missing(NO_TMUX)
    times: Times = {"tellwire": []}
    texts = bodies()
    async with staged(short, folder) as stage, trusted(stage):  # an untrusted Codex would be off its daemon
        gates = [Gate() for _ in range(reaches)]
        woken = [Step(text=_answer(number), hold=gate) for number, gate in enumerate(gates)]
        stage.play(say(READY), *woken)
        async with Terminal.open(stage.client) as terminal:
            await terminal.shows(stage.client.ready_mark)
            await terminal.type("Get ready.")
            await terminal.shows(READY)
            await until_known(stage.alice, stage.agent)
            for number, gate in enumerate(gates):
                await terminal.idle()
                await asyncio.sleep(random.uniform(*PAUSE_S))
                text, began = next(texts), perf_counter()
                await stage.alice.send(stage.agent, text)
                try:
                    came = await gate.came(WAKE_S)
                except TimeoutError:
                    raise Missing(f"mail has not woken it within {WAKE_S:g} s") from None
                if text not in stage.requests[-1].text:
                    raise Missing("woken without the message")
                times["tellwire"].append((came - began) * 1000)
                gate.set()
                await terminal.shows(_answer(number))
    return times


def _answer(number: int) -> str:
    return f"Woken up {number}."
