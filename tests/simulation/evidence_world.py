"""A broker's engine and hooks beside the model of one client, on time that passes when everybody waits.

Engine, kernel, tracker, sessions and readers are the real ones. A sequence is drawn from a seed; after each
step the receipts must be true to what the modelled model was asked.
"""

from __future__ import annotations

import asyncio
import random
import re
import selectors
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tellwire.broker.calls import OwnCalls
from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.clients import CLIENTS
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.pi.facts import PI
from tellwire.core.context import Caller, EndSession
from tellwire.core.limits import Limits
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.agents import PathRecord, RegisterAgent
from tellwire.protocol.operations.messages import SendMessage
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.tracker import SessionTracker
from tellwire.sessions.waking import Wakers
from tellwire.store.memory_journal import MemoryJournal
from tellwire.system.clock import Clock
from tellwire.system.panes import WAKE_LINE
from tests.clients import requests_of
from tests.simulation.agent_models import MODELS, PID, Claude, Entry, Model, Plugin, marks_of

FRAME = re.compile(r"<peer-message id=(\w+) from=[^>]*>")
BEGAN = 1_794_800_000.0
POLL_S = 25.0
QUIET_S = 120.0
"""A client that rests for so long has had every look that there is."""


class Time(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next thing that is to be done."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__(_Waits(self))

    def time(self) -> float:
        return self.now


class _Waits(selectors.SelectSelector):
    def __init__(self, loop: Time) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everybody waits for ever"
            self._loop.now += max(timeout, 0.0)
        return found


@contextmanager
def own_time() -> Generator[Time]:
    """All clocks are the loop's."""
    loop = Time()

    async def at_once(work: Any, *given: Any) -> Any:
        return work(*given)

    def fine() -> float:
        loop.now += 0.001  # no two things happen at once
        return loop.now

    def wall() -> float:
        return BEGAN + fine()

    with (
        mock.patch.object(time, "time", wall),
        mock.patch.object(time, "monotonic", fine),
        mock.patch.object(asyncio, "to_thread", at_once),
    ):
        try:
            yield loop
        finally:
            loop.close()


class Seat(OwnCalls):
    """Where an agent's shim sits; mail that waits is told to the hooks."""

    def __init__(self, world: World, name: str, word: str, kind: str) -> None:
        super().__init__(world.engine)
        self._world = world
        self.name, self.kind, self.word = name, kind, word
        self._nobody = Caller(kind="script", process=word, owner=word)
        self.caller = self._nobody

    async def join(self, resume: str = "") -> str:
        kind = self.kind
        ask = RegisterAgent(
            name=self.name,
            kind=kind,
            session=f"session-{self.word}",
            resume=resume,
            owns_process=kind != "script",
            pulls=True,
            cwd="/shop",
        )
        return (await self.call(ask)).id

    def attach(self, agent: str, *, is_own_client: bool) -> None:
        self.caller = self._nobody.speaking_as(agent, is_own_client=is_own_client)

    def mail(self, waiting: int) -> None:
        self._world.hooks.mail(self.caller.agent)


class World:
    """One client, one broker at a time, and alice, who writes."""

    def __init__(self, row: str, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.journal = MemoryJournal()
        self.sent: list[str] = []
        self.story: list[str] = []
        self.fate = ""
        """Of the next hook: `late` gave up before it was answered, `lost` after."""
        self.lock = asyncio.Lock()
        self.lives = 1
        self.is_dead = False
        self.left: dict[str, list[Entry]] = {}
        """What stands in each session that its human has left, and in its queue."""
        self.model: Model = MODELS[row](folder, self.hook)
        self.is_patient = True

    async def begin(self) -> None:
        self.start_broker()
        self.alice = Seat(self, "alice", "77.1", "script")
        await self.alice.join()
        await self.connect()

    def start_broker(self) -> None:
        self.engine = Engine(
            self.journal,
            Clock(hold_s=90.0, wall=time.time, monotonic=time.monotonic),
            Limits(),
            call_soon=asyncio.get_running_loop().call_soon,
            fatal=_fail,
            alive=lambda process: True,
        )
        self.engine.start("simulated")
        server = Server(
            self.engine,
            Limits(),
            version="simulated",
            heartbeat_s=30,
            greeting_s=5,
            connections_max=10,
        )
        self.plugins = {each.kind: each for each in (OPENCODE.opened(), PI.opened())}
        clients = {each.kind: each for each in CLIENTS}
        wakers = Wakers()
        self.hooks = SessionTracker(
            self.engine,
            {**clients, **self.plugins},
            self.folder / "marks",
            wakers=wakers,
            owner_above=server.agent_owning,
        )
        wakers.add(self.model.kind, [self])

    async def connect(self, resume: str = "") -> None:
        self.seat = Seat(self, "worker", f"{PID}.{self.lives}", self.model.kind)
        self.agent = await self.seat.join(resume)

    # -- the client's hooks, and its wakes

    async def hook(self, event: str, **fields: Any) -> str:
        """What the client takes out of an answer."""
        await asyncio.sleep(0.01)
        model = self.model
        payload = {
            "hook_event_name": event,
            "session_id": model.session,
            "transcript_path": "" if isinstance(model, Plugin) else str(model.file),
            "cwd": "/shop",
            **fields,
        }
        fate, self.fate = self.fate, ""
        if plugin := self.plugins.get(model.kind):
            requests_of(plugin).take(plugin.hooks.parse(payload), payload)
        heard = await self.hooks.handle(model.kind, payload, [self.seat.word], lambda: fate != "late")
        assert not (heard and fate == "late"), "mail for a hook that had given up"
        if fate:
            self.story.append(f"  {event} {fate}")
            return ""
        heard = heard or {}
        more = heard.get("hookSpecificOutput", {})
        dropped = model.kind == "gemini-cli" and event == "SessionStart"
        return (
            "" if dropped else more.get("additionalContext") or heard.get("reason") or heard.get("text", "")
        )

    def path_of(self, agent: Agent) -> PathRecord:
        return PathRecord(name="wake", works=True, wakes=True)

    async def wake(self, session: ClientSession, agent: Agent) -> bool:
        """An idle client is given what waits, by its own way."""
        model = self.model
        if not model.has_waiter or self.is_dead:
            return False
        if not model.path:
            self.hooks.run(self.begin_turn(WAKE_LINE, copy=False))
            return True
        fetched = await self.hooks.fetcher.fetch(session, model.path, "wake")
        if not fetched.text:
            return False
        model.has_waiter = not isinstance(model, Claude)
        if self.random.random() < 0.1 and model.path != "queue":
            self.story.append("  wake lost")
            return True
        if model.path == "queue" and model.session != session.conversation:
            self.leave(session.conversation, Entry("queue", fetched.text))
            return True
        self.hooks.run(self.begin_turn(fetched.text, copy=True))
        return True

    def leave(self, session: str, *entries: Entry) -> None:
        """These stay with a session that its human has left."""
        self.left.setdefault(session, []).extend(entries)

    async def begin_turn(self, text: str, *, copy: bool) -> None:
        session = self.model.session
        async with self.lock:
            if self.is_dead:
                return
            if self.model.session != session and not isinstance(self.model, Claude):
                self.leave(session, Entry("queue", text))
                return
            if self.model.turn is not None and isinstance(self.model, Claude):
                await self.model.enqueue(text)
                return
            while self.model.turn is not None:
                await self.model.final()
            self.story.append("  woken")
            await self.model.prompt(text, copy=copy)
            while self.is_patient and self.model.turn is not None:
                await self.model.final()

    async def rest(self, seconds: float) -> None:
        """Time passes; a plugin polls meanwhile, and tells what its session holds while it rests."""
        while seconds > 0:
            await asyncio.sleep(min(seconds, POLL_S))
            seconds -= POLL_S
            plugin = self.plugins.get(self.model.kind)
            if plugin and self.model.turn is None and self.model.has_waiter:
                held = marks_of(self.model.entries)
                told = {"hook_event_name": "session_started", "session_id": self.model.session, "held": held}
                requests_of(plugin).take(plugin.hooks.parse(told), told)

    # -- steps

    async def step(self) -> None:
        busy = [
            "tool",
            "tool",
            "final",
            "final",
            "final",
            "esc",
            "late",
            "lost",
            "send",
            "broker",
            "kill",
            "wait",
        ]
        rests = [
            "prompt",
            "prompt",
            "prompt",
            "send",
            "send",
            "late",
            "lost",
            "broker",
            "kill",
            "compact",
            "clear",
            "wait",
        ]
        async with self.lock:
            word = self.random.choice(rests if self.model.turn is None else busy)
            self.story.append(word)
            self.is_patient = self.random.random() < 0.5
            await getattr(self, f"do_{word}")()
        if word == "wait":
            await self.rest(self.random.choice([2.0, 5.0, 30.0]))
        await asyncio.sleep(self.random.choice([0.05, 0.3, 1.0, 6.0]))
        self.check()

    async def do_prompt(self) -> None:
        await self.model.prompt(f"Work {len(self.story)}.")

    async def do_tool(self) -> None:
        await self.model.tool()

    async def do_final(self) -> None:
        await self.model.final()

    async def do_esc(self) -> None:
        await self.model.esc()

    async def do_compact(self) -> None:
        await self.model.compact()

    async def do_clear(self) -> None:
        self.leave(self.model.session, *self.model.entries)
        await self.model.clear()

    async def do_late(self) -> None:
        self.fate = "late"

    async def do_lost(self) -> None:
        self.fate = "lost"

    async def do_wait(self) -> None:
        """Nobody does anything."""

    async def do_send(self) -> None:
        sent = await self.alice.call(SendMessage(to="worker", body=f"mail {len(self.sent)}"))
        self.sent.append(sent.id)

    async def do_broker(self) -> None:
        """`kill -9` of the broker; the next one begins at once."""
        self.end_tasks()
        self.start_broker()
        self.alice = Seat(self, "alice", "77.1", "script")
        await self.alice.join()
        await self.connect(resume=self.agent)
        self.hooks.recall()

    async def do_kill(self) -> None:
        """`kill -9` of the client, which is then resumed."""
        agent = self.engine.state.agents[self.agent]
        self.is_dead = True
        await self.hooks.settle(agent.id)
        self.engine.submit(self.seat, 0, EndSession(agent.id, agent.session))
        await asyncio.sleep(0.1)
        self.lives += 1
        self.is_dead = False
        self.fate = ""
        await self.connect()
        await self.model.resume()

    def end_tasks(self) -> None:
        self.hooks._tasks.cancel()  # pyright: ignore[reportPrivateUsage]

    # -- what has to be true

    def check(self) -> None:
        agent = self.engine.state.agents[self.agent]
        waiting = agent.pending.keys() | agent.leased.keys()
        proved = {message for asked in self.model.answered for message in copies(asked)}
        for message in self.sent:
            if parse_message_id(message) not in waiting:
                assert message in proved, f"{message} is read without evidence"
        for asked in self.model.answered[-3:]:
            for message, unmarked in copies(asked).items():
                assert len(unmarked) <= 1, f"{message} is {len(unmarked)} times in a context, unmarked"

    async def end(self) -> None:
        """Let everything come to rest: nothing is stuck; and with one more prompt all is read."""
        self.fate = ""
        self.is_patient = True
        self.random.random = lambda: 1.0  # no wake gets lost any more
        async with self.lock:
            while self.model.turn is not None:
                await self.model.final()
        for _ in range(2):
            await self.rest(QUIET_S)
            self.check()
            agent = self.engine.state.agents[self.agent]
            held = copies(self.model.entries, marked=True)
            session = self.hooks.sessions.of(agent.id)
            if (
                self.model.path == "queue"
                and session is not None
                and session.conversation != self.model.session
            ):
                # Codex tells of a new session with its first prompt: nobody knows yet that the old one,
                # and what stands in it or in its queue, was left.
                held |= copies(self.left.get(session.conversation, []), marked=True)
            stuck = [
                each for each in self.sent if parse_message_id(each) in agent.leased and each not in held
            ]
            assert not stuck, f"{stuck} stay delivered while the client rests"
            async with self.lock:
                await self.model.prompt("Anything else?")
                while self.model.turn is not None:
                    await self.model.final()
        agent = self.engine.state.agents[self.agent]
        left = [
            each for each in self.sent if parse_message_id(each) in agent.pending.keys() | agent.leased.keys()
        ]
        assert not left, f"{left} never came"


def copies(asked: list[Entry], *, marked: bool = False) -> dict[str, set[int]]:
    """For each message in a context, the hand-overs that brought it without a mark of a repeat."""
    found: dict[str, set[int]] = {}
    for entry in asked:
        for frame in FRAME.finditer(entry.text.replace("&gt;", ">").replace("&lt;", "<")):
            new = found.setdefault(frame[1], set())
            if marked or "repeat=maybe" not in frame[0]:
                new.add(entry.copy)
    return found


def _fail(error: TellwireError) -> None:
    raise AssertionError(error)


def play(row: str, folder: Path, seed: int, steps: int = 25) -> None:
    """One sequence, from its beginning to a rest."""

    async def live(world: World) -> None:
        for _ in range(steps):
            await world.step()

    _live(row, folder, seed, live)


def tell(row: str, folder: Path, story: str) -> None:
    """One sequence whose steps are told, each a moment after the one before."""

    async def live(world: World) -> None:
        world.is_patient = True
        world.random.random = lambda: 1.0
        for word in story.split():
            async with world.lock:
                world.story.append(word)
                await getattr(world, f"do_{word}")()
            await world.rest(1.0)
            world.check()

    _live(row, folder, 0, live)


def _live(row: str, folder: Path, seed: int, live: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(row, folder, seed)
        try:
            await world.begin()
            if not isinstance(world.model, Plugin) and row != "codex":
                world.model.entries += world.model.given(await world.hook("SessionStart", source="startup"))
            await live(world)
            await world.end()
        except Exception as error:
            raise AssertionError(f"{row}, seed {seed}: {error!r}\n" + "\n".join(world.story)) from error
        finally:
            world.end_tasks()
            await asyncio.sleep(0)

    with own_time() as loop:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(run())
        finally:
            asyncio.set_event_loop(None)
