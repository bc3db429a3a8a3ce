"""What depends on time: silent agents, expired messages, connections without a greeting, absent agents.

Each beat only looks and submits commands; the core decides. After a gap (sleep, stop, a clock set by hand)
nothing times out until everybody had the chance to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.core.context import (
    EndSession,
    ExpireDue,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    NoteRefusals,
    SweepChildren,
    TellOverdue,
)
from tellwire.core.links.listeners import is_overdue
from tellwire.system.processes import is_alive

SLOW_BEAT_S = 600.0


class Ticker:
    """Beats as long as the broker lives."""

    def __init__(
        self,
        engine: Engine,
        server: Server,
        *,
        beat_s: float,
        offline_after_s: float,
        slow_beat_s: float = SLOW_BEAT_S,
        others: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._engine = engine
        self._server = server
        self._beat_s = beat_s
        self._offline_after_s = offline_after_s
        self._slow_beat_s = slow_beat_s
        self._others = others
        """Called with each beat while events can be stored."""
        self._began = engine.clock.awake
        self._slow_at = engine.clock.awake + slow_beat_s

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            self.beat()

    def beat(self) -> None:
        """Look once at everything that time changes, and submit what follows from it."""
        engine = self._engine
        engine.clock.read()
        self._server.sweep()
        if not engine.probe():
            return
        self._watch_presence()
        for look in self._others:
            look()
        self.note_refusals(engine.clock.now)
        if engine.clock.held:
            return
        self._await_returns()
        engine.note_waiting()
        awake = engine.clock.awake
        if any(agent.earliest <= awake for agent in engine.state.agents.values()):
            engine.submit_own(ExpireDue())
        self._watch_workers(awake)
        if engine.state.children or engine.state.claims:
            engine.submit_own(SweepChildren())
        if awake >= self._slow_at:
            self._slow_at = awake + self._slow_beat_s
            engine.submit_own(ForgetAbsent())

    def note_refusals(self, now: float | None = None) -> None:
        """Put what was refused on record; with a time, only what is over by then."""
        rows = self._engine.refusals.take(now)
        if rows:
            self._engine.submit_own(NoteRefusals(rows))

    def _watch_presence(self) -> None:
        """Mark connected agents that fell silent, and silent ones that are back."""
        engine = self._engine
        horizon = time.monotonic() - self._offline_after_s
        for agent_id, session in engine.delivery.sessions.items():
            agent = engine.state.agents.get(agent_id)
            if agent is None:
                continue
            silent = session.source.last_seen < horizon
            if agent.online and silent and not engine.clock.held:
                engine.submit_own(MarkSilent(agent_id))
            elif not agent.online and not silent:
                engine.submit_own(MarkAlive(agent_id))

    def _watch_workers(self, awake: float) -> None:
        """Notify the listeners of agents that were silent for too long."""
        state, after_s = self._engine.state, self._engine.limits.overdue_after_s
        if any(is_overdue(state.agents[agent], awake, after_s) for agent in state.listened):
            self._engine.submit_own(TellOverdue())

    def _await_returns(self) -> None:
        """After a restart of the broker: sessions that cannot come back, or did not in time, are over."""
        engine = self._engine
        late = engine.clock.awake - self._began >= self._offline_after_s
        for agent in engine.state.agents.values():
            if agent.offline_reason != "restart" or agent.id in engine.delivery.sessions:
                continue
            if late or not is_alive(agent.process):
                engine.submit(None, 0, EndSession(agent.id, agent.session))
