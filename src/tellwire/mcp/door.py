"""The door for MCP shims: lines in and out, who the client is, and when the MCP server is loaded.

The official SDK takes half a second and much memory to import, so that happens at the first shim, in a
thread, while the loop goes on and the shim's lines wait. What it means to be a session is in `sessions`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec.structs import replace

from tellwire.broker.ports import SessionMesh
from tellwire.broker.server import Server, Visit
from tellwire.core.context import EndSession
from tellwire.mcp.bootstrap import Early
from tellwire.mcp.first_answers import save_first_answers
from tellwire.mcp.membership import Joining, Threads
from tellwire.mcp.session import Judge, ShimSession, ShimTimes
from tellwire.protocol.relay import ShimLine
from tellwire.system.processes import is_alive
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.shims")

IMPORT_SWITCH_S = 0.0005
"""How often the importing thread lets the loop run; the usual 5 ms would be felt by everybody."""


class Serving(Protocol):
    """The module that has the SDK in it."""

    async def serve(self, session: ShimSession, joining: Joining, handshake: list[ShimLine]) -> None:
        """Be the MCP server of one session until its connection ends."""
        ...


class ShimDoor:
    """All shims of one broker."""

    def __init__(
        self,
        mesh: SessionMesh,
        server: Server,
        home: Path,
        *,
        judge: Judge,
        threads: Threads,
        offline_after_s: float,
        times: ShimTimes | None = None,
    ) -> None:
        self._mesh = mesh
        self._server = server
        self._home = home
        times = times or ShimTimes()
        self._times = replace(times, fresh_s=min(times.fresh_s, offline_after_s / 3))
        self._judge = judge
        self._threads = threads
        self._serving: asyncio.Task[Serving] | None = None
        self._sessions: dict[str, ShimSession] = {}
        self._tasks = Tasks()

    def admit(self, visit: Visit) -> None:
        """Take a shim's connection over."""
        if visit.hello.shim is None:
            raise AssertionError("not a shim")
        session = ShimSession(
            self._mesh,
            self._server.origins,
            visit.hello.shim,
            visit,
            judge=self._judge,
            times=self._times,
            on_lost=self._lost,
        )
        earlier = self._sessions.get(session.instance)
        if earlier is not None:
            earlier.drop()  # it noticed the break before we did
        self._sessions[session.instance] = session
        self._server.connections.add(session)
        visit.transport.set_protocol(session)
        session.begin(visit.data)
        self._tasks.run(self._serve(session))

    async def drain(self) -> None:
        """The broker stops: let the calls under way be answered, for a moment."""
        await self._tasks.drain(self._times.stop_s)

    async def _serve(self, session: ShimSession) -> None:
        try:
            joining = Joining(session, self._threads)
            early = Early(session, joining)
            loading = self._load()
            if not loading.done() and session.known() is None:
                await early.run(loading)
            serving = await asyncio.shield(loading)
            await serving.serve(session, joining, early.handshake)
        except Exception:
            log.exception("an MCP session failed; its shim connects again")
        finally:
            session.drop()

    def _load(self) -> asyncio.Task[Serving]:
        """The module with the SDK; imported once, off the loop."""
        if self._serving is None:
            self._serving = self._tasks.run(_import_serving())
            self._tasks.run(self._leave_first_answers(self._serving))
        return self._serving

    async def _leave_first_answers(self, loading: asyncio.Task[Serving]) -> None:
        """For shims that a later broker does not answer; when nobody waits for anything."""
        await asyncio.wait({loading})
        await _beside(partial(save_first_answers, self._home))

    def _lost(self, session: ShimSession) -> None:
        self._server.connections.discard(session)
        if not self._server.stopping:
            self._tasks.run(self._await_return(session))

    async def _await_return(self, session: ShimSession) -> None:
        """A broken connection ends a session only if its shim is gone, or does not come back."""
        deadline = asyncio.get_running_loop().time() + self._times.return_s
        while self._sessions.get(session.instance) is session:
            if (
                session.said_goodbye
                or not is_alive(session.process)
                or asyncio.get_running_loop().time() > deadline
            ):
                del self._sessions[session.instance]
                if session.caller.holds:
                    await self._judge.settle(session.caller.agent)
                    self._mesh.submit(session, 0, EndSession(session.caller.agent, session.instance))
                return
            await asyncio.sleep(self._times.look_s)


async def _import_serving() -> Serving:
    module = await _beside(partial(importlib.import_module, "tellwire.mcp.server"))
    return cast("Serving", cast("object", module))


async def _beside(work: Callable[[], Any]) -> Any:
    """Do something in a thread that lets the loop run all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(IMPORT_SWITCH_S)
    try:
        return await asyncio.to_thread(work)
    finally:
        sys.setswitchinterval(before)
