"""The door for plugins of ours inside a client: what they tell, and the poll that wakes an idle one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from palaver.broker.identity import read_process
from palaver.core.state import Agent
from palaver.gateways.books import Book
from palaver.gateways.hooks import Hooks
from palaver.integrations.plugins import PluginClient

HOLD_S = 25.0
PIDS = range(1, 1 << 31)


class PluginDoor:
    """One poll for each client process; the newest counts."""

    def __init__(self, hooks: Hooks, plugins: Mapping[str, PluginClient], *, hold_s: float = HOLD_S) -> None:
        self._hooks = hooks
        self._plugins = plugins
        self._hold_s = hold_s
        self._polls: dict[str, asyncio.Future[str]] = {}
        """By the client's process."""

    def serves(self, client: str) -> bool:
        """Whether a client's plugin is ours."""
        return client in self._plugins

    async def tell(self, client: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """Note what a plugin tells, and what to answer.

        Raises:
            ValueError: it makes no sense.
        """
        word = process_word(payload)
        plugin = self._plugins[client]
        event = plugin.parse(payload)
        plugin.take(event, payload)
        answer = await self._hooks.handle(client, payload, [word])
        if event.what in ("turn_ended", "interrupted"):
            self._look(word)  # what came at the very end was too late for the turn
        return answer

    async def wait(
        self, client: str, payload: Mapping[str, Any], gone: asyncio.Future[None]
    ) -> dict[str, Any] | None:
        """Hold a poll until there is text for an idle session, `gone` is done, or the time is up.

        Raises:
            ValueError: it makes no sense.
        """
        word = process_word(payload)
        if self.serves(client) and not self._knows(word):
            await self._hooks.handle(client, payload, [word])
        before = self._polls.pop(word, None)
        if before is not None:
            before.cancel()
        poll: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._polls[word] = poll
        self._look(word)
        try:
            await asyncio.wait({poll, gone}, timeout=self._hold_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._polls.get(word) is poll:
                del self._polls[word]
            if not poll.done():
                poll.cancel()
        return None if poll.cancelled() else {"text": poll.result()}

    async def wake(self, book: Book, agent: Agent) -> bool:
        """Hand all that waits to the agent's plugin, if it polls."""
        poll = self._polls.get(agent.owner)
        if poll is None or poll.done():
            return False
        text = await self._hooks.fetch(book, "hook")  # not queued: it is in the session at once
        if not text:
            return False
        if poll.done():
            self._hooks.give_back(book)
            return False
        poll.set_result(text)
        return True

    def _knows(self, word: str) -> bool:
        return any(each.owner == word and self._hooks.book_of(each.id) for each in self._hooks.agents())

    def _look(self, word: str) -> None:
        for agent in self._hooks.agents():
            if agent.owner == word and agent.pending:
                self._hooks.mail(agent.id)


def process_word(payload: Mapping[str, Any]) -> str:
    """The client's process, by the number that its plugin tells.

    Raises:
        ValueError: there is no such process.
    """
    pid = payload.get("pid")
    process = read_process(pid) if isinstance(pid, int) and pid in PIDS else None
    if process is None:
        raise ValueError("a plugin tells the number of its process")
    return process.word
