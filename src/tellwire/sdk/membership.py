"""What this program is to the broker: its registration, kept alive by heartbeats, and its request ids."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.agents import AgentRecord, Heartbeat, RegisterAgent, Registered
from tellwire.sdk.broker_client import BrokerClient
from tellwire.sdk.connection import BrokerConnection


class Membership:
    """One agent's place at the broker. It outlives connections: coming back, it is the same agent."""

    def __init__(self, profile: RegisterAgent) -> None:
        self._profile = profile
        self._client: BrokerClient | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._counter = itertools.count(1)
        self.registered = Registered(id="", name=profile.name)
        """What the broker said to the last registration; without an id until there was one."""

    @property
    def client(self) -> BrokerClient:
        """The connection to the broker.

        Raises:
            TellwireError: `not_registered`: the program has not joined.
        """
        if self._client is None:
            raise TellwireError("not_registered", "Not connected.", "Use `async with tellwire.connect(...)`.")
        return self._client

    def new_key(self) -> str:
        """A fresh request id. It begins with the time, so that the broker can tell which are too old."""
        birth_us = int(self.client.awake() * 1_000_000)
        return f"{birth_us:x}-{self._profile.session[:8]}{next(self._counter):x}"

    def begin(self, client: BrokerClient) -> None:
        """Join with a new client; the one of the last time was closed."""
        self._client = client

    def can_be_granted(self, connection: BrokerConnection) -> bool:
        """Whether offers may say until when nobody else gets their messages: that needs one clock."""
        return self._profile.grants and connection.same_clock

    async def register(self, connection: BrokerConnection, welcome: Welcome) -> None:
        """Register on a new connection, and send heartbeats on it."""
        # Coming back it must be the same agent: a farewell may have been lost with the connection.
        profile = msgspec.structs.replace(
            self._profile,
            resume="" if self.registered.attached else self.registered.id,
            grants=self.can_be_granted(connection),
        )
        self.registered = await self.client.call_on(connection, profile)
        self._send_heartbeat(welcome.heartbeat_s)

    def take_over(self, record: AgentRecord) -> None:
        """The agent was changed: register like this the next time."""
        self.registered = msgspec.structs.replace(self.registered, name=record.name)
        self._profile = msgspec.structs.replace(
            self._profile, name=record.name, capabilities=record.capabilities, metadata=record.metadata
        )

    def stop_heartbeats(self) -> None:
        """Send no more of them until the next registration."""
        if self._beat is not None:
            self._beat.cancel()

    def _send_heartbeat(self, interval_s: float) -> None:
        """Send one now and the next ones by timer; a timer of an older connection ends."""
        self.stop_heartbeats()
        self.client.tell(Heartbeat())
        self._beat = self.client.loop.call_later(interval_s, self._send_heartbeat, interval_s)


def profile_of(
    name: str, *, kind: str, capabilities: Sequence[str], metadata: dict[str, Any] | None
) -> RegisterAgent:
    """What an agent registers as. A program of kind `script` does not own its process: another agent may."""
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
