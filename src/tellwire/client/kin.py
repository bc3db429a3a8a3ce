"""An agent's calls about its peers, its children, and who may write where."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from tellwire.client.client import Client
from tellwire.paths import canonical
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.children import ChildRecord, ListChildren, SpawnAgent, StopAgent
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

SPAWN_S = 120.0
"""How long a child may take to start, with some margin."""
ASK_S = 300.0
"""What a question has unless it is given a time."""
ASK_SLACK_S = 45.0
"""For starting, ending and finding the broker again."""


class KinCalls:
    """Part of `Agent`."""

    @property
    def _connected(self) -> Client:
        raise NotImplementedError

    def new_key(self) -> str:
        """A request id."""
        raise NotImplementedError

    async def add_peer(self, name: str) -> list[PeerRecord]:
        """Become peers, both of each other; returns all peers."""
        return (await self._connected.call(RegisterPeer(name=name))).peers

    async def remove_peer(self, name: str) -> list[PeerRecord]:
        """Be peers no longer; returns the rest."""
        return (await self._connected.call(RemovePeer(name=name))).peers

    async def own_peers(self) -> list[PeerRecord]:
        """The peers of this agent."""
        return (await self._connected.call(ListPeers())).peers

    async def send_to_peer(self, to: str, body: Any, *, re: str | None = None) -> Sent:
        """Send to a peer, and to nobody who is not one."""
        return await self._connected.call(SendToPeer(to=to, body=body, re=re, key=self.new_key()))

    async def policy(self) -> PolicyState:
        """Who sees whom in this project."""
        return await self._connected.call(MeshPolicy())

    async def claim(
        self, paths: Sequence[str | ScopeRule], *, for_s: float | None = None
    ) -> list[ClaimRecord]:
        """Claim paths, so that no other agent writes there; returns all claims."""
        return (
            await self._connected.call(ClaimScope(rules=[_plain(path) for path in paths], for_s=for_s))
        ).rules

    async def release(self, *paths: str) -> list[ClaimRecord]:
        """Give claims back, of these paths or all; returns the rest."""
        plain = [canonical(path, os.getcwd()) for path in paths]
        return (await self._connected.call(ReleaseScope(paths=plain))).rules

    async def who_owns(self, path: str) -> Ownership:
        """Whose a path is, and whether this agent may write there."""
        return await self._connected.call(WhoOwns(path=canonical(path, os.getcwd())))

    async def scopes(self) -> list[ScopeRecord]:
        """Who may write where, parents before their children."""
        return (await self._connected.call(ListScopes())).scopes

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
        """Start an agent as a child of this one; returns when it is up and has its task."""
        operation = SpawnAgent(
            name=name,
            client=client,
            task=task,
            scope=None if scope is None else [_plain(path) for path in scope],
            cwd=canonical(cwd or os.getcwd(), os.getcwd()),
            command=list(command),
            listen=listen,
            headless=headless,
            key=self.new_key(),
        )
        return await self._connected.call(operation, deadline_s=SPAWN_S)

    async def ask_agent(
        self,
        client: str,
        question: str,
        *,
        cwd: str = "",
        command: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Answered:
        """Start an agent for one question; returns its answer when nothing of it is left.

        If this is cancelled the agent ends.
        """
        operation = AskAgent(
            client=client,
            question=question,
            cwd=canonical(cwd or os.getcwd(), os.getcwd()),
            command=list(command),
            timeout_s=timeout_s,
            key=self.new_key(),
        )
        deadline_s = (ASK_S if timeout_s is None else timeout_s) + ASK_SLACK_S
        try:
            return await self._connected.call(operation, deadline_s=deadline_s)
        except asyncio.CancelledError:
            self._connected.tell(CancelAsk(key=operation.key))
            raise

    async def stop_child(self, name: str) -> ChildRecord:
        """End a child, or a child's child; a notice tells when it is gone."""
        return await self._connected.call(StopAgent(name=name))

    async def children(self) -> list[ChildRecord]:
        """This agent's children, and theirs."""
        return (await self._connected.call(ListChildren())).children


def _plain(path: str | ScopeRule) -> ScopeRule:
    rule = ScopeRule(path) if isinstance(path, str) else path
    return ScopeRule(canonical(rule.path, os.getcwd()), rule.access, rule.recursive)
