"""Asking the broker from a command, as nobody in particular or as an agent; started if none runs.

A command that speaks joins like any program of the SDK, does its work, and leaves. One that only reads as an
agent does not join, so that a script may ask often: its journal does not grow by that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tellwire.cli.words import SESSION, note_unread, registration
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.agents import ListAgents, RegisterAgent, UnregisterAgent
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.suggestions import nearest
from tellwire.sdk.agent import Agent, Message
from tellwire.sdk.broker_client import BrokerAddress, BrokerClient, Handlers
from tellwire.sdk.connect import broker_address
from tellwire.sdk.connection import BrokerConnection
from tellwire.settings import Settings, load_settings
from tellwire.version import VERSION

T = TypeVar("T")
PROGRAM = f"cli {VERSION}"


def ask(operation: Operation[T], *, settings: Settings | None = None, autostart: bool = True) -> T:
    """Call one operation, as whatever caller the broker takes this process for.

    Raises:
        TellwireError: refused, or no broker can be reached.
    """
    _calm_log()
    address = broker_address(settings or load_settings(), program=PROGRAM, autostart=autostart)

    async def work() -> T:
        async with _opened(BrokerClient(address)) as client:
            return await client.call(operation)

    return asyncio.run(work())


def ask_once(make: Callable[[str], Operation[T]]) -> T:
    """Ask for one operation that must not happen twice; it is made with a fresh request id.

    Raises:
        TellwireError: refused, or no broker can be reached.
    """
    _calm_log()
    address = _address()

    async def work() -> T:
        async with _opened(BrokerClient(address)) as client:
            awake = 0.0 if client.welcome is None else client.welcome.awake
            return await client.call(make(f"{int(awake * 1_000_000):x}-{SESSION[:8]}1"))

    return asyncio.run(work())


@asynccontextmanager
async def _opened(client: BrokerClient) -> AsyncGenerator[BrokerClient]:
    """A connection for one command; notes how much mail the broker reports as waiting."""
    try:
        await client.open()
        yield client
    finally:
        note_unread(client.calls.unread)
        await client.close()


def ask_as(name: str | None, operation: Operation[T]) -> T:
    """Ask for one operation, as an agent if one is named."""
    if name is None:
        return ask(operation)
    if operation.reads:
        try:
            return _read_as(name, operation)
        except TellwireError as error:
            # Of the person at the terminal nothing may be known yet; and an older broker knows no looks.
            if error.code != "bad_request" and not (error.code == "unknown_agent" and not name):
                raise

    async def work(me: Speaker) -> T:
        return await me.call(operation)

    return speak(name, work)


def _read_as(name: str, operation: Operation[T]) -> T:
    """Ask as an agent without joining as it: nothing is written for a command that only reads."""
    _calm_log()
    address = _address()
    look = RegisterAgent(**registration(name), looks=True)

    async def work() -> T:
        joined = False

        async def begin(connection: BrokerConnection, _welcome: Welcome) -> None:
            nonlocal joined
            joined = not (await client.call_on(connection, look)).attached

        client = BrokerClient(address, Handlers(on_connected=begin))
        async with _opened(client):
            reply = await client.call(operation)
            if joined:  # it was away for long
                await client.call(UnregisterAgent())
            return reply

    return asyncio.run(work())


def is_empty(name: str | None, *, may_be_new: bool) -> bool:
    """Whether an agent that is known and has no client of its own has no mail; nothing is written for it.

    Raises:
        TellwireError: `unknown_agent`: there is none of that name; a new one must not resemble another.
    """
    try:
        found = ask(RegisterAgent(**registration(name or ""), looks=True))
    except TellwireError as error:
        if error.code == "unknown_agent" and name:
            near = nearest(name, [agent.name for agent in ask(ListAgents(all=True)).agents])
            if near or not may_be_new:
                words = f"Did you mean {' or '.join(near)}? " if near else ""
                advice = f"{words}For a new agent: `tellwire register {name}`."
                raise TellwireError("unknown_agent", f"There is no agent named {name!r}.", advice) from None
        return False  # joining tells why
    return found.looking and not found.waiting


def speak(
    name: str | None, work: Callable[[Speaker], Awaitable[T]], *, capabilities: Sequence[str] | None = None
) -> T:
    """Join, do the work, leave. Without a name: as the agent above, or as the person at the terminal.

    Raises:
        TellwireError: the name has a client of its own, or the work is refused.
    """
    _calm_log()
    address = _address()
    words = registration(name or "")
    announced = None if capabilities is None else list(capabilities)
    profile = RegisterAgent(**words, capabilities=announced)

    async def run() -> T:
        me = Speaker(address, profile)
        async with me:
            reply = await work(me)
            note_unread(me.unread)
            return reply

    return asyncio.run(run())


class Speaker(Agent):
    """The agent that a command acts as."""

    @property
    def unread(self) -> int:
        """How much mail waits for the person at the terminal, as the last reply told."""
        return self._membership.client.calls.unread

    @property
    def resumed(self) -> bool:
        """Whether the agent was known before this command."""
        return self._membership.registered.resumed

    @property
    def promised(self) -> bool:
        """Whether mail waited on joining; it is offered at once."""
        return self._membership.registered.waiting > 0

    async def reply_to(self, message_id: str, wait_s: float) -> Message | None:
        """Wait for the reply to a message and take over that one only; other mail stays as it is."""
        return await self._inbox.reply_to(self._membership.client, message_id, wait_s)

    async def message_from(self, sender: str, wait_s: float) -> Message | None:
        """Wait for a message of one sender and take over that one only; other mail stays as it is.

        Raises:
            TellwireError: `limit_exceeded`: too much other mail is unread to see it.
        """
        client = self._membership.client
        message = await self._inbox.next_of(client, lambda each: each.sender == sender, wait_s)
        if message is None and self._inbox.waiting:
            raise self._inbox.too_many()
        return message


def client_to(settings: Settings, handlers: Handlers) -> BrokerClient:
    """A client for a command that stays; made inside a running loop."""
    _calm_log()
    return BrokerClient(broker_address(settings, program=PROGRAM, autostart=True), handlers)


def _address() -> BrokerAddress:
    return broker_address(load_settings(), program=PROGRAM, autostart=True)


def _calm_log() -> None:
    """Silence the client's log: the commands report errors themselves."""
    logging.getLogger("tellwire").addHandler(logging.NullHandler())
