"""An agent's calls about the conversations it is in, and whom it listens to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellwire.client.client import Client
from tellwire.protocol.operations.history import History
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    LinkRecord,
    ListLinks,
    OpenLink,
    ResumeLink,
    Share,
)
from tellwire.protocol.operations.listeners import Listen, MarkCheckpoint, Unlisten


class LinkCalls:
    """Part of `Agent`."""

    @property
    def _connected(self) -> Client:
        raise NotImplementedError

    async def open_link(
        self, members: Sequence[str], *, roles: Mapping[str, str] | None = None, share: Share = "all"
    ) -> LinkRecord:
        """Open a conversation with one or more agents; with one, the direct link of the two."""
        operation = OpenLink(members=list(members), roles=dict(roles or {}), share=share)
        return await self._connected.call(operation)

    async def add_member(self, link: str, name: str, *, role: str = "", share: Share = "all") -> LinkRecord:
        """Add an agent to a link."""
        return await self._connected.call(AddMember(link=link, name=name, role=role, share=share))

    async def leave_link(self, link: str) -> None:
        """Leave a link; it stays open while two members remain."""
        await self._connected.call(LeaveLink(link=link))

    async def close_link(
        self, link: str | None = None, *, peer: str | None = None, message: str | None = None
    ) -> LinkRecord:
        """End a link for all: by its id, or the direct one with `peer`; after a last `message`."""
        return await self._connected.call(CloseLink(link=link, peer=peer, message=message))

    async def resume_link(self, link: str) -> LinkRecord:
        """Resume a paused link."""
        return await self._connected.call(ResumeLink(link=link))

    async def links(self, *, all: bool = False) -> list[LinkRecord]:
        """The links this agent is in; with `all`, also those that are closed."""
        return (await self._connected.call(ListLinks(all=all))).links

    async def link_history(self, link: str, *, before: str | None = None, limit: int = 50) -> History:
        """A page of what was said on a link, newest first."""
        return await self._connected.call(LinkHistory(link=link, before=before, limit=limit))

    async def listen(self, agent: str) -> list[str]:
        """Listen to an agent's turns; returns the agents that this one listens to."""
        return (await self._connected.call(Listen(agent=agent))).agents

    async def unlisten(self, agent: str) -> list[str]:
        """Stop listening to an agent; returns the others."""
        return (await self._connected.call(Unlisten(agent=agent))).agents

    async def mark_checkpoint(self) -> None:
        """The next turn of this agent is nobody else's business."""
        await self._connected.call(MarkCheckpoint())
