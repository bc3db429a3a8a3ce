"""The shim: a pipe that an agent CLI starts, and that outlives every broker."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.integration.mcp_world import (
    ERAS,
    HANDSHAKE,
    MODERN,
    SHIM,
    Shim,
    Shims,
    code_of,
    environment,
    open_shims,
    result_of,
    until_status,
)
from tests.integration.world import Home, pass_time, until

CROWD = 100
OFFLINE_AFTER_S = 1.5
QUICK = {"offline_after_s": OFFLINE_AFTER_S, "beat_s": 0.05}
TOO_LONG = 3 << 19


@pytest.fixture
async def shims(home: Home) -> AsyncIterator[Shims]:
    async with open_shims(home) as opened:
        yield opened


@pytest.fixture
async def cold_shims(home: Home) -> AsyncIterator[Shims]:
    """Those that have to start their broker themselves."""
    async with open_shims(home, cold=True) as opened:
        yield opened


def starts(home: Home) -> int:
    """How many brokers ever began to serve in this home."""
    return home.log.count(" runs, pid ")


# -- beginning ----------------------------------------------------------------------------------------


async def test_shims_at_once_start_one_broker(home: Home, cold_shims: Shims) -> None:
    names = ("alice", "bob", "carol")
    opened = await asyncio.gather(*(cold_shims.open(name) for name in names))
    for name, shim in zip(names, opened, strict=True):
        assert f"You are `{name}`" in shim.instructions
    assert (home.brokers(), starts(home)) == ([home.pid], 1)


def server(home: Home, name: str) -> StdioServerParameters:
    """The shim as an MCP client is told to start it."""
    command = ["-I", "-S", SHIM, "--name", name]
    return StdioServerParameters(command=sys.executable, args=command, env=environment(home, {}))


async def test_the_official_client_of_the_handshake_era_gets_along_with_it(home: Home) -> None:
    async with (
        stdio_client(server(home, "alice")) as (reader, writer),
        ClientSession(reader, writer) as alice,
    ):
        assert "You are `alice`" in ((await alice.initialize()).instructions or "")
        assert "get_messages" in [tool.name for tool in (await alice.list_tools()).tools]
        assert not (await alice.call_tool("list_peers", {})).is_error


async def test_the_official_client_of_the_modern_era_gets_along_with_it(home: Home) -> None:
    async with Client(stdio_client(server(home, "alice")), mode="auto") as alice:
        assert alice.protocol_version == ERAS[-1]
        assert "get_messages" in [tool.name for tool in (await alice.list_tools()).tools]
        assert not (await alice.call_tool("list_peers", {})).is_error


async def test_a_hundred_sessions_join_at_once_and_each_gets_exactly_its_message(
    home: Home, shims: Shims
) -> None:
    names = [f"agent{number}" for number in range(CROWD)]
    crowd = await asyncio.gather(*(shims.open(name, era=ERAS[n % 3]) for n, name in enumerate(names)))
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    sent = await asyncio.gather(
        *(shim.send(following[name], f"from {name}") for name, shim in zip(names, crowd, strict=True))
    )
    results = await asyncio.gather(*(shim.call("get_messages", {"wait_s": 10}) for shim in crowd))
    bodies = {name: result.bodies for name, result in zip(names, results, strict=True)}
    assert bodies == {following[name]: [f"from {name}"] for name in names}
    assert {each for result in results for each in result.ids} == set(sent)
    assert (home.brokers(), starts(home)) == ([home.pid], 1)


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_a_second_session_of_the_same_name_gets_a_suffix_and_is_told_so(shims: Shims, era: str) -> None:
    await shims.open("alice", era=era)
    second = await shims.open("alice", era=era)
    assert "You are `alice-2`" in second.instructions
    first = await second.call("list_peers")
    assert "you are 'alice-2'" in first.text
    assert "you are 'alice-2'" not in (await second.call("list_peers")).text


async def test_the_next_session_of_a_name_finds_its_mailbox(shims: Shims) -> None:
    alice, bob = await shims.open("alice"), await shims.open("bob")
    bob.close()
    assert await bob.ended() == 0
    await until_status(alice, "bob", "offline")
    sent = await alice.send("bob", "while you were away")
    again = await shims.open("bob")
    assert "You are `bob`" in again.instructions
    assert (await again.call("get_messages")).ids == [sent]


# -- lines --------------------------------------------------------------------------------------------


async def test_lines_in_pieces_several_in_one_write_and_empty_ones(shims: Shims) -> None:
    shim = await shims.open("alice")
    number, line = shim.line("ping")
    for place in range(len(line)):
        await shim.write(line[place : place + 1])
    assert (await shim.arrival(number))["result"] == {}
    lines = [shim.line("ping") for _ in range(50)]
    await shim.write(b"\n \n".join(line for _, line in lines) + b"\r\n\n")
    for number, _ in lines:
        assert (await shim.arrival(number))["result"] == {}
    assert (len(shim.answers[number]), shim.answers[None]) == (1, [])


@pytest.mark.parametrize("shape", ["id first", "id last", "id among arguments too"])
async def test_a_line_that_is_too_long_is_refused_by_its_id_and_the_session_goes_on(
    shims: Shims, shape: str
) -> None:
    shim = await shims.open("alice")
    arguments = {"to": "bob", "body": "x" * TOO_LONG}
    if shape == "id among arguments too":
        arguments = {"id": "m4", **arguments}
    head, tail = {"jsonrpc": "2.0", "id": 900}, {"method": "tools/call", "params": {"arguments": arguments}}
    message = {**head, **tail} if shape == "id first" else {**tail, **head}
    await shim.write(json.dumps(message).encode() + b"\n")
    assert code_of(await shim.arrival(900)) == -32600
    assert not (await shim.call("list_peers")).failed
    assert sorted(map(str, shim.answers)) == ["1", "2", "900"]


async def test_what_the_client_does_not_read_for_a_while_is_not_lost(shims: Shims) -> None:
    deaf, other = await shims.open("deaf", limit=1 << 16), await shims.open("other")
    await deaf.pause()
    lines = [deaf.line("tools/list") for _ in range(1_200)]
    deaf.begin(b"".join(line for _, line in lines))
    for number in range(20):
        await other.send("deaf", str(number))
    deaf.read()
    for number, _ in lines:
        assert "result" in await deaf.arrival(number)
    assert {len(deaf.answers[number]) for number, _ in lines} == {1}
    assert (await deaf.call("get_messages")).bodies == [str(number) for number in range(20)]


# -- its end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_at_the_clients_end_what_is_open_is_answered_and_the_agent_is_offline(
    shims: Shims, era: str
) -> None:
    alice, bob = await shims.open("alice", era=era), await shims.open("bob", era=era)
    (held, first), (asked, second) = bob.tool("get_messages", {"wait_s": 60}), bob.tool("list_peers")
    bob.begin(first + second)
    bob.close()
    assert await bob.ended() == 0
    assert result_of(bob.answers[held][0]).text == "No messages."
    assert "You are bob" in result_of(bob.answers[asked][0]).text
    await until_status(alice, "bob", "offline")


async def test_half_a_line_at_the_end_is_answered_too(shims: Shims) -> None:
    half, whole = await shims.open("half"), await shims.open("whole")
    half.begin(b'{"jsonrpc":"2.0","id":')
    whole.begin(b'{"jsonrpc":"2.0","id":77,"method":"ping"}')
    for shim in (half, whole):
        shim.close()
        assert await shim.ended() == 0
    assert [code_of(answer) for answer in half.answers[None]] == [-32700]
    assert [answer["result"] for answer in whole.answers[77]] == [{}]


@pytest.mark.parametrize("way", ["killed", "closed"])
async def test_what_a_session_leaves_unread_waits_for_the_next_one(shims: Shims, way: str) -> None:
    alice, bob = await shims.open("alice"), await shims.open("bob")
    fetched = await alice.send("bob", "fetched")
    await bob.call("get_messages")
    waiting = await alice.send("bob", "waiting")
    if way == "killed":
        await bob.kill()
    else:
        bob.close()
        await bob.ended()
    await until_status(alice, "bob", "offline")
    assert [await alice.state(each) for each in (fetched, waiting)] == ["pending", "pending"]
    messages = (await (await shims.open("bob")).call("get_messages")).data["messages"]
    assert [(each["id"], each.get("repeat", False)) for each in messages] == [
        (fetched, True),
        (waiting, False),
    ]


async def test_a_client_that_is_stopped_is_shown_offline_until_it_goes_on(shims: Shims) -> None:
    alice = await shims.open("alice", settings=QUICK)
    bob = await shims.open("bob", beneath=True)
    await pass_time(2 * OFFLINE_AFTER_S)
    await until_status(alice, "bob", "online", within_s=0)
    sent = await alice.send("bob", "fetched before")
    await bob.call("get_messages")
    os.kill(bob.pid, signal.SIGSTOP)
    await until_status(alice, "bob", "offline")
    assert await alice.state(sent) == "delivered", "it still has what it has"
    os.kill(bob.pid, signal.SIGCONT)
    await until_status(alice, "bob", "online")
    assert (await bob.call("get_messages")).ids == []
    assert await alice.state(sent) == "read by next_call"


# -- brokers come and go ------------------------------------------------------------------------------


async def test_an_idle_shim_leaves_a_stopped_broker_stopped_until_it_is_called(
    home: Home, shims: Shims
) -> None:
    give_up_s = 3.0
    shim = await shims.open("alice", pace={"GIVE_UP_S": give_up_s})
    held, line = shim.tool("get_messages", {"wait_s": 60})
    await shim.write(line)
    await shim.request("tools/list")
    assert home.tellwire("down").returncode == 0
    assert result_of(await shim.arrival(held)).text == "No messages."
    await pass_time(give_up_s + 0.5)
    assert ({*home.brokers(), *home.starters()}, starts(home)) == (set(), 1)
    assert "You are alice" in (await shim.call("list_peers")).text
    assert (home.brokers(), starts(home)) == ([home.pid], 2)


@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_a_session_goes_on_under_its_name_when_the_broker_is_replaced(
    home: Home, shims: Shims, era: str
) -> None:
    alice, bob = await shims.open("alice", era=era), await shims.open("bob", era=era)
    held, line = bob.tool("get_messages", {"wait_s": 60})
    await bob.write(line)
    await bob.request("tools/list")
    home.tellwire("up", "--detach", "--replace")
    sent = await alice.send("bob", "across")
    assert result_of(await bob.arrival(held)).text == "No messages.", (
        "a broker that stops keeps nobody waiting"
    )
    assert (await bob.call("get_messages", {"wait_s": 10})).ids == [sent]
    assert "You are bob" in (await bob.call("list_peers")).text
    assert await alice.state(sent) == "read by next_call"
    assert len(bob.answers[held]) == 1
    assert len(home.brokers()) == 1


async def test_a_handshake_of_any_shape_is_said_again_to_the_next_broker(home: Home, shims: Shims) -> None:
    shim = await shims.start("alice")
    info = {"name": "tester", "version": "1", "title": "x" * 500}
    params = {"clientInfo": info, "capabilities": {}, "protocolVersion": HANDSHAKE}
    first = json.dumps({"params": params, "jsonrpc": "2.0", "id": "i" * 150, "method": "initialize"})
    await shim.write(first.encode() + b"\n")
    await shim.arrival("i" * 150)
    await shim.notify("notifications/initialized")
    assert not (await shim.call("list_peers")).failed
    home.signal(home.KILL)
    assert "You are alice" in (await shim.call("list_peers")).text
    assert len(shim.answers["i" * 150]) == 1


async def test_a_broker_that_was_killed_is_started_again_by_the_next_call(home: Home, shims: Shims) -> None:
    shim = await shims.open("alice")
    for _ in range(3):
        home.signal(home.KILL)
        assert "You are alice" in (await shim.call("list_peers")).text
    assert home.brokers() == [home.pid]


def break_database(home: Home) -> Path:
    """Have something else in the database's place."""
    home.settings.database.write_bytes(b"this is no database" * 1_000)
    return home.settings.database


async def open_to_error(shim: Shim) -> str:
    """Begin a session that cannot be; what is said of it."""
    number, line = shim.line("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}})
    await shim.write(line)
    answer = await shim.arrival(number)
    assert code_of(answer) == -32603
    return answer["error"]["message"]


async def test_a_home_that_cannot_be_is_named_in_the_answer_and_the_shim_lives_on(
    home: Home, cold_shims: Shims
) -> None:
    file = home.path / "file"
    file.write_text("not a folder")
    shim = await cold_shims.start("alice", home=str(file / "home"), pace={"GIVE_UP_S": 1.0})
    assert str(file / "home") in await open_to_error(shim)
    assert str(file / "home") in await open_to_error(shim)
    assert shim.process.returncode is None
    shim.close()
    assert await shim.ended() == 0


async def test_a_broken_database_is_named_in_the_answer_and_once_it_is_whole_all_goes_on(
    home: Home, cold_shims: Shims
) -> None:
    database = break_database(home)
    shim = await cold_shims.start("alice", pace={"GIVE_UP_S": 2.0})
    assert "tellwire.db" in await open_to_error(shim)
    seen: set[int] = set()
    began = time.monotonic()
    await until(lambda: seen.update(home.starters()) or time.monotonic() - began > 2.5)
    assert len(seen) <= 10, "what fails is not tried without a pause"
    os.unlink(database)
    await shim.open()
    assert "You are alice" in (await shim.call("list_peers")).text
