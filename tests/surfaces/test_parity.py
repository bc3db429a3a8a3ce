"""Every operation that stands on a surface is reachable there."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tellwire
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.agents import AgentRecord, GetAgent
from tellwire.protocol.operations.base import AGENT, CLI, SDK
from tellwire.protocol.operations.messages import MessageRecord
from tellwire.protocol.operations.peers import RegisterPeer, SendToPeer
from tests.integration.world import Home, Join

Call = Callable[[tellwire.Agent, tellwire.Agent, MessageRecord], Awaitable[Any]]


async def nothing_more(*_: object) -> None:
    """Joining, leaving and beating happen by connecting itself; see the test."""


async def on_link(me: tellwire.Agent, other: tellwire.Agent, call: Callable[[str], Awaitable[Any]]) -> None:
    """A call about a link of the two."""
    await call((await me.links.open([other.name])).id)


async def stop_a_child(me: tellwire.Agent, _other: tellwire.Agent, _message: MessageRecord) -> None:
    """One can only stop what runs."""
    await me.children.spawn("kid", "command", "wait", command=["sleep", "60"], headless=True)
    assert (await me.children.stop("kid")).status == "stopping"


async def ask_and_cancel(me: tellwire.Agent, _other: tellwire.Agent, _message: MessageRecord) -> None:
    """What is cancelled here is cancelled there."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await me.children.ask("command", "q", command=["sleep", "60"])


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
    "get_session_data": lambda me, other, _message: me.turns.transcript(other.name),
    "subscribe": lambda me, _other, _message: me.subscribe("#t"),
    "list_topics": lambda me, _other, _message: me.topics(),
    "unsubscribe": lambda me, _other, _message: me.unsubscribe("#t"),
    "open_link": lambda me, other, _message: me.links.open([other.name]),
    "add_member": lambda me, other, _message: on_link(
        me, other, lambda link: me.links.add_member(link, other.name)
    ),
    "leave_link": lambda me, other, _message: on_link(me, other, me.links.leave),
    "close_link": lambda me, other, _message: on_link(me, other, me.links.close),
    "resume_link": lambda me, other, _message: on_link(me, other, me.links.resume),
    "list_links": lambda me, _other, _message: me.links.all(closed=True),
    "link_history": lambda me, other, _message: on_link(me, other, me.links.history),
    "listen": lambda me, other, _message: me.turns.listen(other.name),
    "unlisten": lambda me, other, _message: me.turns.unlisten(other.name),
    "mark_checkpoint": lambda me, _other, _message: me.turns.mark_checkpoint(),
    "get_message": lambda me, _other, message: me.past.message(message.id),
    "explain_message": lambda me, _other, message: me.why(message.id),
    "read_thread": lambda me, _other, message: me.past.thread(message.id),
    "report_activity": lambda me, _other, _message: me.report_activity("busy"),
    "read_history": lambda me, _other, _message: me.past.history(),
    "search_messages": lambda me, _other, _message: me.past.search("x"),
    "register_peer": lambda me, other, _message: me.pairs.add(other.name),
    "remove_peer": lambda me, other, _message: me.pairs.remove(other.name),
    "list_peers": lambda me, _other, _message: me.pairs.all(),
    "send_to_peer": lambda me, other, _message: me.pairs.send(other.name, "x"),
    "mesh_policy": lambda me, _other, _message: me.pairs.policy(),
    "claim_scope": lambda me, _other, _message: me.scopes.claim(["src"]),
    "release_scope": lambda me, _other, _message: me.scopes.release(),
    "who_owns": lambda me, _other, _message: me.scopes.who_owns("src"),
    "list_scopes": lambda me, _other, _message: me.scopes.all(),
    "spawn_agent": lambda me, _other, _message: me.children.spawn(
        "kid", "command", "wait", command=["sleep", "60"], headless=True
    ),
    "stop_agent": stop_a_child,
    "list_children": lambda me, _other, _message: me.children.all(),
    "ask_agent": lambda me, _other, _message: me.children.ask("command", "q", command=["echo", "a"]),
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


async def test_any_operation_can_be_sent_as_it_is(join: Join) -> None:
    me, other = await join("mine"), await join("other")
    found: AgentRecord = await me.call(GetAgent(name="other"))
    assert found.id == other.id
    await me.call(RegisterPeer(name="other"))
    assert (await me.call(SendToPeer(to="other", body="x"))).status == "received"
    assert [message.body for message in await other.messages(wait_s=5)] == ["x"]
    with pytest.raises(tellwire.TellwireError) as refused:
        await me.call(GetAgent(name="nobody"))
    assert refused.value.code == "unknown_agent"


async def test_an_operation_that_must_not_happen_twice_gets_a_request_id(join: Join) -> None:
    """A call may be sent again after a lost connection; the broker knows it by this id."""
    me = await join("mine")
    sending = [asyncio.ensure_future(me.call(SendToPeer(to="other", body="x"))) for _ in range(2)]
    await asyncio.sleep(0)
    frames = me._membership.client.calls.frames()  # pyright: ignore[reportPrivateUsage]
    keys = {json.loads(frame)["do"]["key"] for frame in frames}
    assert len(keys) == 2
    await asyncio.gather(*sending)


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
