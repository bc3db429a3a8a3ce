"""The threads of Codex's app-server: which shim serves each, and whether its terminal is still there.

One process runs the sessions of many terminals then. A hook names the thread it belongs to, a shim is the
agent, and neither names the other; so the app-server is asked to call a tool that does not exist, in that
thread, and the shim that hears of it serves it. A thread lives on there when its terminal is closed. Each
terminal serves its threads some tools of its own on a port: when nobody listens there any more and no turn
runs, the agent's session is over and its mail waits, until a hook shows that somebody has taken it up again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tellwire.clients.client import SERVER
from tellwire.clients.codex.app_server import (
    AppServer,
    AppServerError,
    AppServerRefusedError,
    AppServerSilentError,
    is_app_server,
)
from tellwire.clients.codex.install import KIND
from tellwire.clients.events import HookEvent
from tellwire.clients.ports import PROBE, McpSession, SessionPort
from tellwire.clients.reader import listed, mapping, string
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.system.bounded import BoundedDict
from tellwire.system.processes import listening_ports, pid_in
from tellwire.system.tasks import Tasks

log = logging.getLogger("tellwire.threads")

TERMINAL = "codex_tui"
"""The MCP server that a terminal is for its threads."""
LOOK_S = 2.0
HOOK_S = 0.3
"""How long a hook waits until its owner is known, if it is the one that had to ask."""
SILENT_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""How long an app-server that did not answer is left alone, each time longer; the last one repeats."""
PROBE_S = 5.0
PAUSES_S = (0.0, 1.0, 3.0, 10.0)
"""When to ask for a session that has joined: its handshake is not over at first."""
TOOL = "tellwire_thread"
"""A tool that does not exist: the call is refused, but it comes through the thread's own shim and so
identifies it.
"""
TRIES_MAX = 8
"""A thread that none of our shims serves is not asked for more often."""
THREADS_MAX = 10_000
LOADED_MAX = 500
NEWER_MAX = 10
"""How many newer threads are checked before a thread is woken."""
LEAVING_S = 2.0
LEAVING_LOOKS = 100
TURNING = ("busy", "waiting")


class View(NamedTuple):
    """Where the terminal that shows a thread listens."""

    pid: int
    """The app-server that reaches it there."""
    port: int
    inode: str
    """Of its socket: another program may listen on the same port later."""


UNKNOWN = View(0, 0, "")
"""Somebody types into a thread whose terminal is gone: another one shows it."""
LEFT = View(0, 0, "left")
"""Its terminal shows another thread by now."""


class CodexThreads:
    """All threads of which something is known; agents whose client is no app-server have none here."""

    def __init__(self, port: SessionPort) -> None:
        self._port = port
        self._seats: BoundedDict[str, McpSession] = BoundedDict(THREADS_MAX)
        """By thread, the shim that serves it."""
        self._views: BoundedDict[str, View] = BoundedDict(THREADS_MAX)
        self._back: BoundedDict[str, bool] = BoundedDict(THREADS_MAX)
        """Threads to which a human came back after a newer one."""
        self._tries: BoundedDict[str, int] = BoundedDict(THREADS_MAX)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._silent: BoundedDict[str, tuple[int, float]] = BoundedDict(THREADS_MAX)
        """By app-server that did not answer: how often in a row, and until when it is left alone."""
        self._is_watching = False

    # -- which shim -----------------------------------------------------------------------------------

    def joined(self, seat: McpSession) -> None:
        """A session has joined: find out which thread it serves, if its client has many."""
        if is_app_server(pid_in(seat.owner)):
            self._port.run(self._place(seat))

    async def _place(self, seat: McpSession) -> None:
        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            await self._learn(pid_in(seat.owner))
            if seat.is_gone or self._is_viewed(seat):
                return

    def _is_viewed(self, seat: McpSession) -> bool:
        """Whether both the thread and the terminal of a shim are known."""
        return any(known is seat and thread in self._views for thread, known in self._seats.items())

    def bind_thread(self, seat: McpSession, thread: str) -> None:
        """A shim has heard a call of a thread."""
        if self._seats.get(thread) is not seat:
            self._views.pop(thread, None)  # it was loaded anew, for another terminal
            self._tries.pop(thread, None)
            self._seats.renew(thread, seat)
            if seat.agent is not None:
                self._port.joined(seat.agent.id)
                if seat.agent.pending:
                    self._port.mail(seat.agent.id)  # it may be woken now

    def agent_of(self, thread: str) -> Agent | None:
        """The agent that a thread is, if that is known for certain."""
        seat = self._seats.get(thread)
        return None if seat is None else seat.agent

    async def expect(self, event: HookEvent, words: list[str]) -> None:
        """A hook has come: know whose thread it is, and have its agent be there."""
        seat = self._seats.get(event.session)
        if seat is None or seat.is_gone:
            self._seats.pop(event.session, None)
            if event.what == "session_started":  # perhaps by another process than the last time
                self._tries.pop(event.session, None)
            await self._ask_for(event.session, words)
            seat = self._seats.get(event.session)
        if seat is not None and event.typed and self._views.get(event.session) is LEFT:
            del self._views[event.session]  # its human is back
            self._back.renew(event.session, True)
            self._port.run(self._learn(pid_in(seat.owner), event.session))
        if seat is None or seat.agent is not None or event.what == "session_ended":
            return
        if event.typed and event.session in self._views:
            self._views[event.session] = UNKNOWN
        with suppress(TellwireError):
            await seat.ensure()

    async def _ask_for(self, thread: str, words: list[str]) -> None:
        """Have the app-server above a hook asked, unless it is, and wait for it a moment."""
        pid = next((pid for pid in map(pid_in, words) if is_app_server(pid)), 0)
        if not pid or thread in self._asking or self._tries.get(thread, 0) >= TRIES_MAX:
            return
        if time.monotonic() < self._silent.get(str(pid), (0, 0.0))[1]:
            return
        task = self._asking[thread] = self._tasks.run(self._learn(pid, thread))
        task.add_done_callback(lambda _: self._asking.pop(thread, None))
        await asyncio.wait({task}, timeout=HOOK_S)  # what comes too late is for the next hook

    def _leave_alone(self, pid: int) -> None:
        """An app-server has not answered: the next questions would only cost its hooks time."""
        count, until = self._silent.get(str(pid), (0, 0.0))
        now = time.monotonic()
        if now >= until:  # of several questions at once, the first one counts
            self._silent.renew(str(pid), (count + 1, now + SILENT_S[min(count, len(SILENT_S) - 1)]))

    async def _learn(self, pid: int, thread: str = "") -> None:
        """Find out whose a thread is, or all that the app-server has loaded."""
        try:
            async with AppServer.open(pid) as server:
                for each in [thread] if thread else await _loaded(server):
                    await self._meet(server, pid, each)
                    if each in self._seats and each not in self._views:
                        await self._look_up(server, pid, each)
        except AppServerError as error:
            log.info("the app-server %d does not tell whose its threads are: %s", pid, error)
            if isinstance(error, AppServerSilentError):
                self._leave_alone(pid)
            if thread:
                self._tries.renew(thread, self._tries.get(thread, 0) + 1)

    async def _meet(self, server: AppServer, pid: int, thread: str) -> None:
        """Have a thread call a tool that does not exist: the call comes by its shim, which is then known."""
        tries = self._tries.get(thread, 0)
        if thread in self._seats or tries >= TRIES_MAX:
            return
        self._tries.renew(thread, tries + 1)
        try:
            await server.call(
                "mcpServer/tool/call",
                within_s=PROBE_S,
                threadId=thread,
                server=SERVER,
                tool=TOOL,
                _meta={PROBE: True},
            )
        except AppServerSilentError:
            self._leave_alone(pid)
            return
        except AppServerError:
            pass  # it is refused, as it should be
        self._silent.pop(str(pid), None)

    # -- which terminal -------------------------------------------------------------------------------

    async def _look_up(self, server: AppServer, pid: int, thread: str) -> None:
        port = await _port_of(server, thread)
        if port:
            view = View(pid, port, (listening_ports(pid) or {}).get(port, ""))
            self._views.renew(thread, view)
            await self._sit(server, thread, view)
        if self._views and not self._is_watching:
            self._is_watching = True
            self._port.run(self._watch())

    async def _sit(self, server: AppServer, thread: str, view: View) -> None:
        """The agent of a thread is where its terminal is; a terminal shows one, as a rule the newest."""
        others = [other for other, known in self._views.items() if known == view and other != thread]
        told = await _read(server, thread)
        if others and (not told or told.get("parentThreadId")):
            return  # a sub-agent's, or perhaps: nobody went there from its parent
        if view.inode and any(other > thread for other in others) and thread not in self._back:
            await self._leave(thread)
            return
        for other in others if view.inode else []:
            await self._leave(other)
        pane = await asyncio.to_thread(self._port.pane_of_socket, view.inode) if view.inode else ""
        seat = self._seats.get(thread)
        if seat is None or seat.agent is None:
            return
        if pane or _is_begun(told):
            await self._port.place(seat.agent, thread, pane)
        if _is_begun(told):
            self._port.meet(KIND, _started(thread, told), ["", seat.owner], time.time())

    async def _leave(self, thread: str) -> None:
        """A terminal shows another thread now: the session of this one is over, and its name goes along."""
        seat = self._seats.get(thread)
        if seat is None or not await self._part(seat):
            return
        self._views[thread] = LEFT
        self._back.pop(thread, None)
        for _ in range(LEAVING_LOOKS):
            if seat.agent is None:  # it is on disk
                return
            await asyncio.sleep(LEAVING_S / LEAVING_LOOKS)

    def is_left(self, thread: str) -> bool:
        """Whether the terminal of a thread is known to show another one."""
        return self._views.get(thread) is LEFT

    async def see_left(self, server: AppServer, thread: str) -> bool:
        """Whether a terminal has begun another thread, though no shim serves that yet; if so it is left."""
        view = self._views.get(thread, UNKNOWN)
        if view is LEFT or not view.inode or thread in self._back:
            return view is LEFT
        loaded = [each for each in await _loaded(server) if each > thread and each not in self._seats]
        for each in loaded[-NEWER_MAX:]:
            with suppress(AppServerRefusedError):
                if await _port_of(server, each) == view.port and _is_own(await _read(server, each)):
                    await self._leave(thread)
                    return True
        return False

    def is_shown(self, thread: str) -> bool:
        """Whether the terminal that shows a thread is there, as far as anybody knows."""
        view = self._views.get(thread, UNKNOWN)
        ports = listening_ports(view.pid) if view not in (UNKNOWN, LEFT) else None
        return ports is None or (view.inode != "" and ports.get(view.port) == view.inode)

    async def _watch(self) -> None:
        """See terminals go, while there are any."""
        try:
            while self._views:
                await asyncio.sleep(LOOK_S)
                for thread in list(self._views):
                    seat = self._seats.get(thread)
                    if seat is None or seat.is_gone:
                        self._views.pop(thread, None)
                        self._seats.pop(thread, None)
                    elif not self.is_shown(thread):
                        await self._part(seat)
        finally:
            self._is_watching = False

    async def _part(self, seat: McpSession) -> bool:
        """Nobody sees a session any more: if no turn runs in it, it is over for the others."""
        agent = seat.agent
        if agent is None or self._port.activity(agent.id) in TURNING:
            return agent is None
        log.info("the terminal of %s is gone", agent.name)
        await self._port.settle(agent.id)
        if self._port.activity(agent.id) in TURNING:  # somebody has come meanwhile
            return False
        self._port.end_session(seat, agent)
        return True


async def _loaded(server: AppServer) -> list[str]:
    """The loaded threads, newest last: their ids begin with the time."""
    told = await server.call("thread/loaded/list", limit=LOADED_MAX)
    return sorted(string(each) for each in listed(told.get("data")) if each)[:LOADED_MAX]


async def _port_of(server: AppServer, thread: str) -> int:
    """Where the terminal that shows a thread listens; 0 if that is unknown."""
    told = await server.call(
        "mcpServerStatus/list", threadId=thread, serverName=TERMINAL, detail="toolsAndAuthOnly"
    )
    origins = [mapping(each).get("httpOrigin") for each in listed(told.get("data"))]
    try:
        return urlsplit(string(origins[0] if origins else "")).port or 0
    except ValueError:  # not one that there can be
        return 0


def _is_own(told: dict[str, Any]) -> bool:
    """Whether a human begins a thread: not a sub-agent's, nor one that Codex has for itself."""
    return bool(told) and not told.get("parentThreadId") and not told.get("ephemeral")


async def _read(server: AppServer, thread: str) -> dict[str, Any]:
    """What the app-server reports about a thread; nothing if it does not."""
    try:
        return mapping((await server.call("thread/read", threadId=thread)).get("thread"))
    except AppServerError:
        return {}


def _is_begun(told: dict[str, Any]) -> bool:
    """Whether a thread had turns before and rests now: a session that its human has resumed."""
    path = string(told.get("path"))
    rests = mapping(told.get("status")).get("type") == "idle"
    return rests and not told.get("parentThreadId") and path != "" and os.path.exists(path)


def _started(thread: str, told: dict[str, Any]) -> dict[str, Any]:
    """The hook of a session's start, which Codex runs only with the first prompt."""
    return {
        "hook_event_name": "SessionStart",
        "source": "resume",
        "session_id": thread,
        "transcript_path": told["path"],
        "cwd": string(told.get("cwd")),
    }
