"""How soon a message is in the model's context beside hcom, in every state, and what a tool call costs.

One session of each stands in a terminal of its own at the same time, and they are asked by turns. The clock
runs in this process: from before the command that sends starts (idle), from the end of the tool (mid-turn)
and from the model's answer (end of turn), to the request that holds the text.
"""

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.clients import Gate, check_installed, failing_as_rounds, play, title_of
from bench.engine import Missing, RoundFailed
from bench.engines import hcom_client
from bench.engines.tellwire_broker import COMMAND
from bench.process import wait_for_quiet
from bench.report import Ratio, Section, Target, compare
from bench.rounds import Outcome, interleave
from bench.rows.reach_idle import NO_TMUX, PAUSE_S, WAKE_S
from bench.workshop import Workshop, value_detail
from tests.end_to_end.clients import Client
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import Call, Step, say
from tests.end_to_end.stage import open_stage, processes_of
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.trust import trusted

OURS, HCOM, BARE = "tellwire", "hcom", "the client alone"
IDLE, MID, END, CALL = "idle", "mid-turn", "end of turn", "a tool call, nothing waiting"
TARGETS: dict[tuple[str, str], float] = {
    ("claude", IDLE): 1.25,
    ("codex", IDLE): 1.25,
    ("claude", MID): 1.1,
    ("codex", MID): 1.45,
    ("claude", END): 1.0,
    ("codex", END): 1.0,
    ("claude", CALL): 1.0,
    ("codex", CALL): 1.0,
}
"""At most so much of hcom's time."""
READY = "Ready for it."
SENDER = "writer"

Times = dict[str, list[float]]
"""Milliseconds, one by one, by contender and state."""
Send = Callable[[str], Awaitable[None]]


class Seat:
    """One contender's session in its terminal."""

    def __init__(
        self, name: str, client: Client, model: Model, terminal: Terminal, send: Send | None
    ) -> None:
        self.name = name
        self._client = client
        self._model = model
        self._terminal = terminal
        self._send = send
        self._turns = 0

    async def settle(self) -> None:
        """A first turn, to its end."""
        self._play(say(READY))
        await self._terminal.shows(self._client.ready_mark)
        await self._terminal.type("Get ready.")
        await self._terminal.shows(READY)
        await self._terminal.idle()

    async def idle_ms(self, text: str) -> float:
        """Mail for a session that waits."""
        gate, answer = Gate(), self._answer()
        self._play(Step(text=answer, hold=gate))
        await asyncio.sleep(random.uniform(*PAUSE_S))
        began = perf_counter()
        sending = asyncio.create_task(self._mail(text))
        came = await self._came(gate, text)
        gate.set()
        await sending
        await self._over(answer)
        return (came - began) * 1_000

    async def turn_ms(self, text: str) -> Times:
        """One turn: a call without mail, a call with mail, and mail during the last answer."""
        first, second, third, last = (Gate() for _ in range(4))
        answer, stamp = self._answer(), self._client.project / "stamp"
        alone = self._call(self._client.project / "other")
        self._play(
            Step(calls=(alone,), hold=first),
            Step(calls=(self._call(stamp),), hold=second),
            Step(text="So far.", hold=third),
        )
        await self._terminal.type(f"Look around, number {self._turns}.")
        await self._came(first)
        began = perf_counter()
        first.set()
        times = {CALL: [(await self._came(second) - began) * 1_000]}
        if self._send is None:
            second.set()
            await self._came(third)
            third.set()
            await self._terminal.idle()
            return times
        await self._mail(f"{text} Mid-turn.")
        offset = time.time() - perf_counter()
        second.set()
        came = await self._came(third, f"{text} Mid-turn.")
        times[MID] = [(came + offset - float(stamp.read_text("ascii"))) * 1_000]
        self._play(Step(text=answer, hold=last))
        await self._mail(f"{text} At the end.")
        began = perf_counter()
        third.set()
        times[END] = [(await self._came(last, f"{text} At the end.") - began) * 1_000]
        last.set()
        await self._over(answer)
        return times

    def _play(self, *steps: Step) -> None:
        self._model.play(self._client.short, *steps, unlisted=self._client.unlisted)

    def _call(self, stamp: Path) -> Call:
        """A command that tells when it ended."""
        words = f"date +%s.%N > {stamp}"
        return (
            Call("Bash", {"command": words})
            if self._client.short == "claude"
            else Call("exec_command", {"cmd": words})
        )

    def _answer(self) -> str:
        self._turns += 1
        return f"Answer number {self._turns}."

    async def _mail(self, text: str) -> None:
        assert self._send is not None
        await self._send(text)

    async def _came(self, gate: Gate, text: str = "") -> float:
        try:
            came = await gate.came(WAKE_S)
        except TimeoutError:
            raise RoundFailed(f"{self.name}: no request within {WAKE_S:g} s") from None
        if text not in self._model.requests(self._client.short)[-1].text:
            raise RoundFailed(f"{self.name}: a request without the message")
        return came

    async def _over(self, answer: str) -> None:
        await self._terminal.shows(answer)
        await self._terminal.idle()


def measure_reach_beside(workshop: Workshop) -> Section:
    """Claude Code and Codex; all sessions' times together."""
    section = Section()
    rounds = workshop.plan.rounds if workshop.plan.judges else 1
    with workshop.folder() as place:
        command = hcom_client.install(place)
        contenders = {short: partial(_once, workshop, short, command) for short in ("claude", "codex")}
        for short, outcome in interleave(contenders, rounds, workshop.tell).items():
            for state in (IDLE, MID, END, CALL):
                _add(section, short, state, outcome)
    return section


def _once(workshop: Workshop, short: str, command: str) -> Times:
    """One session of each contender."""
    wait_for_quiet(workshop.plan.patience_s)
    with workshop.folder() as folder:
        return play(_measure(short, folder, command, workshop.plan.reaches))


def _add(section: Section, short: str, state: str, outcome: Outcome[Times]) -> None:
    row = f"beside hcom, {state}: {title_of(short)}"

    def of(name: str) -> Outcome[float]:
        every = [each for sample in outcome.samples for each in sample.get(f"{name} {state}", [])]
        return Outcome(every, outcome.missing, outcome.failures)

    ours = value_detail(row, OURS, "ms", of(OURS))
    if not outcome.samples:
        section.ratios.append(Ratio(row, "ms", OURS, None, note=outcome.why_not))
        return
    theirs = value_detail(row, HCOM, "ms", of(HCOM))
    section.details += [ours, theirs]
    target = Target("≤", TARGETS[short, state])
    section.ratios.append(compare(row, "ms", ours, theirs, "value", target=target))
    if state == CALL:
        bare = value_detail(row, BARE, "ms", of(BARE))
        section.details.append(bare)
        section.ratios += [compare(row, "ms", each, bare, "value") for each in (ours, theirs)]


async def _measure(short: str, folder: Path, command: str, reaches: int) -> Times:
    if shutil.which("tmux") is None:
        raise Missing(NO_TMUX)
    check_installed(short)
    times: Times = {}
    with failing_as_rounds():
        async with AsyncExitStack() as stack:
            beside = partial(_hcom, command)
            seats = [await stack.enter_async_context(each(short, folder)) for each in (_ours, beside, _bare)]
            mailing = [seat for seat in seats if seat.name != BARE]
            for number in range(reaches):
                for seat in random.sample(mailing, len(mailing)):
                    text = f"Note {number} for an idle {seat.name}."
                    times.setdefault(f"{seat.name} {IDLE}", []).append(await seat.idle_ms(text))
                for seat in random.sample(seats, len(seats)):
                    found = await seat.turn_ms(f"Note {number} for {seat.name} at work.")
                    for state, some in found.items():
                        times.setdefault(f"{seat.name} {state}", []).extend(some)
    return times


@asynccontextmanager
async def _ours(short: str, folder: Path) -> AsyncGenerator[Seat]:
    """As `tellwire install` leaves it; Codex with trusted hooks, and so on its daemon."""
    async with open_stage(short, folder / "ours") as stage, trusted(stage):
        _allow_commands(stage.client)
        environment = stage.home.environment()

        async def send(text: str) -> None:
            words = (str(COMMAND), "send", "--as", SENDER, stage.agent, text)
            await hcom_client.run(*words, environment=environment)

        async with Terminal.open(stage.client) as terminal:
            seat = Seat(OURS, stage.client, stage.model, terminal, send)
            await seat.settle()
            await until_known(stage.alice, stage.agent)
            yield seat


@asynccontextmanager
async def _hcom(command: str, short: str, folder: Path) -> AsyncGenerator[Seat]:
    async with Model.open() as model:
        client = hcom_client.make(short, command, folder, model.url(short))
        _allow_commands(client)
        mailer = hcom_client.Mailer(client)
        try:
            async with Terminal.open(client) as terminal:
                seat = Seat(HCOM, client, model, terminal, mailer.send)
                await seat.settle()
                await mailer.joined()
                yield seat
        finally:
            _end_all(client)


@asynccontextmanager
async def _bare(short: str, folder: Path) -> AsyncGenerator[Seat]:
    async with Model.open() as model:
        client = PROGRAMS[short](folder / "bare", folder / "bare-shop", model.url(short))
        client.configure()
        _allow_commands(client)
        async with Terminal.open(client) as terminal:
            seat = Seat(BARE, client, model, terminal, None)
            await seat.settle()
            yield seat


def _allow_commands(client: Client) -> None:
    """Claude Code asks before a command otherwise."""
    path = client.home / ".claude/settings.json"
    if path.exists():
        text = path.read_text("utf-8")
        path.write_text(text.replace('"allow": [', '"allow": ["Bash", ', 1), encoding="utf-8")


def _end_all(client: Client) -> None:
    """End what hcom has started beside its client."""
    for pid in processes_of(str(client.home).encode()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
