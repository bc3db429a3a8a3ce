"""An agent's calls about what was said before."""

from __future__ import annotations

from tellwire.client.client import Client
from tellwire.protocol.operations.history import History, ReadHistory, SearchMessages


class PastCalls:
    """Part of `Agent`."""

    @property
    def _connected(self) -> Client:
        raise NotImplementedError

    async def history(
        self,
        *,
        peer: str | None = None,
        link: str | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: str | None = None,
        limit: int = 50,
    ) -> History:
        """A page of what this agent sent and received, newest first; continue with `before=page.next`."""
        operation = ReadHistory(peer=peer, link=link, since=since, until=until, before=before, limit=limit)
        return await self._connected.call(operation)

    async def search(
        self,
        query: str,
        *,
        peer: str | None = None,
        link: str | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: str | None = None,
        limit: int = 50,
    ) -> History:
        """The same, only messages with these words: `deploy "two words" beg*`."""
        operation = SearchMessages(
            query=query, peer=peer, link=link, since=since, until=until, before=before, limit=limit
        )
        return await self._connected.call(operation)
