"""One need, one notice, in order: a focused console, one that can notify, a command; with the real engine."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tellwire.broker.attendance import NoticeTimes, Noticing, run_command
from tellwire.core.context import Caller
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import parse_broker_frame
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.feed import ReportActivity
from tellwire.protocol.operations.messages import SendMessage
from tellwire.protocol.operations.needs import Attend, Attending, Notice
from tellwire.store.memory_journal import MemoryJournal
from tests.integration.world import WITHIN_S, Home, Join, until
from tests.simulation.broker import Life, Port, Tap, Time
from tests.surfaces.mcp_client import FORGED

OPERATOR = Caller(kind="operator", console="tui")
PROGRAM = "import sys, json; open(sys.argv[1], 'a').write(json.dumps(sys.argv[2:]) + chr(10))"
NOTE = f'{sys.executable} -c "{PROGRAM}"'


class ConsolePort(Port):
    """A console of the person's: the notices it was sent, which it may acknowledge."""

    def __init__(self, world: World, *, hears: bool = True, **told: Any) -> None:
        super().__init__(world.life)
        self.caller = OPERATOR
        self.notices: list[Notice] = []
        self.world = world
        self.told = told
        self.hears = hears
        self.reply = self.attend()

    def attend(self, **more: Any) -> object:
        self.world.life.engine.answer_now(self, 1, Attend(**{**self.told, **more}))
        return self.heard[-1][1]

    def offer(self, frame: bytes) -> None:
        notice = parse_broker_frame(frame.strip()).notice
        assert notice is not None
        self.notices.append(notice)
        if self.hears:
            asyncio.get_running_loop().call_soon(lambda: self.attend(heard=notice.id))


class World:
    """An engine, one agent, and the part that notifies."""

    def __init__(self, file: Path, *, quiet: str = "", hear_s: float = 30.0) -> None:
        self.time = Time()
        self.life = Life(Tap(MemoryJournal()), self.time)
        self.file = file
        self.minute = 0
        engine = self.life.engine
        self.noticing = Noticing(
            engine,
            engine.attendance,
            engine.own_context,
            command=f"{NOTE} {file}",
            quiet=quiet,
            minute=lambda: self.minute,
            times=NoticeTimes(hear_s=hear_s, command_s=WITHIN_S),
        )
        self.bob = Port(self.life)
        self.ask(RegisterAgent(name="bob", session="s-bob"))
        self.noticing.beat()

    def ask(self, operation: Any) -> None:
        self.life.engine.submit(self.bob, 1, operation)
        self.life.run()

    async def beat(self, seconds: float = 1.0) -> None:
        self.time.pass_by(seconds)
        self.life.engine.clock.read()
        self.noticing.beat()
        await self.noticing.drain()

    def told(self) -> list[list[str]]:
        """The arguments of each run of the command."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "told")


def question(body: str = "Drop it?") -> SendMessage:
    return SendMessage(to="operator", body=body, choices=["yes", "no"])


@pytest.mark.requirement("HUM-5", stage="console")
async def test_without_a_console_the_command_is_run_once(world: World) -> None:
    world.ask(question())
    for _ in range(20):
        await world.beat()
    assert world.told() == [["--", "bob asks: Drop it?"]]


@pytest.mark.requirement("HUM-5", stage="console")
async def test_a_focused_console_needs_no_notice(world: World) -> None:
    console = ConsolePort(world, focused=True, notifies=True)
    assert console.reply == Attending(looking=True)
    world.ask(question())
    await world.beat()
    assert (console.notices, world.told()) == ([], [])
    console.attend(focused=False)
    await world.beat(700.0)
    assert (console.notices, world.told()) == ([], []), "it was seen"


@pytest.mark.requirement("HUM-5", stage="console")
async def test_one_console_notifies_and_no_other_does(world: World) -> None:
    first, second = ConsolePort(world, notifies=True), ConsolePort(world, notifies=True)
    plain = ConsolePort(world)
    world.ask(question())
    await world.beat()
    (notice,) = first.notices
    assert (notice.kind, notice.who, notice.text, notice.more) == ("question", "bob", "bob asks: Drop it?", 0)
    assert notice.message
    assert (second.notices, plain.notices, world.told()) == ([], [], [])


async def test_a_console_that_does_not_answer_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path / "told", hear_s=0.05)
    deaf = ConsolePort(world, hears=False, notifies=True)
    closed = ConsolePort(world, notifies=True)
    closed.writable = False
    gone = ConsolePort(world, notifies=True)
    world.life.engine.attendance.leave(gone)
    world.ask(question())
    await world.beat()
    assert (len(deaf.notices), closed.notices, gone.notices) == (1, [], [])
    assert world.told() == [["--", "bob asks: Drop it?"]]


async def test_a_client_that_waits_for_more_than_a_moment_is_told_with_what_it_wants(
    world: World,
) -> None:
    world.ask(ReportActivity(activity="waiting", wants="Bash: rm -rf build"))
    await world.beat(0.0)
    world.ask(ReportActivity(activity="busy"))
    await world.beat(2.0)
    assert world.told() == []
    world.ask(ReportActivity(activity="waiting", wants="Bash: rm -rf build"))
    await world.beat(0.5)
    await world.beat(1.0)
    assert world.told() == [["--", "bob waits for you: Bash: rm -rf build"]]


@pytest.mark.requirement("HUM-5", stage="console")
async def test_quiet_hours_collect_and_end_with_one_notice(tmp_path: Path) -> None:
    world = World(tmp_path / "told", quiet="22:00-07:30")
    world.minute = 23 * 60
    world.ask(question("First?"))
    await world.beat()
    world.ask(question("Second?"))
    await world.beat(100.0)
    assert world.told() == []
    world.minute = 7 * 60 + 30
    await world.beat()
    await world.beat()
    assert world.told() == [["--", "In quiet hours: bob asks: First? (and 1 more)"]]


async def test_the_person_can_ask_for_quiet_and_end_it(world: World) -> None:
    console = ConsolePort(world)
    reply = console.attend(quiet_s=3_600.0)
    assert isinstance(reply, Attending)
    assert reply.quiet_until > 0
    world.ask(question())
    await world.beat()
    assert world.told() == []
    assert console.attend(quiet_s=0.0) == Attending()
    await world.beat()
    assert len(world.told()) == 1
    refused = console.attend(quiet_s=-1.0)
    assert isinstance(refused, TellwireError)
    assert refused.code == "bad_request"


@pytest.mark.requirement("HUM-6", stage="console")
@pytest.mark.parametrize(
    "body", [FORGED, "--help\n-x", "$(touch x); `id` | sh", "\x1b]0;x\x07 \u202e evil", "x" * 9_000]
)
async def test_what_an_agent_says_is_one_harmless_argument(world: World, body: str) -> None:
    world.ask(question(body))
    await world.beat()
    (arguments,) = world.told()
    assert len(arguments) == 2
    assert (arguments[0], arguments[1].startswith("bob asks: ")) == ("--", True)
    assert len(arguments[1]) <= 120
    assert arguments[1].isprintable()


async def test_only_the_person_can_attend(world: World) -> None:
    world.life.engine.answer_now(world.bob, 7, Attend(focused=True))
    refusal = next(said for n, said in world.bob.heard if n == 7)
    assert isinstance(refusal, TellwireError)
    assert not world.life.engine.attendance.is_looking


async def test_a_command_that_fails_hangs_or_is_not_there_harms_nobody(tmp_path: Path) -> None:
    assert not await run_command([str(tmp_path / "none")], "x", 5.0)
    assert not await run_command(["false"], "x", WITHIN_S)
    assert await run_command(["true"], "x", WITHIN_S)
    mark = tmp_path / "pid"
    script = ["sh", "-c", f"echo $$ > {mark}; exec sleep 1000"]
    assert not await run_command(script, "x", 0.5)


async def test_a_real_broker_runs_the_command(home: Home, join: Join, tmp_path: Path) -> None:
    file = tmp_path / "told"
    home.up(notify_command=f"{NOTE} {file}", beat_s=0.1)
    alice = await join("alice")
    await alice.send("operator", "May I?", choices=["yes", "no"])
    await until(file.exists, what="the notice")
    assert json.loads(file.read_text()) == ["--", "alice asks: May I?"]
