"""Whether messages entered a model's context: polls transcripts until every lease has a verdict."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from tellwire.broker.ports import SessionMesh
from tellwire.clients.reader import is_long
from tellwire.core.context import NoteEvidence, ReturnLease
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.waking import Wakers
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.hooks")

SETTLE_LOOKS = 20
"""How often the transcript of a client that ends is looked at."""


class WatchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How often transcripts are looked at."""

    watch_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0)
    """When to look at the transcript while a lease is open; from then on, the last."""
    settle_s: float = 1.0
    """A client that ends writes its transcript to the end within this."""


class EvidenceWatcher:
    """Reports to the broker what the transcripts of all sessions prove."""

    def __init__(self, mesh: SessionMesh, wakers: Wakers, tasks: Tasks, times: WatchTimes) -> None:
        self._mesh = mesh
        self._wakers = wakers
        self._tasks = tasks
        self._times = times

    def judge(self, session: ClientSession) -> None:
        """Look at the transcript now: what was read is reported, what can no longer be read is returned."""
        agent = self._mesh.state.agents.get(session.agent)
        if agent is None:
            session.open.clear()
            return
        session.leases.drop_settled(agent.calls)
        read, absent = session.judge()
        if read:
            self._mesh.submit_own(NoteEvidence(agent.id, agent.session, read, session.leases.evidence))
        for call in absent:
            log.info("%s did not take %s up; offered again", agent.name, call)
            self._mesh.submit_own(ReturnLease(agent.id, agent.session, call))

    def watch(self, session: ClientSession) -> None:
        """Poll the transcript in the background until nothing is open."""
        if not session.leases.is_watched:
            session.leases.is_watched = True
            self._tasks.run(self._poll(session))

    async def _poll(self, session: ClientSession) -> None:
        delays = list(self._times.watch_s)
        try:
            while session.open:
                await asyncio.sleep(delays.pop(0) if len(delays) > 1 else delays[0])
                self.judge(session)
                if len(delays) == 1 and (queue := self._wakers.queue_of(session.client.kind)) is not None:
                    await queue.look_after(session)
        finally:
            session.leases.is_watched = False

    def read_ahead(self, session: ClientSession) -> None:
        """Have a thread read transcripts that are too long for the event loop."""
        leases = session.leases
        if leases.is_ready and any(is_long(transcript) for _, transcript in leases.places):
            leases.is_ready = False
            self._tasks.run(self._catch_up(session))

    async def _catch_up(self, session: ClientSession) -> None:
        try:
            for reader in session.leases.readers:
                await asyncio.to_thread(reader.judge, [])
        finally:
            session.leases.is_ready = True
            session.leases.expect_open()

    async def settle(self, session: ClientSession) -> None:
        """A session is over: what its transcript will still say decides before its leases return."""
        for _ in range(SETTLE_LOOKS):
            self.judge(session)
            if not session.open:
                return
            await asyncio.sleep(self._times.settle_s / SETTLE_LOOKS)
        session.open.clear()
