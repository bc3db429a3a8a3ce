"""The door for our plugins inside a client: their reports, and the poll that wakes an idle session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tellwire.clients.client import Client
from tellwire.clients.plugin import PluginTranscript
from tellwire.clients.reader import listed, mapping
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.listening import Listens, always
from tellwire.sessions.tracker import SessionTracker
from tellwire.sessions.write_guard import Guarding, may_write
from tellwire.system.processes import read_process

TOLD = "session_told"
PLUGIN = "plugin"
NOT_POLLING = "its plugin is not polling: no prompt yet in the session on its screen, or it runs headless"
PIDS = range(1, 1 << 31)


class PluginTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a plugin and its door wait for each other."""

    hold_s: float = 25.0
    """How long a poll is held open."""
    tell_s: float = 3.0
    """How long a plugin may take to report what its session contains."""


class PollAnswer(NamedTuple):
    """The answer to a poll, and the lease of what it delivers."""

    answer: dict[str, Any]
    session: ClientSession | None = None
    call: str = ""


class PluginDoor:
    """One poll for each client process; the newest counts."""

    def __init__(
        self,
        tracker: SessionTracker,
        guarding: Guarding,
        clients: Mapping[str, Client],
        *,
        times: PluginTimes | None = None,
    ) -> None:
        self._tracker = tracker
        self._guarding = guarding
        self._plugins = {
            kind: (each.hooks, each.transcript)
            for kind, each in clients.items()
            if isinstance(each.transcript, PluginTranscript)
        }
        self._times = times or PluginTimes()
        self._polls: dict[str, asyncio.Future[PollAnswer]] = {}
        """By the client's process."""
        self._asked: dict[str, asyncio.Future[list[dict[str, Any]]]] = {}
        """Plugins that were asked what their session contains, likewise."""

    def serves(self, client: str) -> bool:
        """Whether a client's plugin is ours."""
        return client in self._plugins

    async def report(
        self, client: str, payload: Mapping[str, Any], listens: Listens = always
    ) -> dict[str, Any] | None:
        """Record what a plugin reports, and return the answer.

        Raises:
            ValueError: it makes no sense.
        """
        key = process_key(payload)
        if payload.get("hook_event_name") == TOLD:
            self._take_told(key, payload)
            return None
        if may_write(client, payload):
            return await self._guarding.handle(client, payload, [key], listens)
        hooks, requests = self._plugins[client]
        event = hooks.parse(payload)
        requests.take(event, payload)
        answer = await self._guarding.handle(client, payload, [key], listens)
        if event.what in ("turn_ended", "interrupted"):
            self._tracker.wake_agents_of(key)  # what came at the very end was too late for the turn
        return answer

    async def wait(
        self,
        client: str,
        payload: Mapping[str, Any],
        gone: asyncio.Future[None],
        listens: Listens = always,
    ) -> dict[str, Any] | None:
        """Hold a poll until there is text for an idle session, `gone` is done, or the time is up.

        Raises:
            ValueError: it makes no sense.
        """
        key = process_key(payload)
        if client in self._plugins:
            hooks, requests = self._plugins[client]
            requests.take(hooks.parse(payload), payload)
            if not self._tracker.sessions.has_agent_of(key):
                await self._tracker.handle(client, payload, [key])
        before = self._polls.pop(key, None)
        if before is not None:
            before.cancel()
        poll: asyncio.Future[PollAnswer] = asyncio.get_running_loop().create_future()
        self._polls[key] = poll
        self._tracker.wake_agents_of(key)
        try:
            await asyncio.wait({poll, gone}, timeout=self._times.hold_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._polls.get(key) is poll:
                del self._polls[key]
            if not poll.done():
                poll.cancel()
        if poll.cancelled():
            return None
        found = poll.result()
        if found.session is not None and not listens():
            self._tracker.fetcher.give_back(found.session, found.call)
        return found.answer

    async def wake(self, session: ClientSession, agent: Agent) -> bool:
        """Hand all that waits to the agent's plugin, if it polls."""
        poll = self._polls.get(agent.owner)
        if poll is None or poll.done():
            return False
        fetched = await self._tracker.fetcher.fetch_to_wake(session, "plugin", PLUGIN)
        if not fetched.text:
            return False
        if poll.done():
            self._tracker.fetcher.give_back(session, fetched.call)
            return False
        poll.set_result(PollAnswer({"text": fetched.text}, session, fetched.call))
        return True

    def path_of(self, agent: Agent) -> PathRecord:
        """Whether the plugin in the agent's client polls."""
        works = agent.owner in self._polls
        note = "" if works else NOT_POLLING
        return PathRecord(name=PLUGIN, works=works, note=note, wakes=True)

    async def ask(self, agent: Agent) -> list[dict[str, Any]] | None:
        """What an agent's session contains, as its plugin reports it; None if it does not."""
        poll = self._polls.get(agent.owner)
        asked = self._asked.get(agent.owner)
        if asked is None:
            if poll is None or poll.done():
                return None
            asked = self._asked[agent.owner] = asyncio.get_running_loop().create_future()
            poll.set_result(PollAnswer({"tell": True}))
        try:
            async with asyncio.timeout(self._times.tell_s):
                return await asyncio.shield(asked)
        except TimeoutError:
            return None
        finally:
            if self._asked.get(agent.owner) is asked:
                del self._asked[agent.owner]

    def _take_told(self, key: str, payload: Mapping[str, Any]) -> None:
        asked = self._asked.get(key)
        if asked is not None and not asked.done():
            asked.set_result([mapping(each) for each in listed(payload.get("messages"))])


def process_key(payload: Mapping[str, Any]) -> str:
    """The client's process, by the pid that its plugin reports.

    Raises:
        ValueError: there is no such process.
    """
    pid = payload.get("pid")
    process = read_process(pid) if isinstance(pid, int) and pid in PIDS else None
    if process is None:
        raise ValueError("a plugin tells the number of its process")
    return process.key
