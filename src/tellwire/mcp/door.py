"""The door for MCP shims: lines in and out, who the client is, and when the MCP server is loaded.

The official SDK takes half a second and much memory to import, so that happens at the first shim, in a
thread, while the loop goes on and the shim's lines wait. What it means to be a session is in `session`.
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

from tellwire.broker.origins import Origins
from tellwire.broker.ports import SessionMesh
from tellwire.broker.registrations import Connections, Visit
from tellwire.core.context import EndSession
from tellwire.mcp.bootstrap import HandshakeResponder, save_first_answers
from tellwire.mcp.membership import SessionMembership, SessionThreads
from tellwire.mcp.session import EvidenceJudge, ShimSession, ShimTimes
from tellwire.protocol.relay import ShimLine
from tellwire.system.processes import is_alive
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.shims")

IMPORT_SWITCH_S = 0.0005
"""How often the importing thread lets the loop run; the usual 5 ms would be felt by everybody."""


class Serving(Protocol):
    """The module that imports the SDK."""

    async def serve(
        self, session: ShimSession, membership: SessionMembership, handshake: list[ShimLine]
    ) -> None:
        """Be the MCP server of one session until its connection ends."""
        ...


class ShimDoor:
    """All shims of one broker."""

    def __init__(
        self,
        mesh: SessionMesh,
        connections: Connections,
        origins: Origins,
        home: Path,
        *,
        judge: EvidenceJudge,
        threads: SessionThreads,
        offline_after_s: float,
        times: ShimTimes | None = None,
    ) -> None:
        self._mesh = mesh
        self._connections = connections
        self._origins = origins
        self._home = home
        times = times or ShimTimes()
        self._times = replace(times, fresh_s=min(times.fresh_s, offline_after_s / 3))
        self._judge = judge
        self._threads = threads
        self._serving: asyncio.Task[Serving] | None = None
        self._sessions: dict[str, ShimSession] = {}
        self._tasks = Tasks()

    def admit(self, visit: Visit) -> None:
        """Serve a connection that greeted as a shim."""
        if visit.hello.shim is None:
            raise AssertionError("not a shim")
        session = ShimSession(
            self._mesh,
            self._origins,
            visit.hello.shim,
            visit,
            judge=self._judge,
            times=self._times,
            on_lost=self._lost,
        )
        earlier = self._sessions.get(session.hello.instance)
        if earlier is not None:
            earlier.connection.drop()  # it noticed the break before we did
        self._sessions[session.hello.instance] = session
        self._connections.add(session)
        visit.transport.set_protocol(session.connection)
        session.begin(visit.data)
        self._tasks.run(self._serve(session))

    async def drain(self) -> None:
        """The broker stops: let open calls be answered, for a moment."""
        await self._tasks.drain(self._times.stop_s)

    async def _serve(self, session: ShimSession) -> None:
        try:
            membership = SessionMembership(session, self._threads)
            responder = HandshakeResponder(session, membership)
            loading = self._load()
            if not loading.done() and session.known() is None:
                await responder.run(loading)
            serving = await asyncio.shield(loading)
            await serving.serve(session, membership, responder.handshake)
        except Exception:
            log.exception("an MCP session failed; its shim connects again")
        finally:
            session.connection.drop()

    def _load(self) -> asyncio.Task[Serving]:
        """The module with the SDK; imported once, off the loop."""
        if self._serving is None:
            self._serving = self._tasks.run(_import_serving())
            self._tasks.run(self._leave_first_answers(self._serving))
        return self._serving

    async def _leave_first_answers(self, loading: asyncio.Task[Serving]) -> None:
        """For shims that a later broker does not answer; when nobody waits for anything."""
        await asyncio.wait({loading})
        await _in_background(partial(save_first_answers, self._home))

    def _lost(self, session: ShimSession) -> None:
        self._connections.discard(session)
        if not self._connections.stopping:
            self._tasks.run(self._await_return(session))

    async def _await_return(self, session: ShimSession) -> None:
        """A broken connection ends a session only if its shim is gone, or does not come back."""
        deadline = asyncio.get_running_loop().time() + self._times.return_s
        while self._sessions.get(session.hello.instance) is session:
            if (
                session.connection.said_goodbye
                or not is_alive(session.origin.process)
                or asyncio.get_running_loop().time() > deadline
            ):
                del self._sessions[session.hello.instance]
                if session.caller.is_own_client:
                    await self._judge.settle(session.caller.agent)
                    self._mesh.submit(session, 0, EndSession(session.caller.agent, session.hello.instance))
                return
            await asyncio.sleep(self._times.look_s)


async def _import_serving() -> Serving:
    module = await _in_background(partial(importlib.import_module, "tellwire.mcp.server"))
    return cast("Serving", cast("object", module))


async def _in_background(work: Callable[[], Any]) -> Any:
    """Run something in a thread that hands the interpreter over often, so that the loop goes on."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(IMPORT_SWITCH_S)
    try:
        return await asyncio.to_thread(work)
    finally:
        sys.setswitchinterval(before)
