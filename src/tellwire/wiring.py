"""All that serves programs inside a client's session, put together: shims, hooks, waiters, HTTP hooks."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import msgspec

from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.clients import CLIENTS
from tellwire.clients.ports import Doors, Queue
from tellwire.install.endpoint import HookEndpoint, peek_endpoint
from tellwire.mcp.door import ShimDoor, ShimTimes
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.sessions.doors.hook_http import HttpHooks
from tellwire.sessions.doors.hook_socket import ANSWER_S, HookDoor, WaiterDoor
from tellwire.sessions.doors.http_listener import HttpDoor
from tellwire.sessions.doors.plugin_poll import PluginDoor
from tellwire.sessions.tracker import Hooks
from tellwire.sessions.transcript_view import SessionReader
from tellwire.sessions.turn_probe import PulseTimes
from tellwire.sessions.typing import TypingTimes, Typist
from tellwire.sessions.write_guard import Guarding
from tellwire.system.panes import WAKE_LINE

log = logging.getLogger("tellwire.hooks")

LOOK_S = 2.0


class SessionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts wait; the defaults are what a broker uses."""

    hook_answer_s: float = ANSWER_S
    pulses: PulseTimes = PulseTimes()
    shims: ShimTimes = ShimTimes()
    typing: TypingTimes = TypingTimes()


class Inside:
    """Built by the daemon, after the engine and the server."""

    def __init__(
        self,
        engine: Engine,
        server: Server,
        home: Path,
        *,
        offline_after_s: float,
        typing: bool,
        checkpoint_prompt: str = "",
        http_connections_max: int = 256,
        times: SessionTimes | None = None,
    ) -> None:
        times = times or SessionTimes()
        self._home = home
        self._server = server
        self._http_connections_max = http_connections_max
        self._is_told = False
        """The log knows that the port is taken."""
        self.port = 0
        """Where hooks over HTTP are served."""
        marks = home / "marks"
        shutil.rmtree(marks, ignore_errors=True)  # of processes long gone
        clients = {each.kind: each.opened() for each in CLIENTS}
        self.hooks = Hooks(engine, server, clients, marks, pulse_times=times.pulses)
        self.guarding = Guarding(engine, server, self.hooks, clients, home / "guards")
        self.plugins = PluginDoor(self.hooks, self.guarding, clients)
        self.typist = Typist(self.hooks, enabled=typing, times=times.typing)
        self.sessions = SessionReader(engine, self.hooks, told=self.plugins.ask, capture=self.typist.capture)
        engine.slow[GetSessionData] = self.sessions.begin
        self.shims = ShimDoor(engine, server, home, offline_after_s=offline_after_s, times=times.shims)
        self.shims.judge = self.hooks
        threads = self.shims.threads = self.hooks.recognition.threads
        waiters = WaiterDoor(self.hooks, server)
        doors = Doors(waiters, self.plugins, self.typist)
        for kind, client in clients.items():
            wakers = self.hooks.wakers[kind] = client.wakers(self.hooks, doors, threads.of(kind))
            self.hooks.queues.update((kind, waker) for waker in wakers if isinstance(waker, Queue))
        self.hooks.wake_line = WAKE_LINE
        self.hooks.checkpoint_prompt = checkpoint_prompt
        door = HookDoor(self.hooks, self.guarding, server, answer_s=times.hook_answer_s)
        server.doors.update({"shim": self.shims, "hook": door, "waiter": waiters})

    async def listen(self) -> None:
        """Serve hooks over HTTP from when an endpoint is chosen, until cancelled."""
        self.hooks.recall()
        self.hooks.take_starts()
        self.hooks.go_on()
        while (endpoint := self._endpoint()) is None:  # noqa: ASYNC110 - a file tells, no event
            await asyncio.sleep(LOOK_S)
        while (door := self._open(endpoint)) is None:  # noqa: ASYNC110 - nobody tells when a port is free
            await asyncio.sleep(LOOK_S)
        self.port = endpoint.port
        self._server.sweeps.append(door.sweep)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._server.sweeps.remove(door.sweep)
            door.close()

    def _endpoint(self) -> HookEndpoint | None:
        try:
            return peek_endpoint(str(self._home))
        except TellwireError as error:
            log.warning("hooks over HTTP are not served: %s", error)
            return None

    def _open(self, endpoint: HookEndpoint) -> HttpDoor | None:
        token, port = endpoint.token, endpoint.port

        def make(door: HttpDoor) -> HttpHooks:
            return HttpHooks(door, self.hooks, self.guarding, self.plugins, token=token, port=port)

        try:
            return HttpDoor(port, make, self._server.strangers, connections_max=self._http_connections_max)
        except OSError as error:
            if not self._is_told:
                log.warning("port %d cannot be had: hooks over HTTP are not served: %s", port, error.strerror)
            self._is_told = True
            return None
