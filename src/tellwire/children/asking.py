"""Questions to fresh agents: waits for the answer on the caller's behalf, and sees that nothing is left.

The agent is a child like any other; the launcher starts and ends its process. What its answer is, and when it
has to end, the core decides. Here is only the time that the caller gives it, and whether the caller is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Protocol

import msgspec

from tellwire.broker.calls import LateAnswers, call_for
from tellwire.broker.ports import Mesh, Source
from tellwire.broker.registrations import Commits
from tellwire.children.programs import by_kind
from tellwire.core.children.lifecycle import ANSWERED
from tellwire.core.children.reports import NO_ANSWER
from tellwire.core.context import Caller, ReserveAsk, SweepChildren
from tellwire.core.state import Agent
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.children import ChildRecord
from tellwire.system.tasks import Tasks


class AskTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a question are waited for; the question itself has its own limit."""

    look_s: float = 0.1
    """Between two looks when nothing is committed: the caller may be gone, or the process."""
    end_s: float = 12.0
    """How long an agent has to end by itself before it is killed."""


class ChildProcesses(Protocol):
    """What runs the processes of children: the launcher."""

    def is_gone(self, agent_id: str) -> bool:
        """Whether nothing is left of a child."""
        ...

    def failure_of(self, agent_id: str) -> tuple[str, str]:
        """Why it ended, and the end of its output."""
        ...


class Asking:
    """Runs questions to fresh agents: waits for each answer, and for the end of the agent."""

    def __init__(
        self,
        mesh: Mesh,
        commits: Commits,
        late: LateAnswers,
        launcher: ChildProcesses,
        *,
        is_connected: Callable[[Source], bool],
        times: AskTimes | None = None,
    ) -> None:
        self._times = times or AskTimes()
        self._mesh = mesh
        self._late = late
        self._launcher = launcher
        self._is_connected = is_connected
        self._stopping = False
        self._news = asyncio.Event()
        self._tasks = Tasks()
        commits.observe(self._on_commit)

    def begin(self, source: Source, n: int, operation: AskAgent) -> None:
        """Answer a question when the agent that is started for it has, or is not going to."""
        work = self._ask(source, operation)
        self._tasks.run(self._late.answer(source, n, operation, work))

    async def drain(self) -> None:
        """Stop all agents that are being asked, because the broker is stopping."""
        self._stopping = True
        self._news.set()
        await self._tasks.drain(self._times.end_s)

    def _on_commit(self) -> None:
        if self._tasks:
            self._news.set()

    async def _ask(self, source: Source, operation: AskAgent) -> Answered:
        """Reserve the agent, wait for its answer and its end; raises what went wrong if there is none."""
        caller, group, began = source.caller, source.group, self._mesh.clock.awake
        key = operation.key or f"{int(self._mesh.clock.awake * 1_000_000):x}-{secrets.token_hex(8)}"
        ask = by_kind(msgspec.structs.replace(operation, key=key))
        reserved = await call_for(self._mesh, caller, group, ReserveAsk(ask))
        if isinstance(reserved, Answered):
            return reserved  # of an earlier call
        assert isinstance(reserved, ChildRecord)
        try:
            limit_s = self._mesh.limits.ask_s if ask.timeout_s is None else ask.timeout_s
            in_time = await self._until(lambda: self._is_settled(source, caller, reserved.id, key), limit_s)
        finally:
            if not self._is_answered(caller, key):
                await self._give_up(caller, group, key)
            await self._until(lambda: self._launcher.is_gone(reserved.id), self._times.end_s)
        if self._is_answered(caller, key):
            answer = await call_for(self._mesh, caller, group, ReserveAsk(ask))
            took_s = round(self._mesh.clock.awake - began, 3)
            return msgspec.structs.replace(answer, took_s=took_s)
        raise self._refusal(reserved, ask, in_time=in_time)

    async def _give_up(self, caller: Caller, group: str, key: str) -> None:
        with contextlib.suppress(TellwireError):  # the asker may be forgotten
            await call_for(self._mesh, caller, group, CancelAsk(key=key))
        self._mesh.submit_own(SweepChildren())

    def _is_settled(self, source: Source, caller: Caller, agent: str, key: str) -> bool:
        state = self._mesh.state
        return (
            self._is_answered(caller, key)
            or agent not in state.children
            or self._parent(caller) is None
            or not self._is_connected(source)  # nobody is left to hear it
            or self._stopping
        )

    def _is_answered(self, caller: Caller, key: str) -> bool:
        parent = self._parent(caller)
        request = None if parent is None else parent.requests.get(key)
        return request is not None and request.status == ANSWERED

    def _parent(self, caller: Caller) -> Agent | None:
        """The agent that asks, if it is still known; a person is the operator."""
        state = self._mesh.state
        return state.find(OPERATOR) if caller.kind == OPERATOR else state.agents.get(caller.agent)

    async def _until(self, look: Callable[[], bool], limit_s: float) -> bool:
        """Wait for something in the state; False if it does not come in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not look():
                    self._news.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._times.look_s):
                            await self._news.wait()
                return True
        return False

    def _refusal(self, asked: ChildRecord, ask: AskAgent, *, in_time: bool) -> TellwireError:
        reason, output = self._launcher.failure_of(asked.id)
        if self._stopping:
            return TellwireError(
                "stopping", f"The broker is stopping; {ask.client} could not finish its answer."
            )
        said = f"\n{output}" if output else ""
        if in_time:
            return TellwireError("child_failed", f"{ask.client} did not answer: {reason or NO_ANSWER}{said}")
        limit_s = self._mesh.limits.ask_s if ask.timeout_s is None else ask.timeout_s
        text = f"{ask.client} did not answer within {limit_s:g} s and was stopped.{said}"
        return TellwireError("child_failed", text, "Give it more time with `timeout_s`, or ask for less.")
