"""Every operation that stands on a surface is reachable there."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tellwire
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.base import AGENT, CLI, SDK
from tellwire.protocol.operations.messages import MessageRecord
from tests.integration.world import Home, Join

Call = Callable[[tellwire.Agent, tellwire.Agent, MessageRecord], Awaitable[Any]]


async def nothing_more(*_: object) -> None:
    """Joining, leaving and beating happen by connecting itself; see the test."""


async def on_link(me: tellwire.Agent, other: tellwire.Agent, call: Callable[[str], Awaitable[Any]]) -> None:
    """A call about a link of the two."""
    await call((await me.open_link([other.name])).id)


async def stop_a_child(me: tellwire.Agent, _other: tellwire.Agent, _message: MessageRecord) -> None:
    """One can only stop what runs."""
    await me.spawn("kid", "command", "wait", command=["sleep", "60"], headless=True)
    assert (await me.stop_child("kid")).status == "stopping"


async def ask_and_cancel(me: tellwire.Agent, _other: tellwire.Agent, _message: MessageRecord) -> None:
    """What is cancelled here is cancelled there."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await me.ask_agent("command", "q", command=["sleep", "60"])


SDK_CALLS: dict[str, Call] = {
    "register_agent": nothing_more,
    "unregister_agent": nothing_more,
    "heartbeat": nothing_more,
    "claim_messages": nothing_more,
    "update_agent": lambda me, _other, _message: me.update(capabilities=["c"]),
    "list_agents": lambda me, _other, _message: me.peers(all=True),
    "get_agent": lambda me, other, _message: me.peer(other.name),
    "send_message": lambda me, other, message: me.send(other.name, "y", re=message.id),
    "confirm_messages": lambda me, _other, message: me.confirm([message]),
    "peek_messages": lambda me, _other, _message: me.peek(),
    "message_status": lambda me, _other, message: me.status(message.id),
    "mute_agent": lambda me, _other, _message: me.mute(for_s=60.0),
    "get_session_data": lambda me, other, _message: me.session_data(other.name),
    "subscribe": lambda me, _other, _message: me.subscribe("#t"),
    "unsubscribe": lambda me, _other, _message: me.unsubscribe("#t"),
    "open_link": lambda me, other, _message: me.open_link([other.name]),
    "add_member": lambda me, other, _message: on_link(
        me, other, lambda link: me.add_member(link, other.name)
    ),
    "leave_link": lambda me, other, _message: on_link(me, other, me.leave_link),
    "close_link": lambda me, other, _message: on_link(me, other, me.close_link),
    "resume_link": lambda me, other, _message: on_link(me, other, me.resume_link),
    "list_links": lambda me, _other, _message: me.links(all=True),
    "link_history": lambda me, other, _message: on_link(me, other, me.link_history),
    "listen": lambda me, other, _message: me.listen(other.name),
    "unlisten": lambda me, other, _message: me.unlisten(other.name),
    "mark_checkpoint": lambda me, _other, _message: me.mark_checkpoint(),
    "read_history": lambda me, _other, _message: me.history(),
    "search_messages": lambda me, _other, _message: me.search("x"),
    "register_peer": lambda me, other, _message: me.add_peer(other.name),
    "remove_peer": lambda me, other, _message: me.remove_peer(other.name),
    "list_peers": lambda me, _other, _message: me.own_peers(),
    "send_to_peer": lambda me, other, _message: me.send_to_peer(other.name, "x"),
    "mesh_policy": lambda me, _other, _message: me.policy(),
    "claim_scope": lambda me, _other, _message: me.claim(["src"]),
    "release_scope": lambda me, _other, _message: me.release(),
    "who_owns": lambda me, _other, _message: me.who_owns("src"),
    "list_scopes": lambda me, _other, _message: me.scopes(),
    "spawn_agent": lambda me, _other, _message: me.spawn(
        "kid", "command", "wait", command=["sleep", "60"], headless=True
    ),
    "stop_agent": stop_a_child,
    "list_children": lambda me, _other, _message: me.children(),
    "ask_agent": lambda me, _other, _message: me.ask_agent("command", "q", command=["echo", "a"]),
    "cancel_ask": ask_and_cancel,
}
HANDLING = {"broker_status", "diagnose"}
"""Handling the broker is not an agent's business; the command line does it through the same client."""

CLI_COMMANDS = {"broker_status": ("status", "--json"), "stop_broker": ("down",)}


def test_every_operation_that_an_agent_may_call_has_its_row() -> None:
    callable_by_agents = {
        word for word, kind in OPERATIONS.items() if SDK in kind.surfaces and AGENT in kind.callers
    }
    assert callable_by_agents - HANDLING == set(SDK_CALLS)
    assert set(CLI_COMMANDS) <= {word for word, kind in OPERATIONS.items() if CLI in kind.surfaces}


@pytest.mark.parametrize("word", sorted(SDK_CALLS))
async def test_an_operation_is_reachable_by_a_method_of_the_sdk(home: Home, join: Join, word: str) -> None:
    other = await join("other")
    async with tellwire.connect("mine", home=home.path) as me:
        await other.send("mine", "x")
        (message,) = await me.messages(wait_s=5)
        await SDK_CALLS[word](me, other, message)
        assert (await other.peer("mine")).status == "online"
        assert (await other.peer("mine")).last_heartbeat > 0
    assert (await other.peer("mine")).offline_reason == "left"


@pytest.mark.parametrize("word", sorted(CLI_COMMANDS))
def test_an_operation_is_reachable_by_a_command(home: Home, word: str) -> None:
    home.up()
    done = home.tellwire(*CLI_COMMANDS[word])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("word", sorted(OPERATIONS))
def test_an_operation_says_what_it_is_for(word: str) -> None:
    kind = OPERATIONS[word]
    assert (kind.__doc__ or "").strip().endswith(".")
    assert (kind.reply.__doc__ or "").strip()
    assert kind.callers
    assert kind.surfaces


def test_the_status_command_tells_the_fields_of_its_operation(home: Home) -> None:
    home.up()
    told = json.loads(home.tellwire("status", "--json").stdout)
    assert set(told) == set(OPERATIONS["broker_status"].reply.__struct_fields__)
