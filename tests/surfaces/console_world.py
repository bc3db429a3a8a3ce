"""A console on a screen of the test's own, before the real engine, journal and kernel, with a clock by hand.

The engine runs in the same process (`tests/simulation/broker`), so nothing waits, and the same story gives
the same picture. What only a running broker can do (start processes, read sessions) is answered by the test.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

from textual.pilot import Pilot

from tellwire.core.context import Caller
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import parse_broker_frame
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.base import Operation, Reply
from tellwire.protocol.operations.children import ChildRecord, SpawnAgent
from tellwire.protocol.operations.feed import Overview, OverviewPage, ReportActivity, WatchFeed
from tellwire.protocol.operations.messages import ConfirmMessages, SendMessage, Sent
from tellwire.protocol.operations.needs import Attend, Attending, Notice
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.sdk.watching import Change
from tellwire.store.memory_journal import MemoryJournal
from tellwire.tui.app import Console, Look
from tellwire.tui.hands import Abilities, Check
from tellwire.views.signs import UNICODE, Signs
from tests.simulation.broker import Life, Port, Tap, Time

BEGAN = 1_794_000_000.0
"""When every story begins: a fixed moment."""
WITHIN_S = 60.0
SESSION = "## user\n\nPlease also check the lexer.\n\n## assistant\n\nReading src/lexer.py ...\n"
Answer = Callable[[Any], Reply]


class ScreenPort(Port):
    """The connection of a console: frames of the feed go to the wire."""

    def __init__(self, life: Life, put: Callable[[Change], None]) -> None:
        super().__init__(life)
        self.caller = Caller(kind="operator", console="tui")
        self._put = put

    def offer(self, frame: bytes) -> None:
        for text in frame.splitlines():
            told = parse_broker_frame(text)
            found = told.feed or told.rows or told.pulse
            if found is not None:
                self._put(found)


class EngineWire:
    """A console's wire to an engine in the same process; it keeps what was sent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queue: asyncio.Queue[Change] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self.back = asyncio.Event()
        self.back.set()
        self.sent: list[Operation[Any]] = []
        """All that was asked for and is not merely read."""
        self.read: list[Operation[Any]] = []
        self.attended: list[Attend] = []
        self.port = ScreenPort(world.life, self._queue.put_nowait)
        self.seq = 0

    def begin(self) -> None:
        """An overview, then the feed."""
        page = self._ask(Overview())
        assert isinstance(page, OverviewPage)
        assert not page.next
        self._queue.put_nowait(page)
        self._ask(WatchFeed(after=page.seq, live=True, chars=300))
        self._world.life.run()

    def reconnect(self) -> None:
        """The broker died and another one runs: go on behind the last event, as the SDK does."""
        self.port = ScreenPort(self._world.life, self._queue.put_nowait)
        self._ask(WatchFeed(after=self.seq, live=True, chars=300))
        self._world.life.run()
        self.back.set()

    @property
    def connected(self) -> bool:
        return self.back.is_set()

    async def changes(self) -> AsyncIterator[Change]:
        while True:
            change = await self._queue.get()
            self.seq = max(self.seq, getattr(change, "seq", 0))
            yield change

    async def call(self, operation: Operation[Any]) -> Any:
        (self.read if operation.reads else self.sent).append(operation)
        await self.back.wait()
        if (answer := self._world.answers.get(type(operation))) is not None:
            return answer(operation)
        reply = self._ask(operation)
        if isinstance(reply, TellwireError):
            raise reply
        return reply

    def _ask(self, operation: Operation[Any]) -> object:
        number = next(self._numbers)
        port, life = self.port, self._world.life
        (life.engine.answer_now if operation.reads else life.engine.submit)(
            port, number, cast("Any", operation)
        )
        life.run()
        port.flush()
        return next(said for heard, said in reversed(port.heard) if heard == number)

    async def attend(
        self, *, focused: bool, notifies: bool = False, heard: int = 0, quiet_s: float | None = None
    ) -> Attending:
        self.attended.append(Attend(focused=focused, notifies=notifies, heard=heard, quiet_s=quiet_s))
        return Attending(looking=focused, quiet_until=self._world.time.wall + quiet_s if quiet_s else 0.0)

    def notice(self, notice: Notice) -> None:
        """The broker wants the person's attention."""
        self._queue.put_nowait(notice)

    def new_key(self) -> str:
        return f"{int(self._world.life.state.awake * 1_000_000):x}-test{next(self._numbers):x}"


class World:
    """Agents and a broker, by hand."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.time = Time()
        self.time.wall = BEGAN
        self._limits = limits
        self._tap = Tap(MemoryJournal())
        self.life = self._broker()
        self.ports: dict[str, Port] = {}
        self._number = itertools.count(1)
        self.answers: dict[type, Answer] = {
            GetSessionData: self._session,
            SpawnAgent: lambda asked: ChildRecord(id="a99", name=asked.name, place="tmux window tester"),
        }
        self.wire = EngineWire(self)
        self.went: list[str] = []
        """Agents whose terminal was asked for."""
        self.go: list[str] | TellwireError = ["true"]
        self.checks = [
            Check("ok", "broker", "runs"),
            Check("warn", "codex", "has no hooks", "Run `tellwire install codex`."),
        ]

    def _broker(self) -> Life:
        life = Life(self._tap, self.time, self._limits)
        activities: Any = life.engine.facts.activities
        activities._now = lambda: self.time.wall  # the broker's own takes the machine's clock
        return life

    def _session(self, asked: GetSessionData) -> SessionData:
        return SessionData(
            agent=asked.agent, kind="codex", status="online", source="transcript", text=SESSION
        )

    # -- what agents do -------------------------------------------------------------------------------

    def join(self, name: str, kind: str = "script", *, group: str = "/home/you/shop") -> str:
        """An agent joins; its id."""
        port = self.ports[name] = Port(self.life, process=f"{len(self.ports) + 100}.1")
        port.group = group
        self.ask(name, RegisterAgent(name=name, kind=kind, session=f"s-{name}", cwd=group))
        return port.caller.agent

    def ask(self, name: str, operation: Operation[Any]) -> Any:
        """An agent asks for something; refusals are raised."""
        port, number = self.ports[name], next(self._number)
        engine = self.life.engine
        (engine.answer_now if operation.reads else engine.submit)(port, number, cast("Any", operation))
        self.life.run()
        port.flush()
        said = next(said for heard, said in reversed(port.heard) if heard == number)
        if isinstance(said, TellwireError):
            raise said
        return said

    def say(self, name: str, to: str | list[str], body: str, **fields: Any) -> str:
        """An agent sends a message; its id."""
        sent = cast("Sent", self.ask(name, SendMessage(to=to, body=body, **fields)))
        assert sent.id, sent
        return sent.id

    def read(self, name: str, *ids: str) -> None:
        """An agent confirms messages."""
        self.ask(name, ConfirmMessages(ids=list(ids)))

    def does(self, name: str, activity: str, wants: str = "") -> None:
        """What an agent tells of itself."""
        self.ask(name, ReportActivity(activity=cast("Any", activity), wants=wants))

    def pass_by(self, seconds: float) -> None:
        """Time goes by."""
        self.time.pass_by(seconds)
        self.life.engine.wake()
        self.life.run()

    def kill(self) -> None:
        """The broker is gone at once."""
        self.wire.back.clear()

    def restart(self) -> None:
        """Another one runs on the same journal; agents come back by themselves."""
        self.life = self._broker()
        names, self.ports = list(self.ports), {}
        self.wire.reconnect()
        for name in names:
            self.join(name)

    # -- the console ----------------------------------------------------------------------------------

    def go_words(self, name: str) -> list[str]:
        self.went.append(name)
        if isinstance(self.go, TellwireError):
            raise self.go
        return self.go

    @asynccontextmanager
    async def console(
        self, size: tuple[int, int] = (120, 40), *, signs: Signs = UNICODE, theme: str = "dark"
    ) -> AsyncGenerator[Screen]:
        """A console that has the picture."""
        app = Console(
            self.wire,
            look=Look(signs, theme),
            abilities=Abilities(self.go_words, lambda: self.checks),
            clock=lambda: self.time.wall,
        )
        async with app.run_test(size=size) as pilot:
            screen = Screen(self, app, pilot)
            self.wire.begin()
            await screen.until(lambda: app.desk.ready)
            await screen.settle()
            yield screen


class Screen(NamedTuple):
    """What a person has before them."""

    world: World
    app: Console
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        """All that is on screen."""
        return "\n".join("".join(segment.text for segment in strip) for strip in self.strips()).rstrip()

    def strips(self) -> list[Any]:
        return self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]

    async def press(self, *keys: str) -> None:
        """Keys, one after the other; all that follows from them is done."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Text, letter by letter."""
        names = {" ": "space", "\n": "ctrl+j"}
        await self.pilot.press(*(names.get(sign, sign) for sign in text))
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is under way: no job of the console, no change that is not painted."""
        await self.pilot.pause()
        await self.until(lambda: not self.app.busy)
        await self.pilot.pause()

    async def until(self, look: Callable[[], object]) -> None:
        """Wait for something that comes of itself."""
        deadline = time.monotonic() + WITHIN_S
        while not look():
            assert time.monotonic() < deadline, f"not seen in time:\n{self.text}"
            await asyncio.sleep(0.01)

    async def shows(self, *words: str) -> None:
        """Wait until the words are on screen."""
        await self.until(lambda: all(word in self.text for word in words))

    @property
    def sent(self) -> list[Operation[Any]]:
        """What the console asked the broker to do."""
        return self.world.wire.sent
