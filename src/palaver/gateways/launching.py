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

from msgspec.structs import replace

from palaver.broker.engine import Engine
from palaver.broker.ports import Source
from palaver.core.context import (
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReserveChild,
    SweepLineage,
)
from palaver.core.scopes import claims_of, line_above
from palaver.core.state import Agent, Child
from palaver.gateways.asker import Asker
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.children import ChildRecord, Children, ListChildren, SpawnAgent
from palaver.spawn import launch as processes
from palaver.spawn.bounds import Bounds, Place, bounds_of
from palaver.spawn.dialogs import FOLDER, find_dialog, is_distrusted
from palaver.spawn.environments import environment_of
from palaver.spawn.launch import Launch, StartError
from palaver.spawn.programs import COMMAND, PROGRAMS, Unstartable, command_line, first_words

log = logging.getLogger("palaver.children")

SETTLE_S = 1.0
"""A program that is no client counts as up when it has run so long."""
LOOK_S = 0.05
SCREEN_S = 0.5
"""Between two looks at the window of a client that is not up yet."""
BEAT_S = 1.0
BEAT_STARTING_S = 0.1
FIRST_TURN_S = 5.0
"""A client that is connected begins its first turn within this, or no hook of it will tell."""
BEGUN = ("busy", "waiting", "errored")
"""What a client does that has begun a turn."""
ANSWER_SLACK_S = 15.0
OUTPUT_CHARS_MAX = 4_000
FAILURES_MAX = 64


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
        for agent_id in kept:
            process = state.children[agent_id].process
            if not processes.is_running(process):  # what it said last is still there
                self._names[agent_id] = processes.name_in(state.children[agent_id].place)
                self._processes[agent_id] = process
                await self._tell_end(agent_id, process)
        for _ in range(len(state.children) + 1):  # a sweep does one thing at a time
            self._engine.submit_own(SweepLineage(begun=True))
        while True:
            self._news.clear()
            self._look()
            starting = any(child.status == "started" for child in state.children.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_STARTING_S if starting else BEAT_S):
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
            await self._come_up(record)
            source.answer(n, await self._seen(source, record))
        except PalaverError as error:
            self._engine.refusals.note(source.caller, operation, error, self._engine.clock.now)
            source.refuse(n, error)
        except Exception:
            log.exception("a child could not be started")
            source.refuse(n, PalaverError("internal", "The child could not be started."))
        source.flush()

    async def _seen(self, source: Source, record: ChildRecord) -> ChildRecord:
        """A child that came up, as its parent's listing has it."""
        asker = Asker(source.caller, source.group)
        self._engine.submit(asker, 1, ListChildren())
        listed = await asker.answered
        assert isinstance(listed, Children)
        ended = replace(record, status="ended", since=self._engine.clock.now)  # it was up, and quick
        return next((each for each in listed.children if each.id == record.id), ended)

    async def _come_up(self, record: ChildRecord) -> None:
        """Wait until a child is up.

        Raises:
            PalaverError: `child_failed`, with its own words.
        """
        limit_s = self._engine.limits.child_up_s + ANSWER_SLACK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while (child := self._engine.state.children.get(record.id)) is not None:
                    if child.status == "running":
                        return
                    await asyncio.sleep(LOOK_S)
        if record.id in self._engine.state.ended:
            return
        reason, output = self.words_of(record.id)
        words = f"{record.name!r} did not come up: {reason or 'It was not up in time.'}"
        raise PalaverError("child_failed", f"{words}\n{output}" if output else words)

    def is_gone(self, agent_id: str) -> bool:
        """Whether nothing is left of a child: no record, no process, no folder."""
        known = (self._engine.state.children, self._processes, self._hands)
        return not any(agent_id in each for each in known)

    # -- what the state says --------------------------------------------------------------------------

    def _look(self) -> None:
        state = self._engine.state
        for agent_id, child in state.children.items():
            agent = state.agents[agent_id]
            # It may have got another name since; its window has not.
            self._names[agent_id] = processes.name_in(child.place) or agent.name
            if child.process:
                self._processes[agent_id] = child.process
                self._watch_end(agent_id, child.process)
            if agent_id in self._hands:
                continue
            if child.status == "reserved":
                self._take_in_hand(agent_id, self._start(agent, child))
            elif child.status == "started" and child.process not in self._led:
                self._take_in_hand(agent_id, self._lead(agent, child.process))
            elif child.status == "started" and agent.online and self._has_begun(agent):
                self._engine.submit_own(NoteChildUp(agent_id))
            elif child.status == "stopping" and child.process:
                self._take_in_hand(agent_id, self._stop(agent_id, child.process))
        for agent_id in [each for each in self._processes if each not in state.children]:
            if agent_id not in self._hands:
                self._take_in_hand(agent_id, self._clear(agent_id, self._processes.pop(agent_id)))

    def _has_begun(self, agent: Agent) -> bool:
        """Whether a client's first turn is under way: before that, mail would be one more thing to begin."""
        if agent.kind not in PROGRAMS or self._engine.activities.get(agent.id) in BEGUN:
            return True
        return self._engine.clock.now - agent.connected_at > FIRST_TURN_S

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
        own = {"PALAVER_HOME": str(self._home), "PALAVER_CHILD": session}
        env = environment_of(agent.kind, self._inherited(agent), own)
        headless = child.headless or not processes.has_tmux()
        cwd = child.cwd or str(Path.home())
        rules = [claim.rule for claim in claims_of(self._engine.state, agent.id)]
        bounds = Bounds()
        if child.scoped:
            place = Place(agent.kind, folder, env, child.command)
            bounds = await asyncio.to_thread(bounds_of, place, rules)
        prompt = first_words(rules if child.scoped else None)
        words = command_line(
            agent.kind, child.command, headless=headless, env=env, bounds=bounds.words, prompt=prompt
        )
        if isinstance(words, Unstartable):
            self._fail(agent.id, words.reason, words.advice)
            return
        if headless and await asyncio.to_thread(is_distrusted, agent.kind, cwd, env):
            self._fail(agent.id, _asks(agent.kind, FOLDER, cwd), "")
            return
        plan = Launch(agent.name, folder, words, {**env, **bounds.env}, cwd, headless, bounds.files)
        try:
            started = await asyncio.to_thread(processes.start, plan)
        except StartError as error:
            self._fail(agent.id, f"It could not be started: {error}", "")
            return
        self._processes[agent.id] = started.process
        self._engine.submit_own(
            NoteChildStarted(agent.id, started.process, session, started.place, bounds.held_by)
        )
        if not await self._is_on_record(agent.id, started.process):
            await asyncio.to_thread(processes.end, started.process, 0.5)
            return
        await self._lead(agent, started.process)

    def _inherited(self, agent: Agent) -> dict[str, str]:
        """The environment of the first above a child: those between have keys of their own clients only."""
        agents = self._engine.state.agents
        for each in reversed(line_above(self._engine.state, agent.id)):
            above = agents.get(each)
            given = {} if above is None else processes.environment_of_process(above.owner or above.process)
            if given:
                return given
        return processes.own_environment()

    async def _lead(self, agent: Agent, process: str) -> None:
        """What is on record may begin; also what an earlier broker started and had no time to let begin."""
        self._led.add(process)
        with contextlib.suppress(OSError):
            processes.give_leave(self._folder / agent.id)
        self._watch_end(agent.id, process)
        if agent.kind == COMMAND:
            await self._settle(agent.id, process)
        elif agent.kind in PROGRAMS:
            self._run(self._see_up(agent, process))

    async def _see_up(self, agent: Agent, process: str) -> None:
        """Look at a client that comes up: it may ask its human something first, or never be there."""
        began = self._engine.clock.awake
        while True:
            await asyncio.sleep(SCREEN_S)
            child = self._engine.state.children.get(agent.id)
            if child is None or child.status != "started" or agent.online:
                return
            late = self._engine.clock.awake - began > self._engine.limits.child_up_s - 2 * SCREEN_S
            name = processes.name_in(child.place) or agent.name
            output = await asyncio.to_thread(processes.output_of, self._folder / agent.id, name)
            dialog = find_dialog(agent.kind, output)
            if not late and dialog is None:
                continue
            if not processes.is_running(process) or agent.online:
                return  # its end is told elsewhere
            reason = (
                f"It was not connected to palaver within {self._engine.limits.child_up_s:.0f} s. "
                f"`palaver install {PROGRAMS[agent.kind].word} --check` tells whether it is set up."
                if dialog is None
                else _asks(agent.kind, dialog, child.cwd)
            )
            self._fail(agent.id, reason, output[-OUTPUT_CHARS_MAX:])
            return

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

    def keep_words(self, agent_id: str, reason: str, output: str) -> None:
        """Why a child did not come up, or what it said last, for who waits for it."""
        self._failures[agent_id] = (reason, output)
        while len(self._failures) > FAILURES_MAX:
            self._failures.pop(next(iter(self._failures)))

    def words_of(self, agent_id: str) -> tuple[str, str]:
        """What was kept of a child, once: the reason, and its own words."""
        return self._failures.pop(agent_id, ("", ""))

    def _fail(self, agent_id: str, reason: str, output: str) -> None:
        self.keep_words(agent_id, reason, output)
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
        folder, name = self._folder / agent_id, self._names[agent_id]
        output = await asyncio.to_thread(processes.output_of, folder, name)
        said = "" if processes.name_in(child.place) else processes.said_in(folder)
        killed = code is not None and code < 0
        how = "asked" if child.status == "stopping" else "killed" if killed else "exited"
        if child.asked:  # its last words may be the answer: the core decides
            ended = f"It ended with code {code}." if code else "It ended without an answer."
            self.keep_words(agent_id, ended, output[-OUTPUT_CHARS_MAX:])
            answer = await asyncio.to_thread(processes.answer_in, folder)
            self._engine.submit_own(NoteChildEnd(agent_id, how, answer, code))
        elif child.task:
            self._fail(agent_id, "It ended before it was up.", output[-OUTPUT_CHARS_MAX:])
        else:
            # The last words of a program without a window are its result, unless a turn has told them.
            result = "" if child.result or how == "asked" else said
            self._engine.submit_own(NoteChildEnd(agent_id, how, result))

    async def _stop(self, agent_id: str, process: str) -> None:
        await asyncio.to_thread(processes.end, process)
        self._engine.submit_own(SweepLineage())
        await asyncio.sleep(LOOK_S)
        del agent_id

    async def _clear(self, agent_id: str, process: str) -> None:
        """The child is no more: neither is its process, its window, or its folder."""
        await asyncio.to_thread(processes.end, process, 1.0)
        await asyncio.to_thread(processes.end_rest, process, str(self._home))
        processes.bury(process)
        self._led.discard(process)
        name = self._names.pop(agent_id, "")
        await asyncio.to_thread(processes.clear, self._folder / agent_id, name)


def _asks(kind: str, what: str, cwd: str) -> str:
    """Why a client that waits for its human is no child, and how to go on."""
    go_on = f"start {PROGRAMS[kind].name} once in {cwd} and answer, then spawn again"
    return f"It asks {what}, which is its human's to answer: {go_on}."
