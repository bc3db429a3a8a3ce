"""One agent's own handle on the mesh: `async with tellwire.connect("alice") as me`.

Messages are pushed to the client and wait in its inbox until the application asks. An offer says until when
nobody else can get its messages: before that they are shown at once. Later they are claimed first, by a round
trip, so a message that went to another session meanwhile is never shown.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from tellwire.client.client import CALL_S, Client
from tellwire.client.connection import Connection
from tellwire.client.inbox import Inbox
from tellwire.client.kin import KinCalls
from tellwire.client.links import LinkCalls
from tellwire.client.past import PastCalls
from tellwire.client.status import Status
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.agents import (
    AgentRecord,
    GetAgent,
    Heartbeat,
    ListAgents,
    MuteAgent,
    RegisterAgent,
    Registered,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    ContentKind,
    MessageRecord,
    MessageStatus,
    Mode,
    PeekMessages,
    SendMessage,
    Sent,
)
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe

log = logging.getLogger("tellwire.client")

Message: TypeAlias = MessageRecord
Peer: TypeAlias = AgentRecord
Receipt: TypeAlias = Sent

LEAVE_S = 2.0
IDS_MAX = 1_000
"""Message ids in one call."""


class Agent(KinCalls, LinkCalls, PastCalls):
    """The agent that this program is. Use it as an async context manager."""

    def __init__(self, client_options: dict[str, Any], profile: RegisterAgent) -> None:
        self._client_options = client_options
        self._profile = profile
        self._client: Client | None = None
        self._inbox = Inbox()
        self._leaving = False
        self._beat: asyncio.TimerHandle | None = None
        self._birth_offset_s = 0.0
        self._counter = 0
        self._registered: Registered | None = None
        self.confirms_at_end = True
        """Whether what was shown is confirmed when the program leaves without an exception."""

    # -- joining and leaving --------------------------------------------------------------------------

    async def __aenter__(self) -> Agent:
        self._leaving = False
        self._client = Client(
            **self._client_options,
            on_offer=self._inbox.put,
            on_connected=self._register,
            on_failed=self._inbox.wake,
            on_lost=self._inbox.void_grants,
        )
        try:
            await self._client.open()
        except BaseException:
            await self._client.close()
            raise
        if self.note:
            log.warning("%s", self.note)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._leaving = True
        self._inbox.leave()
        client = self._connected
        try:
            if not self.attached and await client.back(LEAVE_S):
                if kind is None and self.confirms_at_end:
                    with suppress(TellwireError):  # then it is told as shown, and may come again
                        await self._confirm_shown()
                await client.call(UnregisterAgent(shown=self._told()), deadline_s=LEAVE_S)
        except TellwireError as refusal:
            log.debug("left without a word: %s", refusal)
        finally:
            await client.close()

    async def _confirm_shown(self) -> None:
        """The program has left in good order: what it was given counts as read."""
        shown = list(self._inbox.shown)
        for start in range(0, len(shown), IDS_MAX):
            ids = shown[start : start + IDS_MAX]
            await self._connected.call(ConfirmMessages(ids=ids), deadline_s=LEAVE_S)
            self._inbox.settle(ids)

    async def _register(self, connection: Connection, welcome: Welcome) -> None:
        client = self._connected
        grants = self._profile.grants and connection.same_clock
        self._inbox.begin(grants=grants and not self._leaving)
        self._birth_offset_s = welcome.awake - monotonic()
        # Coming back it must be the same agent: a farewell may have been lost with the connection.
        profile = msgspec.structs.replace(
            self._profile, resume="" if self.attached else self.id, grants=grants
        )
        self._registered = await client.call_on(connection, profile)
        self._schedule_beat(welcome.heartbeat_s)

    def _told(self) -> list[str] | None:
        """What the farewell says of messages; a broker that tells no clock does not ask."""
        welcome = self._connected.welcome
        return self._inbox.told() if welcome is not None and welcome.clock else None

    def _schedule_beat(self, heartbeat_s: float) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._connected.tell(Heartbeat())
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(heartbeat_s, self._schedule_beat, heartbeat_s)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise TellwireError("not_registered", "Not connected.", "Use `async with tellwire.connect(...)`.")
        return self._client

    @property
    def name(self) -> str:
        """The name borne; it may differ from the one asked for, see `note`."""
        return self._registered.name if self._registered else self._profile.name

    @property
    def id(self) -> str:
        """The agent's id."""
        return self._registered.id if self._registered else ""

    @property
    def note(self) -> str:
        """What the broker said on joining: for example that the name was taken."""
        return self._registered.note if self._registered else ""

    @property
    def waiting(self) -> int:
        """Messages that wait at the broker beyond those already here."""
        return self._inbox.waiting

    @property
    def attached(self) -> bool:
        """This program was started by the agent and acts as it; the agent's own client gets the mail."""
        return self._registered is not None and self._registered.attached

    # -- others ---------------------------------------------------------------------------------------

    async def peers(self, *, all: bool = False, capability: str | None = None) -> list[Peer]:
        """List the agents that are online in this project; with `all`, every agent on this machine."""
        return (await self._connected.call(ListAgents(all=all, capability=capability))).agents

    async def peer(self, name: str) -> Peer:
        """Everything that is known about one agent."""
        return await self._connected.call(GetAgent(name=name))

    async def update(
        self,
        *,
        name: str | None = None,
        capabilities: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Peer:
        """Change this agent's name, capabilities or metadata."""
        words = None if capabilities is None else list(capabilities)
        self._inbox.void_grants()  # under another name the mail may be another one's
        record = await self._connected.call(UpdateAgent(name=name, capabilities=words, metadata=metadata))
        if self._registered is not None:
            self._registered = msgspec.structs.replace(self._registered, name=record.name)
        self._profile = msgspec.structs.replace(
            self._profile, name=record.name, capabilities=record.capabilities, metadata=record.metadata
        )
        return record

    async def mute(self, *, for_s: float | None = None, off: bool = False) -> Peer:
        """Be left alone for a time, or until taken back with `off`: mail waits, and wakes nobody."""
        return await self._connected.call(MuteAgent(for_s=for_s, off=off))

    async def session_data(self, agent: str, *, since: float = 0.0, tail: int = 2_000) -> SessionData:
        """The end of an agent's session, as Markdown: what it was told, what it said."""
        return await self._connected.call(GetSessionData(agent=agent, since=since, tail=tail))

    async def subscribe(self, topic: str) -> list[str]:
        """Get what is sent to a topic from now on; returns all subscriptions."""
        return (await self._connected.call(Subscribe(topic=topic))).topics

    async def unsubscribe(self, topic: str) -> list[str]:
        """Unsubscribe from a topic; returns the remaining subscriptions."""
        return (await self._connected.call(Unsubscribe(topic=topic))).topics

    # -- sending --------------------------------------------------------------------------------------

    async def send(  # noqa: PLR0913 - a message has that many parts
        self,
        to: str | Sequence[str],
        body: Any,
        *,
        re: str | None = None,
        mode: Mode | None = None,
        kind: ContentKind | None = None,
        context: Any = None,
        ttl_s: float | None = None,
        confirm: bool = False,
        direct: bool = False,
        listen: bool = False,
        choices: Sequence[str] | None = None,
        key: str | None = None,
        deadline_s: float = CALL_S,
    ) -> Receipt:
        """Send to a name, a list of names, `broadcast`, `#topic` or `link:ID`; returns once it is on disk.

        `direct`: on the direct link with that agent, opened if there is none. `listen`: be told how its
        turns end. `choices`: to `operator`, up to nine short answers to choose from.
        The receipt's `status` tells how far it got. After `timeout` a repeat with the same `key` is harmless.
        """
        if (client := self._connected).crowded:
            await client.room()
        operation = SendMessage(
            to=to if isinstance(to, str) else list(to),
            body=body,
            re=re,
            mode=mode,
            kind=kind,
            context=context,
            ttl_s=ttl_s,
            key=key or self.new_key(),
            confirm=confirm,
            direct=direct,
            listen=listen,
            choices=None if choices is None else list(choices),
        )
        try:
            sent = await client.call(operation, deadline_s=deadline_s)
        except TellwireError as error:
            if error.code != "timeout":
                raise
            note = f"The broker did not confirm it; send it again with key={operation.key!r}."
            return Receipt(status="timeout", note=note)
        if re is not None and sent.id and self._inbox.is_answer(re, to):
            self._inbox.settle([re])
        return sent

    def new_key(self) -> str:
        """A fresh request id, for a send that may have to be repeated."""
        self._counter += 1
        birth_us = int((monotonic() + self._birth_offset_s) * 1_000_000)
        return f"{birth_us:x}-{self._profile.session[:8]}{self._counter:x}"

    async def status(self, message_id: str) -> Status:
        """How far a message got, by recipient."""
        reply = await self._connected.call(MessageStatus(id=message_id))
        return Status(reply.id, reply.recipients)

    # -- receiving ------------------------------------------------------------------------------------

    async def messages(self, wait_s: float = 0.0, *, limit: int | None = None) -> list[Message]:
        """What has come, oldest first, each message once; waits up to `wait_s` if nothing has.

        What is not confirmed counts as delivered, not as read, and is confirmed when the program leaves the
        `with` block without an exception; after an exception it comes again.
        """
        deadline = self._connected.loop.time() + wait_s
        while True:
            taken = await self._take(limit) if self._inbox.offered else []
            if taken:
                return taken
            if not await self._wait(deadline):
                await asyncio.sleep(0)  # who asks again and again lets the loop turn all the same
                return []

    async def confirm(self, ids: Iterable[str | Message]) -> int:
        """Say that messages were read; returns how many became so by this call."""
        words = [each if isinstance(each, str) else each.id for each in ids]
        confirmed = await self._connected.call(ConfirmMessages(ids=words))
        self._inbox.settle(words)
        return confirmed.count

    async def peek(self, limit: int = 50) -> list[Message]:
        """What is not confirmed yet, without consuming it."""
        return (await self._connected.call(PeekMessages(limit=limit))).messages

    def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come; one is confirmed when the next is asked for, not if the body raised."""
        return self._stream()

    async def _stream(self) -> AsyncIterator[Message]:
        while True:
            for message in await self.messages(wait_s=3_600.0, limit=1):
                yield message
                await self.confirm([message.id])

    async def _take(self, limit: int | None) -> list[Message]:
        """Take what was offered, claimed if need be, and return what of it was not shown before."""
        inbox = self._inbox
        taken, granted = inbox.take(limit)
        if granted:
            return inbox.show(taken, taken)
        try:
            claimed = await self._connected.call(ClaimMessages(ids=list(taken)))
        except BaseException:
            inbox.put_back(taken)
            raise
        inbox.waiting = claimed.waiting
        return inbox.show(claimed.ids, taken)

    async def _wait(self, deadline: float) -> bool:
        """Wait for the next offer, or for the end of the connection; False if neither came in time.

        Raises:
            TellwireError: the connection is over for good.
        """
        client = self._connected
        if client.failure is not None:
            raise client.failure
        return await self._inbox.wait(client.loop, deadline)


def profile_of(
    name: str, *, kind: str, capabilities: Sequence[str], metadata: dict[str, Any] | None
) -> RegisterAgent:
    """What an agent says of itself on joining; a program of kind `script` is not an agent with a will."""
    return RegisterAgent(
        name=name,
        kind=kind,
        capabilities=list(capabilities),
        metadata=metadata or {},
        cwd=os.getcwd(),
        session=secrets.token_hex(16),
        owns_process=kind != "script",
        grants=True,
    )
