"""One agent's own handle on the mesh: `async with tellwire.connect("alice") as me`.

Here are joining, leaving, mail and the listing of agents. Calls about one other subject are in `past`,
`links`, `turns`, `pairs`, `scopes` and `children` (`sdk/calls`), and `call` sends any operation of the table.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.agents import (
    AgentRecord,
    GetAgent,
    ListAgents,
    MuteAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.explain import ExplainMessage, Explanation
from tellwire.protocol.operations.feed import Activity, ReportActivity
from tellwire.protocol.operations.messages import (
    ConfirmMessages,
    ContentKind,
    MessageRecord,
    MessageStatus,
    Mode,
    PeekMessages,
    RecipientStatus,
    SendMessage,
    Sent,
)
from tellwire.protocol.operations.topics import ListTopics, Subscribe, TopicRecord, Unsubscribe
from tellwire.sdk.broker_client import CALL_S, BrokerAddress, BrokerClient, Handlers
from tellwire.sdk.calls import Children, Links, Pairs, Past, Scopes, Turns
from tellwire.sdk.connection import BrokerConnection
from tellwire.sdk.inbox import LocalInbox
from tellwire.sdk.membership import Membership

log = logging.getLogger("tellwire.sdk")

Message: TypeAlias = MessageRecord
Peer: TypeAlias = AgentRecord
Receipt: TypeAlias = Sent

LEAVE_S = 2.0
NEXT_S = 3_600.0
"""How long iterating waits for a message before it looks again."""

R = TypeVar("R")


class Status(dict[str, str]):
    """How far a message got: the state by recipient; `recipients` adds evidence and time."""

    def __init__(self, message_id: str, recipients: Sequence[RecipientStatus]) -> None:
        super().__init__({recipient.name: recipient.state for recipient in recipients})
        self.id = message_id
        self.recipients = tuple(recipients)


class Agent:
    """The agent that this program is. Use it as an async context manager."""

    def __init__(self, address: BrokerAddress, profile: RegisterAgent) -> None:
        self._address = address
        self._inbox = LocalInbox()
        self._membership = membership = Membership(profile)
        self.past = Past(membership)
        self.links = Links(membership)
        self.turns = Turns(membership)
        self.pairs = Pairs(membership)
        self.scopes = Scopes(membership)
        self.children = Children(membership)
        self.confirms_at_end = True
        """Whether what was shown is confirmed when the program leaves without an exception."""

    # -- joining and leaving --------------------------------------------------------------------------

    async def __aenter__(self) -> Agent:
        inbox, membership = self._inbox, self._membership

        async def register(connection: BrokerConnection, welcome: Welcome) -> None:
            inbox.begin(grants=membership.can_be_granted(connection))
            await membership.register(connection, welcome)

        client = BrokerClient(
            self._address,
            Handlers(
                on_offer=inbox.put,
                on_connected=register,
                on_lost=inbox.void_grants,
                on_failed=inbox.wake,
            ),
        )
        inbox.enter()
        membership.begin(client)
        try:
            await client.open()
        except BaseException:
            await client.close()
            raise
        if self.note:
            log.warning("%s", self.note)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        inbox, client = self._inbox, self._membership.client
        self._membership.stop_heartbeats()
        inbox.leave()
        try:
            if not self.attached and await client.back(LEAVE_S):
                if kind is None and self.confirms_at_end:
                    with suppress(TellwireError):  # then it is reported as shown, and may come again
                        await inbox.confirm_shown(client, LEAVE_S)
                # A broker that tells no clock does not ask what was shown.
                asks = client.welcome is not None and client.welcome.clock
                await client.call(UnregisterAgent(shown=inbox.told() if asks else None), deadline_s=LEAVE_S)
        except TellwireError as refusal:
            log.debug("left without telling the broker: %s", refusal)
        finally:
            await client.close()

    @property
    def name(self) -> str:
        """The agent's name; it may differ from the one asked for, see `note`."""
        return self._membership.registered.name

    @property
    def id(self) -> str:
        """The id that stays the same when the name changes; empty before joining."""
        return self._membership.registered.id

    @property
    def note(self) -> str:
        """What the broker said on joining: for example that the name was taken."""
        return self._membership.registered.note

    @property
    def attached(self) -> bool:
        """This program was started by the agent and acts as it; the agent's own client gets the mail."""
        return self._membership.registered.attached

    @property
    def waiting(self) -> int:
        """How many messages wait at the broker beyond those already here."""
        return self._inbox.waiting

    # -- any operation --------------------------------------------------------------------------------

    async def call(self, operation: Operation[R], *, deadline_s: float = CALL_S) -> R:
        """Send any operation of `tellwire.protocol.operations` and return its reply.

        It is sent again if the broker restarts, so an operation with an empty `key` gets one: then it happens
        once. Paths in it have to be absolute.

        Raises:
            TellwireError: refused, or `timeout`.
        """
        if getattr(operation, "key", None) == "":
            operation = msgspec.structs.replace(operation, key=self.new_key())
        return await self._membership.client.call(operation, deadline_s=deadline_s)

    def new_key(self) -> str:
        """Make a request id, for a call that may have to be repeated."""
        return self._membership.new_key()

    # -- agents ---------------------------------------------------------------------------------------

    async def peers(self, *, all: bool = False, capability: str | None = None) -> list[Peer]:
        """List the agents that are online in this project; with `all`, every agent on this machine."""
        return (await self._membership.client.call(ListAgents(all=all, capability=capability))).agents

    async def peer(self, name: str) -> Peer:
        """Tell everything that is known about one agent."""
        return await self._membership.client.call(GetAgent(name=name))

    async def update(
        self,
        *,
        name: str | None = None,
        capabilities: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Peer:
        """Change this agent's name, capabilities or metadata."""
        words = None if capabilities is None else list(capabilities)
        self._inbox.void_grants()  # under another name the mail may be another agent's
        operation = UpdateAgent(name=name, capabilities=words, metadata=metadata)
        record = await self._membership.client.call(operation)
        self._membership.take_over(record)
        return record

    async def mute(self, *, for_s: float | None = None, off: bool = False) -> Peer:
        """Be woken by no mail for a time, or until it is taken back with `off`; mail waits."""
        return await self._membership.client.call(MuteAgent(for_s=for_s, off=off))

    async def report_activity(self, activity: Activity, *, wants: str = "") -> None:
        """Tell listings and consoles what this program does: `busy`, `idle` or `waiting` (for its human)."""
        await self._membership.client.call(ReportActivity(activity=activity, wants=wants))

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

        `direct`: on the direct link with that agent, opened if there is none. `listen`: be notified how its
        turns end. `choices`: to `operator`, up to nine short answers to choose from.
        The receipt's `status` tells how far it got. After `timeout` a repeat with the same `key` is harmless.
        """
        if (client := self._membership.client).calls.crowded:
            await client.calls.room()
        operation = SendMessage(
            to=to if isinstance(to, str) else list(to),
            body=body,
            re=re,
            mode=mode,
            kind=kind,
            context=context,
            ttl_s=ttl_s,
            key=key or self._membership.new_key(),
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

    async def status(self, message_id: str) -> Status:
        """Tell how far a message got, by recipient."""
        reply = await self._membership.client.call(MessageStatus(id=message_id))
        return Status(reply.id, reply.recipients)

    async def why(self, message_id: str) -> Explanation:
        """Tell why a message has not been read yet, by recipient, and what happens next."""
        return await self._membership.client.call(ExplainMessage(id=message_id))

    async def subscribe(self, topic: str) -> list[str]:
        """Get what is sent to a topic from now on; returns all subscriptions."""
        return (await self._membership.client.call(Subscribe(topic=topic))).topics

    async def topics(self) -> list[TopicRecord]:
        """All topics, and who is subscribed to them."""
        return (await self._membership.client.call(ListTopics())).topics

    async def unsubscribe(self, topic: str) -> list[str]:
        """Unsubscribe from a topic; returns the remaining subscriptions."""
        return (await self._membership.client.call(Unsubscribe(topic=topic))).topics

    # -- receiving ------------------------------------------------------------------------------------

    async def messages(self, wait_s: float = 0.0, *, limit: int | None = None) -> list[Message]:
        """Return what has come, oldest first, each message once; wait up to `wait_s` if nothing has.

        What is not confirmed counts as delivered, not as read, and is confirmed when the program leaves the
        `with` block without an exception; after an exception it comes again.
        """
        return await self._inbox.messages(self._membership.client, wait_s, limit)

    async def confirm(self, ids: Iterable[str | Message]) -> int:
        """Say that messages were read; returns how many became so by this call."""
        words = [each if isinstance(each, str) else each.id for each in ids]
        confirmed = await self._membership.client.call(ConfirmMessages(ids=words))
        self._inbox.settle(words)
        return confirmed.count

    async def peek(self, limit: int = 50) -> list[Message]:
        """Return what is not confirmed yet, without consuming it."""
        return (await self._membership.client.call(PeekMessages(limit=limit))).messages

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come; one is confirmed when the next is asked for, not if the body raised."""
        while True:
            for message in await self.messages(wait_s=NEXT_S, limit=1):
                yield message
                await self.confirm([message.id])
