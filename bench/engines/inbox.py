"""Where a client keeps what its server pushed until it is received."""

import asyncio

from bench.engine import Received


class Inbox:
    """A list and a wish to be told."""

    def __init__(self) -> None:
        self._messages: list[Received] = []
        self._arrived = asyncio.Event()

    def put(self, message: Received) -> None:
        """Add one message."""
        self._messages.append(message)
        self._arrived.set()

    async def take(self) -> list[Received]:
        """Wait for at least one, then take all there are."""
        await self._arrived.wait()
        self._arrived.clear()
        taken, self._messages = self._messages, []
        return taken
