"""Runs the processes of children: starts what is reserved, reports what came of it, ends what is to end.

The state says what each child is; this only carries it out and reports. So a crash of the broker loses
nothing: a process that was not released yet gives up by itself, one that runs is watched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tellwire.broker.calls import LateAnswers, call_for
from tellwire.broker.ports import Mesh, Source
from tellwire.broker.registrations import Commits
from tellwire.children import process as processes
from tellwire.children.environments import environment_of
from tellwire.children.leftovers import clear_leftovers, end_groups
from tellwire.children.process import GRACE_S, ChildLaunch, StartError
from tellwire.children.programs import (
    COMMAND,
    LaunchRefusal,
    bounds_of,
    by_kind,
    command_line,
    find_dialog,
    first_words,
    is_distrusted,
)
from tellwire.clients import BY_KIND
from tellwire.clients.client import FOLDER, Bounds, ChildPlace
from tellwire.core.children.scopes import ancestors, claims_of
from tellwire.core.context import (
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReserveChild,
    SweepChildren,
)
from tellwire.core.state import Agent, Child
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.children import ChildFailed, ChildReserved
from tellwire.protocol.operations.children import ChildRecord, Children, ListChildren, SpawnAgent
from tellwire.system.bounded import BoundedDict
from tellwire.system.processes import environ, is_alive, pid_in
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.children")

LOOKS_MAX = 200
"""How often the record is looked at for what was submitted."""
BEGUN = ("busy", "waiting", "errored")
"""What a client does that has begun a turn."""
OUTPUT_CHARS_MAX = 4_000
KEPT_MAX = 64
"""Failures that are kept."""
HEARD = frozenset({ChildFailed, ChildReserved})


class LaunchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long children are waited for, and how often they are looked at."""

    beat_s: float = 1.0
    beat_starting_s: float = 0.1
    """Between two looks at all children, and at those while one starts."""
    look_s: float = 0.05
    """Between two looks at what is about to change."""
    screen_s: float = 0.5
    """Between two looks at the window of a client that is not up yet."""
    answer_slack_s: float = 15.0
    """How long a caller waits beyond the time that a child has to start."""
    end_s: float = GRACE_S
    """From asking a program to end to ending it."""
    clear_s: float = 1.0
    """The same for what is left of a child that is no more."""
    settle_s: float = 1.0
    """A program that is not an agent CLI counts as started after this many seconds."""
    first_turn_s: float = 5.0
    """A client that is connected begins its first turn within this, or none of its hooks will report it."""


class StartFailures:
    """Why children did not start, and what they printed last; kept for a while for waiting callers."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._kept: BoundedDict[str, tuple[str, str]] = BoundedDict(KEPT_MAX)
        commits.observe(self._on_commit)

    def keep(self, agent_id: str, reason: str, output: str) -> None:
        """Why a child ended, and the end of its output."""
        self._kept[agent_id] = (reason, output)

    def of(self, agent_id: str) -> tuple[str, str]:
        """What is kept of a child: the reason and its output."""
        return self._kept.get(agent_id, ("", ""))

    def _on_commit(self) -> None:
        """What an earlier broker, or the core, has put on record counts where nothing else is known."""
        if HEARD.isdisjoint(map(type, self._commits.events)):
            return
        for event in self._commits.events:
            if type(event) is ChildFailed and event.agent not in self._kept:
                self.keep(event.agent, event.reason, event.output)
            elif type(event) is ChildReserved:  # one that was here before begins anew
                self._kept.pop(event.agent, None)


class Running(NamedTuple):
    """What has to be cleaned up when a child has ended."""

    process: str
    window: str
    """The name of its window; empty if it has none. The child may have got another name since."""


class Launcher:
    """Built by the daemon; `watch` runs as long as the broker does."""

    def __init__(
        self,
        mesh: Mesh,
        commits: Commits,
        late: LateAnswers,
        home: Path,
        *,
        activity: Callable[[str], str],
        times: LaunchTimes | None = None,
    ) -> None:
        self._mesh = mesh
        self._late = late
        self._activity = activity
        self._times = times or LaunchTimes()
        self._folder = home / "children"
        self._home = home
        self._busy: set[str] = set()
        """Children that are being started or ended at the moment."""
        self._processes: dict[str, Running] = {}
        self._released: set[str] = set()
        """Processes that were allowed to begin."""
        self._failures = StartFailures(commits)
        self.failure_of = self._failures.of
        self._watched: dict[str, int] = {}
        """From a process to the descriptor that tells of its end."""
        self._news = asyncio.Event()
        self._tasks = Tasks()
        commits.observe(self._on_commit)
        self._note_processes()
        for _ in mesh.state.children:  # a sweep does one thing at a time; nobody is served before it
            mesh.submit_own(SweepChildren(begun=True))

    async def watch(self) -> None:
        """Carry out what the state says, whenever it has changed."""
        children = self._mesh.state.children
        kept = {agent: processes.name_in(child.place) for agent, child in children.items() if child.process}
        for agent_id, running in list(self._processes.items()):
            if not is_alive(running.process):  # what it said last is still there
                await self._report_end(agent_id, running.process)
        await asyncio.to_thread(clear_leftovers, self._folder, kept, str(self._home))
        while True:
            self._news.clear()
            self._carry_out()
            starting = any(child.status == "started" for child in self._mesh.state.children.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.beat_starting_s if starting else self._times.beat_s):
                    await self._news.wait()

    def _on_commit(self) -> None:
        """Something was committed: of interest only while there is a child, or what is left of one."""
        if self._mesh.state.children or self._processes or self._busy:
            self._news.set()

    # -- asking for a child ---------------------------------------------------------------------------

    def begin(self, source: Source, n: int, operation: SpawnAgent) -> None:
        """Answer a call for a child when it is up, or is not going to be."""
        work = self._spawn(source, operation)
        self._tasks.run(self._late.answer(source, n, operation, work))

    async def _spawn(self, source: Source, operation: SpawnAgent) -> ChildRecord:
        record = await call_for(self._mesh, source.caller, source.group, ReserveChild(by_kind(operation)))
        assert isinstance(record, ChildRecord)
        await self._come_up(record)
        return await self._seen(source, record)

    async def _seen(self, source: Source, record: ChildRecord) -> ChildRecord:
        """A child that came up, as its parent's listing has it."""
        listed = await call_for(self._mesh, source.caller, source.group, ListChildren())
        assert isinstance(listed, Children)
        ended = replace(record, status="ended", since=self._mesh.clock.now)  # it was up, and quick
        return next((each for each in listed.children if each.id == record.id), ended)

    async def _come_up(self, record: ChildRecord) -> None:
        """Wait until a child is up.

        Raises:
            TellwireError: `child_failed`, with its own words.
        """
        limit_s = self._mesh.limits.child_up_s + self._times.answer_slack_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while (child := self._mesh.state.children.get(record.id)) is not None:
                    if child.status == "running":
                        return
                    await asyncio.sleep(self._times.look_s)
        if record.id in self._mesh.state.ended:
            return
        reason, output = self.failure_of(record.id)
        words = f"{record.name!r} did not start: {reason or 'It was not ready in time.'}"
        raise TellwireError("child_failed", f"{words}\n{output}" if output else words)

    def is_gone(self, agent_id: str) -> bool:
        """Whether nothing is left of a child: no record, no process, no folder."""
        known = (self._mesh.state.children, self._processes, self._busy)
        return not any(agent_id in each for each in known)

    # -- what the state says --------------------------------------------------------------------------

    def _carry_out(self) -> None:
        """Begin what each child needs next: to be started, released, reported as up, stopped or cleared."""
        state = self._mesh.state
        self._note_processes()
        for agent_id in [*self._processes]:
            child = state.children.get(agent_id)
            if (child is None or not child.process) and agent_id not in self._busy:
                self._run_exclusively(agent_id, self._clear(agent_id, self._processes.pop(agent_id)))
        for agent_id, child in state.children.items():
            agent = state.agents[agent_id]
            if child.process:
                self._watch_end(agent_id, child.process)
            if agent_id in self._busy:
                continue
            if child.status == "reserved":
                self._run_exclusively(agent_id, self._start(agent, child))
            elif child.status == "started" and child.process not in self._released:
                self._run_exclusively(agent_id, self._release(agent, child.process))
            elif child.status == "started" and agent.online and self._has_begun(agent):
                self._mesh.submit_own(NoteChildUp(agent_id))
            elif child.status == "stopping" and child.process:
                self._run_exclusively(agent_id, self._stop(child.process))

    def _note_processes(self) -> None:
        for agent_id, child in self._mesh.state.children.items():
            if child.process:
                self._processes[agent_id] = Running(child.process, processes.name_in(child.place))

    def _has_begun(self, agent: Agent) -> bool:
        """Whether a client's first turn has begun: before that, mail could start a second one."""
        if agent.kind not in BY_KIND or self._activity(agent.id) in BEGUN:
            return True
        return self._mesh.clock.now - agent.connected_at > self._times.first_turn_s

    def _run_exclusively(self, agent_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Run something about a child in the background; nothing else is begun about it meanwhile."""
        self._busy.add(agent_id)

        async def run() -> None:
            try:
                await work
            except Exception:
                log.exception("looking after the child %s failed", agent_id)
            finally:
                self._busy.discard(agent_id)
                self._news.set()

        self._tasks.run(run())

    # -- starting -------------------------------------------------------------------------------------

    async def _start(self, agent: Agent, child: Child) -> None:
        """Start the process of a reserved child; report it as started, or as failed with the reason."""
        session = secrets.token_hex(16)
        folder = self._folder / agent.id
        own = {"TELLWIRE_HOME": str(self._home), "TELLWIRE_CHILD": session}
        env = environment_of(agent.kind, self._inherited(agent), own)
        headless = child.headless or not processes.has_tmux()
        cwd = child.cwd or str(Path.home())
        rules = [claim.rule for claim in claims_of(self._mesh.state, agent.id)]
        bounds = Bounds()
        if child.scoped:
            place = ChildPlace(agent.kind, folder, env, child.command)
            bounds = await asyncio.to_thread(bounds_of, place, rules)
        prompt = first_words(rules if child.scoped else None)
        words = command_line(
            agent.kind, child.command, headless=headless, env=env, bounds=bounds.words, prompt=prompt
        )
        if isinstance(words, LaunchRefusal):
            self._fail(agent.id, words.reason, words.advice)
            return
        if headless and await asyncio.to_thread(is_distrusted, agent.kind, cwd, env):
            self._fail(agent.id, _asks(agent.kind, FOLDER, cwd), "")
            return
        if not self._is_current(agent.id, child):
            return  # it was stopped meanwhile
        others = {running.process for running in self._processes.values()}
        plan = ChildLaunch(
            agent.name, folder, words, {**env, **bounds.env}, cwd, headless, bounds.files, others
        )
        try:
            started = await asyncio.to_thread(processes.start_paused, plan)
        except StartError as error:
            self._fail(agent.id, f"It could not be started: {error}", "")
            return
        self._processes[agent.id] = Running(started.process, processes.name_in(started.place))
        if self._is_current(agent.id, child):
            self._mesh.submit_own(
                NoteChildStarted(agent.id, started.process, session, started.place, bounds.held_by)
            )
            if await self._is_on_record(agent.id, started.process):
                await self._release(agent, started.process)
                return
        await self._clear(agent.id, self._processes.pop(agent.id))

    def _is_current(self, agent_id: str, child: Child) -> bool:
        """Whether this is still what is to be started: a name may be taken again for another child."""
        return self._mesh.state.children.get(agent_id) is child

    def _inherited(self, agent: Agent) -> dict[str, str]:
        """The environment of the first above a child: those between have keys of their own clients only."""
        agents = self._mesh.state.agents
        for each in reversed(ancestors(self._mesh.state, agent.id)):
            above = agents.get(each)
            given = {} if above is None else environ(pid_in(above.owner or above.process)) or {}
            if given:
                return given
        return processes.own_environment()

    async def _release(self, agent: Agent, process: str) -> None:
        """Release processes whose start is committed, including those that an earlier broker started."""
        self._released.add(process)
        with contextlib.suppress(OSError):
            processes.release(self._folder / agent.id)
        self._watch_end(agent.id, process)
        if agent.kind == COMMAND:
            await self._settle(agent.id, process)
        elif agent.kind in BY_KIND:
            self._tasks.run(self._see_up(agent, process))

    async def _see_up(self, agent: Agent, process: str) -> None:
        """Look at a client that comes up: it may ask its human something first, or never be there."""
        began = self._mesh.clock.awake
        while True:
            await asyncio.sleep(self._times.screen_s)
            child = self._mesh.state.children.get(agent.id)
            if child is None or child.status != "started" or agent.online:
                return
            late = self._mesh.clock.awake - began > self._mesh.limits.child_up_s - 2 * self._times.screen_s
            name = processes.name_in(child.place) or agent.name
            output = await asyncio.to_thread(processes.recent_output, self._folder / agent.id, name)
            dialog = find_dialog(agent.kind, output)
            if not late and dialog is None:
                continue
            if not is_alive(process) or agent.online:
                return  # its end is reported elsewhere
            reason = (
                f"It did not connect to tellwire within {self._mesh.limits.child_up_s:.0f} s. "
                f"`tellwire install {BY_KIND[agent.kind].name} --check` says whether it is set up."
                if dialog is None
                else _asks(agent.kind, dialog, child.cwd)
            )
            self._fail(agent.id, reason, output[-OUTPUT_CHARS_MAX:])
            return

    async def _is_on_record(self, agent_id: str, process: str) -> bool:
        """Whether the start is committed; not if the child was given up, or nothing can be stored."""
        for _ in range(LOOKS_MAX):
            child = self._mesh.state.children.get(agent_id)
            if child is None:
                return False
            if child.process == process and not self._mesh.scheduled:
                return True
            await asyncio.sleep(self._times.look_s)
        return False

    async def _settle(self, agent_id: str, process: str) -> None:
        """Any program is up when it runs for a moment, or speaks to us before that."""
        for _ in range(int(self._times.settle_s / self._times.look_s)):
            await asyncio.sleep(self._times.look_s)
            agent = self._mesh.state.agents.get(agent_id)
            if agent is None or not is_alive(process):
                return
            if agent.online:
                break
        self._mesh.submit_own(NoteChildUp(agent_id))

    def _fail(self, agent_id: str, reason: str, output: str) -> None:
        self._failures.keep(agent_id, reason, output)
        self._mesh.submit_own(NoteChildFailed(agent_id, reason, output))

    # -- ending ---------------------------------------------------------------------------------------

    def _watch_end(self, agent_id: str, process: str) -> None:
        """Notice the end of a process at once, where the kernel reports it; else the sweep finds it."""
        if process in self._watched or not hasattr(os, "pidfd_open"):
            return
        try:
            descriptor = os.pidfd_open(pid_in(process))
        except OSError:
            return
        self._watched[process] = descriptor
        self._mesh.ending.add(process)
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._tasks.run(self._report_end(agent_id, process))

        loop.add_reader(descriptor, ended)

    async def _report_end(self, agent_id: str, process: str) -> None:
        """Put on record that a process is gone, and what it said last; no sweep comes before that."""
        self._mesh.ending.add(process)
        try:
            await self._read_end(agent_id, process)
            for _ in range(LOOKS_MAX):
                child = self._mesh.state.children.get(agent_id)
                if child is None or child.process != process:
                    break
                await asyncio.sleep(self._times.look_s)  # a sweep may be ahead of it in the queue
        finally:
            self._mesh.ending.discard(process)

    async def _read_end(self, agent_id: str, process: str) -> None:
        """Collect the exit code and the last output of an ended process, and report its end to the core."""
        child = self._mesh.state.children.get(agent_id)
        code = processes.reap(process)
        self._watched.pop(process, None)
        if child is None or child.process != process:
            return
        folder, name = self._folder / agent_id, processes.name_in(child.place)
        output = await asyncio.to_thread(processes.recent_output, folder, name)
        said = "" if name else processes.output_tail(folder)
        killed = code is not None and code < 0
        how = "asked" if child.status == "stopping" else "killed" if killed else "exited"
        if child.asked:  # its last words may be the answer: the core decides
            ended = f"It ended with code {code}." if code else "It ended without an answer."
            self._failures.keep(agent_id, ended, output[-OUTPUT_CHARS_MAX:])
            answer = await asyncio.to_thread(processes.read_answer, folder)
            self._mesh.submit_own(NoteChildEnd(agent_id, how, answer, code))
        elif child.task:
            self._fail(agent_id, "It ended before it was ready.", output[-OUTPUT_CHARS_MAX:])
        else:
            # The last words of a program without a window are its result, unless a turn has told them.
            result = "" if child.result or how == "asked" else said
            self._mesh.submit_own(NoteChildEnd(agent_id, how, result))

    async def _stop(self, process: str) -> None:
        await asyncio.to_thread(processes.terminate, process, self._times.end_s)
        self._mesh.submit_own(SweepChildren())
        await asyncio.sleep(self._times.look_s)

    async def _clear(self, agent_id: str, running: Running) -> None:
        """Clean up a child that has ended: its process, its window and its folder."""
        process, window = running
        group = pid_in(process)
        await asyncio.to_thread(processes.terminate, process, self._times.clear_s)
        await asyncio.to_thread(end_groups, [group], str(self._home), self._times.clear_s)
        processes.reap(process)
        self._released.discard(process)
        await asyncio.to_thread(processes.clean_up, self._folder / agent_id, window, process)


def _asks(kind: str, what: str, cwd: str) -> str:
    """Why a client that waits for its human cannot be a child, and what to do."""
    go_on = f"start {BY_KIND[kind].program} once in {cwd}, answer, then spawn again"
    return f"It asks {what}, which only its human may answer: {go_on}."
