"""All that serves programs inside a client's session, put together: shims, hooks, waiters, HTTP hooks."""

from __future__ import annotations

import asyncio
import logging
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

from tellwire.broker.engine import Engine
from tellwire.broker.server import Server
from tellwire.gateways.codex_daemon import CodexDaemon
from tellwire.gateways.codex_queue import CodexQueue
from tellwire.gateways.doors import HookDoor, WaiterDoor
from tellwire.gateways.guarding import Guarding
from tellwire.gateways.hooks import Hooks
from tellwire.gateways.http_hooks import HttpHooks
from tellwire.gateways.plugins import PluginDoor
from tellwire.gateways.session_data import SessionReader
from tellwire.gateways.shims import ShimDoor
from tellwire.gateways.typing import Typist
from tellwire.integrations import claude_code, codex, gemini_cli
from tellwire.integrations.hooks import Integration
from tellwire.integrations.install.endpoint import HookEndpoint, peek_endpoint
from tellwire.integrations.opencode import make_opencode
from tellwire.integrations.pi import make_pi
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.spawn.panes import WAKE_LINE

log = logging.getLogger("tellwire.hooks")

LOOK_S = 2.0
INTEGRATIONS: dict[str, Integration] = {
    each.kind: each for each in (claude_code.INTEGRATION, codex.INTEGRATION, gemini_cli.INTEGRATION)
}


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
    ) -> None:
        self._home = home
        self.port = 0
        """Where hooks over HTTP are served."""
        marks = home / "marks"
        shutil.rmtree(marks, ignore_errors=True)  # of processes long gone
        plugins = {each.kind: each for each in (make_opencode(), make_pi())}
        integrations = {**INTEGRATIONS, **plugins}
        self.hooks = Hooks(engine, server, integrations, marks)
        self.guarding = Guarding(engine, server, self.hooks, integrations, home / "guards")
        self.plugins = PluginDoor(self.hooks, self.guarding, plugins)
        self.typist = Typist(self.hooks, enabled=typing)
        self.sessions = SessionReader(engine, self.hooks, told=self.plugins.ask, capture=self.typist.capture)
        engine.slow[GetSessionData] = self.sessions.begin
        self.shims = ShimDoor(engine, server, offline_after_s=offline_after_s)
        self.shims.judge = self.hooks
        threads = self.shims.threads = self.hooks.recognition.threads
        threads.keeper = self.hooks
        waiters = WaiterDoor(self.hooks, server)
        daemon = self.hooks.queues["codex"] = CodexDaemon(self.hooks, threads)
        self.hooks.wakers.update(
            {
                "claude-code": [waiters, self.typist],
                # Without a daemon a line that is typed is sooner there than what its terminal looks for.
                "codex": [daemon, self.typist, CodexQueue(self.hooks, threads)],
                "gemini-cli": [self.typist],
                **{kind: [self.plugins, self.typist] for kind in plugins},
            }
        )
        self.hooks.wake_line = WAKE_LINE
        self.hooks.checkpoint_prompt = checkpoint_prompt
        door = HookDoor(self.hooks, self.guarding, server)
        server.doors.update({"shim": self.shims, "hook": door, "waiter": waiters})

    async def listen(self) -> None:
        """Serve hooks over HTTP from when an endpoint is chosen, until cancelled."""
        self.hooks.recall()
        self.hooks.take_starts()
        self.hooks.go_on()
        while (endpoint := self._endpoint()) is None:  # noqa: ASYNC110 - a file tells, no event
            await asyncio.sleep(LOOK_S)
        listener = await self._bind(endpoint)
        if listener is None:
            return
        self.port = endpoint.port
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            listener.close()

    def _endpoint(self) -> HookEndpoint | None:
        try:
            return peek_endpoint(str(self._home))
        except TellwireError as error:
            log.warning("hooks over HTTP are not served: %s", error)
            return None

    async def _bind(self, endpoint: HookEndpoint) -> asyncio.AbstractServer | None:
        factory = partial(
            HttpHooks, self.hooks, self.guarding, self.plugins, token=endpoint.token, port=endpoint.port
        )
        with suppress(OSError):
            return await asyncio.get_running_loop().create_server(factory, "127.0.0.1", endpoint.port)
        log.error("port %d is taken: hooks over HTTP are not served", endpoint.port)
        return None
