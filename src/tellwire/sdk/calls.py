"""An agent's calls by subject: `me.links.open(["bob"])`. Each sends one operation of the table.

What has no method here is sent with `Agent.call`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tellwire.paths import canonical
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.children import ChildRecord, ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.explain import FoundMessage, GetMessage, ReadThread, Thread
from tellwire.protocol.operations.history import History, ReadHistory, SearchMessages
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
from tellwire.protocol.operations.messages import Sent
from tellwire.protocol.operations.peers import (
    ListPeers,
    MeshPolicy,
    PeerRecord,
    PolicyState,
    RegisterPeer,
    RemovePeer,
    SendToPeer,
)
from tellwire.protocol.operations.scopes import (
    ClaimRecord,
    ClaimScope,
    ListScopes,
    Ownership,
    ReleaseScope,
    ScopeRecord,
    ScopeRule,
    WhoOwns,
)
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.sdk.broker_client import BrokerClient
from tellwire.sdk.membership import Membership

SPAWN_S = 120.0
"""How long a child may take to start, with some margin."""
ASK_S = 300.0
"""How long an answer may take unless the caller says otherwise."""
ASK_SLACK_S = 45.0
"""For starting and ending the agent, and for a restart of the broker."""


class Subject:
    """Calls about one subject, as one agent."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    @property
    def _client(self) -> BrokerClient:
        return self._membership.client


class Past(Subject):
    """What this agent sent and received before."""

    async def history(
        self,
        *,
        peer: str | None = None,
        link: str | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> History:
        """Read a page of messages, newest first; continue with `before=page.next`.

        With `after`: what is newer than that message, oldest first; continue with `after=page.next`.
        """
        operation = ReadHistory(
            peer=peer, link=link, since=since, until=until, before=before, after=after, limit=limit
        )
        return await self._client.call(operation)

    async def search(
        self,
        query: str,
        *,
        peer: str | None = None,
        link: str | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> History:
        """Like `history`, but only messages with these words: `deploy "two words" beg*`."""
        operation = SearchMessages(
            query=query,
            peer=peer,
            link=link,
            since=since,
            until=until,
            before=before,
            after=after,
            limit=limit,
        )
        return await self._client.call(operation)

    async def message(self, message_id: str) -> FoundMessage:
        """Read one message, with its receipts and the first message of its thread."""
        return await self._client.call(GetMessage(id=message_id))

    async def thread(self, message_id: str, *, after: str | None = None, limit: int = 50) -> Thread:
        """Read the thread of a message, oldest first: what it answers, and all answers."""
        return await self._client.call(ReadThread(id=message_id, after=after, limit=limit))


class Links(Subject):
    """The conversations that this agent shares with others."""

    async def open(
        self, members: Sequence[str], *, roles: Mapping[str, str] | None = None, share: Share = "all"
    ) -> LinkRecord:
        """Open a conversation with one or more agents; with one, the direct link of the two."""
        operation = OpenLink(members=list(members), roles=dict(roles or {}), share=share)
        return await self._client.call(operation)

    async def add_member(self, link: str, name: str, *, role: str = "", share: Share = "all") -> LinkRecord:
        """Add an agent to a link."""
        return await self._client.call(AddMember(link=link, name=name, role=role, share=share))

    async def leave(self, link: str) -> None:
        """Leave a link; it stays open while two members remain."""
        await self._client.call(LeaveLink(link=link))

    async def close(
        self, link: str | None = None, *, peer: str | None = None, message: str | None = None
    ) -> LinkRecord:
        """Close a link for all members: by its id, or the direct one with `peer`; after a last `message`."""
        return await self._client.call(CloseLink(link=link, peer=peer, message=message))

    async def resume(self, link: str) -> LinkRecord:
        """Resume a link that was paused because its members answered each other without end."""
        return await self._client.call(ResumeLink(link=link))

    async def all(self, *, closed: bool = False) -> list[LinkRecord]:
        """List the links that this agent is in, on request with those that are `closed`."""
        return (await self._client.call(ListLinks(all=closed))).links

    async def history(self, link: str, *, before: str | None = None, limit: int = 50) -> History:
        """Read a page of what was said on a link, newest first; continue with `before=page.next`."""
        return await self._client.call(LinkHistory(link=link, before=before, limit=limit))


class Turns(Subject):
    """Notices about the turns of other agents, and private turns of this one."""

    async def listen(self, agent: str) -> list[str]:
        """Be notified when an agent finishes a turn; returns all agents that this one listens to."""
        return (await self._client.call(Listen(agent=agent))).agents

    async def unlisten(self, agent: str) -> list[str]:
        """Stop listening to an agent; returns the others."""
        return (await self._client.call(Unlisten(agent=agent))).agents

    async def mark_checkpoint(self) -> None:
        """Notify nobody about the next turn of this agent."""
        await self._client.call(MarkCheckpoint())

    async def transcript(self, agent: str, *, since: float = 0.0, tail: int = 2_000) -> SessionData:
        """Read the end of an agent's session as Markdown: what it was told, and what it said."""
        return await self._client.call(GetSessionData(agent=agent, since=since, tail=tail))


class Pairs(Subject):
    """The peers of this agent: agents that are paired with it."""

    async def add(self, name: str) -> list[PeerRecord]:
        """Pair with an agent, which works both ways; returns all peers."""
        return (await self._client.call(RegisterPeer(name=name))).peers

    async def remove(self, name: str) -> list[PeerRecord]:
        """End a pairing, for both; returns the remaining peers."""
        return (await self._client.call(RemovePeer(name=name))).peers

    async def all(self) -> list[PeerRecord]:
        """List all agents that are paired with this one."""
        return (await self._client.call(ListPeers())).peers

    async def send(self, to: str, body: Any, *, re: str | None = None) -> Sent:
        """Send to a peer; to an agent that is not one, it is refused."""
        operation = SendToPeer(to=to, body=body, re=re, key=self._membership.new_key())
        return await self._client.call(operation)

    async def policy(self) -> PolicyState:
        """Tell who sees whom in this project."""
        return await self._client.call(MeshPolicy())


class Scopes(Subject):
    """Which agent may write where. Relative paths are seen from the current folder."""

    async def claim(
        self, paths: Sequence[str | ScopeRule], *, for_s: float | None = None
    ) -> list[ClaimRecord]:
        """Claim paths, so that no other agent writes there; returns all claims of this agent."""
        operation = ClaimScope(rules=[_absolute(path) for path in paths], for_s=for_s)
        return (await self._client.call(operation)).rules

    async def release(self, *paths: str) -> list[ClaimRecord]:
        """Release the claims on these paths, or all; returns the remaining ones."""
        absolute = [canonical(path, os.getcwd()) for path in paths]
        return (await self._client.call(ReleaseScope(paths=absolute))).rules

    async def who_owns(self, path: str) -> Ownership:
        """Tell who has claimed a path, and whether this agent may write there."""
        return await self._client.call(WhoOwns(path=canonical(path, os.getcwd())))

    async def all(self) -> list[ScopeRecord]:
        """List the claims of all agents, parents before their children."""
        return (await self._client.call(ListScopes())).scopes


class Children(Subject):
    """Agents that this one starts. Relative paths are seen from the current folder."""

    async def spawn(
        self,
        name: str,
        client: str,
        task: str,
        *,
        scope: Sequence[str | ScopeRule] | None = None,
        cwd: str = "",
        command: Sequence[str] = (),
        listen: bool = True,
        headless: bool = False,
    ) -> ChildRecord:
        """Start an agent as a child of this one; returns when it runs and has its task."""
        operation = SpawnAgent(
            name=name,
            client=client,
            task=task,
            scope=None if scope is None else [_absolute(path) for path in scope],
            cwd=canonical(cwd or ".", os.getcwd()),
            command=list(command),
            listen=listen,
            headless=headless,
            key=self._membership.new_key(),
        )
        return await self._client.call(operation, deadline_s=SPAWN_S)

    async def ask(
        self,
        client: str,
        question: str,
        *,
        cwd: str = "",
        command: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Answered:
        """Start an agent for one question; returns its answer when the agent is gone.

        Cancelling this call ends the agent.
        """
        operation = AskAgent(
            client=client,
            question=question,
            cwd=canonical(cwd or ".", os.getcwd()),
            command=list(command),
            timeout_s=timeout_s,
            key=self._membership.new_key(),
        )
        deadline_s = (ASK_S if timeout_s is None else timeout_s) + ASK_SLACK_S
        broker = self._client
        try:
            return await broker.call(operation, deadline_s=deadline_s)
        except asyncio.CancelledError:
            broker.tell(CancelAsk(key=operation.key))
            raise

    async def stop(self, name: str) -> ChildRecord:
        """Stop a child, or a child of a child; a notice tells when it is gone."""
        return await self._client.call(StopAgent(name=name))

    async def all(self) -> list[ChildRecord]:
        """List this agent's children, and theirs."""
        return (await self._client.call(ListChildren())).children


def _absolute(path: str | ScopeRule) -> ScopeRule:
    rule = ScopeRule(path) if isinstance(path, str) else path
    return ScopeRule(canonical(rule.path, os.getcwd()), rule.access, rule.recursive)
