"""Looks after the processes of children: starts what is reserved, tells what came of it, ends what is to end.

What a child is stands in the state; this only carries it out and reports. So a crash of the broker loses
nothing: a process that has no leave yet gives up by itself, one that runs is watched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from palaver.broker.engine import Engine
from palaver.broker.ports import Source
from palaver.core.context import (
    Caller,
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReserveChild,
    SweepLineage,
)
from palaver.core.state import Agent, Child
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.base import Reply
from palaver.protocol.operations.children import ChildRecord, SpawnAgent
from palaver.spawn import launch as processes
from palaver.spawn.launch import Launch, StartError
from palaver.spawn.programs import COMMAND, Unstartable, command_line, environment_of

log = logging.getLogger("palaver.children")

SETTLE_S = 1.0
"""A program that is no client counts as up when it has run so long."""
LOOK_S = 0.05
ANSWER_SLACK_S = 15.0


class Asker:
    """Puts one command to the engine on a caller's behalf, and waits for the answer."""

    writable = True
    last_seen = 0.0

    def __init__(self, caller: Caller, group: str) -> None:
        self.caller = caller
        self.group = group
        self.answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, n: int, reply: Reply) -> None:
        """What came of it."""
        del n
        if not self.answered.done():
            self.answered.set_result(reply)

    def refuse(self, n: int, error: PalaverError) -> None:
        """It was refused."""
        del n
        if not self.answered.done():
            self.answered.set_exception(error)

    def offer(self, frame: bytes) -> None:
        """Nobody is offered anything here."""

    def mail(self, waiting: int) -> None:
        """Nor told of mail."""

    def flush(self) -> None:
        """There is no line."""

    def attach(self, agent: str, *, holds: bool) -> None:
        """It stays who it is."""

    def detach(self) -> None:
        """As above."""

    def dismiss(self, error: PalaverError) -> None:
        """As above."""


class Launcher:
    """Built by the daemon; `watch` runs as long as the broker does."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self._engine = engine
        self._folder = home / "children"
        self._home = home
        self._hands: set[str] = set()
        """Children that are being started or ended at the moment."""
        self._processes: dict[str, str] = {}
        """From a child's id to its process: what must end when the child is no more."""
        self._names: dict[str, str] = {}
        self._led: set[str] = set()
        """Processes that have leave to begin."""
        self._failures: dict[str, tuple[str, str]] = {}
        """Why children did not come up, for those who wait."""
        self._watched: dict[str, int] = {}
        """From a process to the descriptor that tells of its end."""
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        engine.slow[SpawnAgent] = self.begin
        engine.observers.append(self._news.set)

    async def watch(self) -> None:
        """Carry out what the state says, whenever it has changed."""
        state = self._engine.state
        kept = [agent for agent, child in state.children.items() if child.process]
        await asyncio.to_thread(processes.forget_all_but, self._folder, kept)
        for _ in range(len(state.children) + 1):  # a sweep does one thing at a time
            self._engine.submit_own(SweepLineage(begun=True))
        while True:
            self._news.clear()
            self._look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._news.wait()

    # -- asking for a child ---------------------------------------------------------------------------

    def begin(self, source: Source, n: int, operation: SpawnAgent) -> None:
        """Answer a call for a child when it is up, or is not going to be."""
        self._run(self._serve(source, n, operation))

    async def _serve(self, source: Source, n: int, operation: SpawnAgent) -> None:
        try:
            asker = Asker(source.caller, source.group)
            self._engine.submit(asker, 1, ReserveChild(operation))
            record = await asker.answered
            assert isinstance(record, ChildRecord)
            source.answer(n, await self._come_up(record))
        except PalaverError as error:
            self._engine.refusals.note(source.caller, operation, error, self._engine.clock.now)
            source.refuse(n, error)
        except Exception:
            log.exception("a child could not be started")
            source.refuse(n, PalaverError("internal", "The child could not be started."))
        source.flush()

    async def _come_up(self, record: ChildRecord) -> ChildRecord:
        """Wait until a child is up.

        Raises:
            PalaverError: `child_failed`, with its own words.
        """
        limit_s = self._engine.limits.child_up_s + ANSWER_SLACK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while (child := self._engine.state.children.get(record.id)) is not None:
                    if child.status == "running":
                        return ChildRecord(
                            id=record.id,
                            name=record.name,
                            kind=record.kind,
                            parent=record.parent,
                            status="running",
                            scoped=child.scoped,
                            rules=record.rules,
                            place=child.place,
                            since=self._engine.clock.now,
                        )
                    await asyncio.sleep(LOOK_S)
        reason, output = self._failures.pop(record.id, ("It was not up in time.", ""))
        words = f"{record.name!r} did not come up: {reason}"
        raise PalaverError("child_failed", f"{words}\n{output}" if output else words)

    # -- what the state says --------------------------------------------------------------------------

    def _look(self) -> None:
        state = self._engine.state
        for agent_id, child in state.children.items():
            agent = state.agents[agent_id]
            self._names[agent_id] = agent.name
            if child.process:
                self._processes[agent_id] = child.process
                self._watch_end(agent_id, child.process)
            if agent_id in self._hands:
                continue
            if child.status == "reserved":
                self._take_in_hand(agent_id, self._start(agent, child))
            elif child.status == "started" and child.process not in self._led:
                self._take_in_hand(agent_id, self._lead(agent, child.process))
            elif child.status == "started" and agent.online:
                self._engine.submit_own(NoteChildUp(agent_id))
            elif child.status == "stopping" and child.process:
                self._take_in_hand(agent_id, self._stop(agent_id, child.process))
        for agent_id in [each for each in self._processes if each not in state.children]:
            if agent_id not in self._hands:
                self._take_in_hand(agent_id, self._clear(agent_id, self._processes.pop(agent_id)))

    def _take_in_hand(self, agent_id: str, work: Coroutine[Any, Any, None]) -> None:
        self._hands.add(agent_id)

        async def run() -> None:
            try:
                await work
            except Exception:
                log.exception("looking after the child %s failed", agent_id)
            finally:
                self._hands.discard(agent_id)
                self._news.set()

        self._run(run())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- starting -------------------------------------------------------------------------------------

    async def _start(self, agent: Agent, child: Child) -> None:
        session = secrets.token_hex(16)
        folder = self._folder / agent.id
        parent = self._engine.state.agents.get(child.parent)
        given = processes.environment_of_process(parent.owner or parent.process) if parent is not None else {}
        own = {"PALAVER_HOME": str(self._home), "PALAVER_CHILD": session}
        env = environment_of(agent.kind, given or processes.own_environment(), own)
        headless = child.headless or not processes.has_tmux()
        words = command_line(agent.kind, child.command, headless=headless, env=env)
        if isinstance(words, Unstartable):
            self._fail(agent.id, words.reason, words.advice)
            return
        plan = Launch(agent.name, folder, words, env, child.cwd or str(Path.home()), headless)
        try:
            started = await asyncio.to_thread(processes.start, plan)
        except StartError as error:
            self._fail(agent.id, f"It could not be started: {error}", "")
            return
        self._processes[agent.id] = started.process
        self._engine.submit_own(NoteChildStarted(agent.id, started.process, session, started.place))
        if not await self._is_on_record(agent.id, started.process):
            await asyncio.to_thread(processes.end, started.process, 0.5)
            return
        await self._lead(agent, started.process)

    async def _lead(self, agent: Agent, process: str) -> None:
        """What is on record may begin; also what an earlier broker started and had no time to let begin."""
        self._led.add(process)
        with contextlib.suppress(OSError):
            processes.give_leave(self._folder / agent.id)
        self._watch_end(agent.id, process)
        if agent.kind == COMMAND:
            await self._settle(agent.id, process)

    async def _is_on_record(self, agent_id: str, process: str) -> bool:
        """Whether the start is committed; not if the child was given up, or nothing can be stored."""
        for _ in range(200):
            child = self._engine.state.children.get(agent_id)
            if child is None:
                return False
            if child.process == process and not self._engine.scheduled:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def _settle(self, agent_id: str, process: str) -> None:
        """Any program is up when it runs for a moment, or speaks to us before that."""
        for _ in range(int(SETTLE_S / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            agent = self._engine.state.agents.get(agent_id)
            if agent is None or not processes.is_running(process):
                return
            if agent.online:
                break
        self._engine.submit_own(NoteChildUp(agent_id))

    def _fail(self, agent_id: str, reason: str, output: str) -> None:
        self._failures[agent_id] = (reason, output)
        while len(self._failures) > 64:
            self._failures.pop(next(iter(self._failures)))
        self._engine.submit_own(NoteChildFailed(agent_id, reason, output))

    # -- ending ---------------------------------------------------------------------------------------

    def _watch_end(self, agent_id: str, process: str) -> None:
        """Hear of a process's end at once, where the kernel tells; else the sweep finds it."""
        if process in self._watched or not hasattr(os, "pidfd_open"):
            return
        try:
            descriptor = os.pidfd_open(int(process.partition(".")[0]))
        except OSError:
            return
        self._watched[process] = descriptor
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._run(self._tell_end(agent_id, process))

        loop.add_reader(descriptor, ended)

    async def _tell_end(self, agent_id: str, process: str) -> None:
        child = self._engine.state.children.get(agent_id)
        code = processes.bury(process)
        self._watched.pop(process, None)
        if child is None or child.process != process:
            return
        output = await asyncio.to_thread(processes.output_of, self._folder / agent_id, self._names[agent_id])
        if child.task:
            self._fail(agent_id, "It ended before it was up.", output[-4_000:])
        elif child.status == "stopping":
            self._engine.submit_own(NoteChildEnd(agent_id, "asked"))
        else:
            killed = code is not None and code < 0
            # The last words of a program without a window are its result; a window shows much else.
            result = output if child.headless and not child.result else ""
            self._engine.submit_own(NoteChildEnd(agent_id, "killed" if killed else "exited", result))

    async def _stop(self, agent_id: str, process: str) -> None:
        await asyncio.to_thread(processes.end, process)
        self._engine.submit_own(SweepLineage())
        await asyncio.sleep(LOOK_S)
        del agent_id

    async def _clear(self, agent_id: str, process: str) -> None:
        """The child is no more: neither is its process, its window, or its folder."""
        await asyncio.to_thread(processes.end, process, 1.0)
        processes.bury(process)
        self._led.discard(process)
        name = self._names.pop(agent_id, "")
        await asyncio.to_thread(processes.clear, self._folder / agent_id, name)
