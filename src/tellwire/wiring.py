"""Builds and connects everything that serves programs inside a client's session: shims, hooks, waiters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.clients import CLIENTS
from tellwire.clients.client import Client
from tellwire.clients.ports import Doors
from tellwire.install.endpoint import HookEndpoint, peek_endpoint
from tellwire.mcp.door import ShimDoor
from tellwire.mcp.session import ShimTimes
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.sessions.doors.hook_http import HookResponder, HttpAccess, HttpConnection, HttpTimes
from tellwire.sessions.doors.hook_socket import ANSWER_S, HookDoor, WaiterDoor
from tellwire.sessions.doors.http_listener import HttpDoor
from tellwire.sessions.doors.plugin_poll import PluginDoor, PluginTimes
from tellwire.sessions.gate_files import GuardFiles
from tellwire.sessions.tracker import HookTimes, SessionTracker
from tellwire.sessions.transcript_view import READ_S, SessionReader
from tellwire.sessions.typing import TypingTimes, Typist
from tellwire.sessions.waking import Wakers
from tellwire.sessions.write_guard import Guarding, GuardTimes

log = logging.getLogger("tellwire.hooks")


class SessionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts wait; the defaults are what a broker uses."""

    endpoint_s: float = 2.0
    """The interval between checks for an installation's port, and whether it is free."""
    hook_answer_s: float = ANSWER_S
    read_s: float = READ_S
    """For the text of a session."""
    guard: GuardTimes = GuardTimes()
    hooks: HookTimes = HookTimes()
    http: HttpTimes = HttpTimes()
    plugins: PluginTimes = PluginTimes()
    shims: ShimTimes = ShimTimes()
    typing: TypingTimes = TypingTimes()


class SessionDoors:
    """Everything that serves programs inside a client's session; built after the engine and the server."""

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
        times: SessionTimes,
    ) -> None:
        clients, wakers = {each.kind: each.opened() for each in CLIENTS}, Wakers()
        owner_above = server.agent_owning
        self.tracker = tracker = SessionTracker(
            engine,
            clients,
            home / "marks",
            wakers=wakers,
            owner_above=owner_above,
            checkpoint_prompt=checkpoint_prompt,
            times=times.hooks,
        )
        guards = GuardFiles(engine, engine.commits, home / "guards")
        guarding = Guarding(
            engine, engine.refusals, tracker, guards, clients, owner_above=owner_above, times=times.guard
        )
        plugins = PluginDoor(tracker, guarding, clients, times=times.plugins)
        typist = Typist(tracker.access, enabled=typing, times=times.typing)
        waiters = WaiterDoor(tracker, server.connections)
        _add_wakers(wakers, clients, tracker, Doors(waiters, plugins, typist))
        told, capture = plugins.ask, typist.capture
        reader = SessionReader(engine, tracker, told=told, capture=capture, within_s=times.read_s)
        engine.handlers.defer(GetSessionData, reader.begin)
        self.shims = ShimDoor(
            engine,
            server.connections,
            server.origins,
            home,
            judge=tracker,
            threads=tracker.owners.threads,
            offline_after_s=offline_after_s,
            times=times.shims,
        )
        responder = HookResponder(tracker, guarding, plugins, answer_s=times.hook_answer_s)
        self.http = HttpListener(responder, server, home, connections_max=http_connections_max, times=times)
        server.add_door("shim", self.shims)
        server.add_door("waiter", waiters)
        server.add_door("hook", HookDoor(tracker, guarding, server.connections, answer_s=times.hook_answer_s))

    async def listen(self) -> None:
        """Go on with the sessions that an earlier broker knew, and serve HTTP, until cancelled."""
        self.tracker.recall()
        self.tracker.read_starts()
        self.tracker.go_on()
        await self.http.run()


def _add_wakers(wakers: Wakers, clients: Mapping[str, Client], tracker: SessionTracker, doors: Doors) -> None:
    for kind, client in clients.items():
        wakers.add(kind, client.wakers(tracker.access, doors, tracker.owners.threads.of(kind)))


class HttpListener:
    """Serves hooks over HTTP, from when an installation has chosen a port and that is free."""

    def __init__(
        self,
        responder: HookResponder,
        server: Server,
        home: Path,
        *,
        connections_max: int,
        times: SessionTimes,
    ) -> None:
        self._times = times
        self._responder = responder
        self._server = server
        self._home = home
        self._connections_max = connections_max
        self._is_told = False
        """It was logged that the port is taken."""
        self.port = 0
        """Where hooks are served; 0 if nowhere."""

    async def run(self) -> None:
        """Serve until cancelled."""
        while (endpoint := self._endpoint()) is None:  # noqa: ASYNC110 - a file tells, no event
            await asyncio.sleep(self._times.endpoint_s)
        while (door := self._open(endpoint)) is None:  # noqa: ASYNC110 - nobody tells when a port is free
            await asyncio.sleep(self._times.endpoint_s)
        self.port = endpoint.port
        self._server.connections.add_sweep(door.sweep)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._server.connections.remove_sweep(door.sweep)
            door.close()

    def _endpoint(self) -> HookEndpoint | None:
        try:
            return peek_endpoint(str(self._home))
        except TellwireError as error:
            log.warning("hooks over HTTP are not served: %s", error)
            return None

    def _open(self, endpoint: HookEndpoint) -> HttpDoor | None:
        """Listen on the port of an endpoint; None, logged once, if the port is taken."""
        port, access, times = endpoint.port, HttpAccess(endpoint.token, endpoint.port), self._times.http

        def make(door: HttpDoor) -> HttpConnection:
            return HttpConnection(door, access, self._responder, times)

        try:
            return HttpDoor(
                port,
                make,
                self._server.strangers.note,
                connections_max=self._connections_max,
                times=times,
            )
        except OSError as error:
            if not self._is_told:
                log.warning("port %d cannot be had: hooks over HTTP are not served: %s", port, error.strerror)
            self._is_told = True
            return None
