"""Whatever arrives on the socket: a clear answer, a closed connection, and the others never notice."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.integration.world import Home, Join, OpenRaw, Raw, until

HELLO = b'{"tellwire":1}\n'


@pytest.fixture
async def healthy(home: Home, join: Join) -> AsyncIterator[None]:
    """A pair that must be able to talk before and after."""
    alice, bob = await join("alice"), await join("bob")
    pid = home.pid

    async def talk(body: str) -> None:
        receipt = await alice.send("bob", body)
        (message,) = await bob.messages(wait_s=5)
        await bob.confirm([message])
        assert (message.body, await alice.status(receipt.id)) == (body, {"bob": "read"})

    await talk("before")
    yield
    await talk("after")
    assert home.pid == pid, "the broker died"
    assert "Traceback" not in home.log


async def refusal(raw: Raw) -> str:
    """The code with which the broker closes the connection; all that comes before it is passed over."""
    code = ""
    while frame := await raw.frame():
        code = frame["error"]["code"] if frame.get("error") and not frame.get("n") else code
    return code


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "greeting_missing"),
        (b"\xff\xfe\x00\n", "greeting_missing"),
        (b"{}\n", "greeting_missing"),
        (b'{"tellwire":"one"}\n', "greeting_missing"),
        (b"\n", "greeting_missing"),
        (b'{"tellwire":2}\n', "wrong_version"),
        (b'{"tellwire":99999999}\n', "wrong_version"),
        (HELLO + b"not json\n", "bad_frame"),
        (HELLO + b'{"n":1,"do":{"op":"send_message","to":"bob","body":"\xff\xfe"}}\n', "bad_frame"),
        (HELLO + b"[1,2,3]\n", "bad_frame"),
        (HELLO + b'{"do":{"op":"heartbeat"}}\n', "bad_frame"),
        (HELLO + b'{"n":-1,"do":{"op":"heartbeat"}}\n', "bad_frame"),
        (HELLO + b'{"n":1e300,"do":{"op":"heartbeat"}}\n', "bad_frame"),
        (HELLO + b"[" * 500_000 + b"\n", "bad_frame"),
        (HELLO + b"x" * ((1 << 20) + 1), "frame_too_large"),
        (b"x" * ((1 << 20) + 1), "frame_too_large"),
    ],
)
async def test_what_is_no_frame_is_refused_by_its_code_and_ends_the_connection(
    healthy: None, raw: OpenRaw, data: bytes, code: str
) -> None:
    connection = await raw(greet=False)
    with suppress(ConnectionError):  # the broker may hang up before it has read all
        await connection.write(data)
    assert await refusal(connection) == code


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"op": "no_such_thing"}, "unknown_operation"),
        ({"op": "list_agent"}, "unknown_operation"),
        ({}, "bad_request"),
        ({"op": "send_message", "to": "bob"}, "bad_request"),
        ({"op": "send_message", "to": 7, "body": "x"}, "bad_request"),
        ({"op": "send_message", "to": "bob", "body": "x", "from": "alice"}, "bad_request"),
        ({"op": "send_message", "to": "bob", "body": "x", "mode": "shout"}, "bad_request"),
        ({"op": "send_message", "to": "no name at all!", "body": "x"}, "address_invalid"),
        ({"op": "send_message", "to": [], "body": "x"}, "address_invalid"),
        ({"op": "send_message", "to": "bob", "body": "x" * 65_537}, "body_too_large"),
        ({"op": "send_message", "to": "bob", "body": "é" * 32_769}, "body_too_large"),
        ({"op": "send_message", "to": "bob", "body": "x", "context": "x" * 20_000}, "body_too_large"),
        ({"op": "send_message", "to": "bob", "body": "x", "ttl_s": -1}, "bad_request"),
        ({"op": "send_message", "to": "bob", "body": "x", "key": "no-key!"}, "bad_request"),
        ({"op": "send_message", "to": ["bob"] * 257, "body": "x"}, "limit_exceeded"),
        ({"op": "send_message", "to": "bob", "body": "x", "re": "m" * 65}, "limit_exceeded"),
        ({"op": "claim_messages", "ids": ["m1"] * 1_001}, "limit_exceeded"),
        ({"op": "confirm_messages", "ids": ["nothing"]}, "unknown_message"),
        ({"op": "message_status", "id": "mzzzz"}, "unknown_message"),
        ({"op": "get_agent", "name": "bobb"}, "unknown_agent"),
        ({"op": "peek_messages", "limit": 201}, "limit_exceeded"),
        ({"op": "subscribe", "topic": "no topic!"}, "address_invalid"),
        ({"op": "update_agent", "name": "broadcast"}, "name_invalid"),
        ({"op": "update_agent", "name": "n" * 65}, "name_invalid"),
        ({"op": "update_agent", "capabilities": ["c"] * 67}, "limit_exceeded"),
        ({"op": "update_agent", "capabilities": ["c" * 129]}, "limit_exceeded"),
        ({"op": "update_agent", "metadata": {"x": "y" * 9_000}}, "limit_exceeded"),
        ({"op": "register_agent", "name": "again", "session": "x"}, "conflict"),
        ({"op": "stop_broker"}, "forbidden"),
    ],
)
async def test_a_bad_call_is_refused_by_its_code_with_advice_and_the_connection_goes_on(
    healthy: None, raw: OpenRaw, call: dict[str, object], code: str
) -> None:
    connection = await raw("carol")
    await connection.write(json.dumps({"n": 77, "do": call}).encode() + b"\n")
    frame = await connection.frame()
    assert (frame["n"], frame["error"]["code"]) == (77, code)
    assert frame["error"]["message"]
    assert frame["error"]["advice"]
    assert "ok" in await connection.call("heartbeat")


@pytest.mark.requirement("SEC-3")
async def test_random_bytes_harm_nobody(healthy: None, raw: OpenRaw) -> None:
    dice = random.Random(3)
    for number in range(100):
        connection = await raw(greet=False)
        start = HELLO if number % 2 else b""
        with suppress(ConnectionError):
            await connection.write(start + dice.randbytes(dice.randint(1, 5_000)) + b"\n")
        with suppress(ConnectionError):
            assert await refusal(connection) in ("greeting_missing", "bad_frame")


@pytest.mark.requirement("SEC-3")
async def test_a_line_in_many_pieces_is_one_call(healthy: None, raw: OpenRaw) -> None:
    connection = await raw()
    line = b'{"n":5,"do":{"op":"list_agents"}}\n'
    for place in range(len(line)):
        await connection.write(line[place : place + 1])
    assert [agent["name"] for agent in (await connection.frame())["ok"]["agents"]] == ["alice", "bob"]


@pytest.mark.requirement("SEC-3")
async def test_a_connection_that_ends_in_the_middle_of_a_line_leaves_nothing(
    healthy: None, home: Home, raw: OpenRaw
) -> None:
    for _ in range(20):
        connection = await raw("half")
        await connection.write(b'{"n":9,"do":{"op":"send_message","to":"bob","body":"never fin')
        await connection.close()
    await until(lambda: home.status()["connections"] <= 3)


@pytest.mark.requirement("SEC-3")
async def test_a_connection_that_never_greets_is_closed_after_the_greeting_time(
    home: Home, raw: OpenRaw
) -> None:
    home.up(greeting_s=0.3, beat_s=0.05)
    connection = await raw(greet=False)
    await connection.write(b'{"tellwire":')
    assert await refusal(connection) == "greeting_missing"


@pytest.mark.requirement("SEC-3")
async def test_refused_calls_behind_accepted_ones_do_not_stall_a_connection(
    healthy: None, raw: OpenRaw
) -> None:
    connection = await raw("carol")
    accepted = [{"op": "subscribe", "topic": f"t{number}"} for number in range(100)]
    refused = [{"op": "nonsense"}] * 300
    calls = list(enumerate([*accepted, *refused], 1000))
    await connection.write(b"".join(json.dumps({"n": n, "do": do}).encode() + b"\n" for n, do in calls))
    answered = {(await connection.frame())["n"] for _ in calls}
    assert answered == {n for n, _ in calls}


@pytest.mark.requirement("SEC-3")
async def test_replies_come_in_the_order_of_the_calls(healthy: None, raw: OpenRaw) -> None:
    connection = await raw("carol")
    calls = [{"op": "subscribe", "topic": "t"}, {"op": "nonsense"}, {"op": "list_agents"}] * 30
    lines = [json.dumps({"n": n, "do": do}).encode() + b"\n" for n, do in enumerate(calls, 1000)]
    await connection.write(b"".join(lines))
    assert [(await connection.frame())["n"] for _ in calls] == list(range(1000, 1000 + len(calls)))


@pytest.mark.requirement("SEC-3")
async def test_one_connection_too_many_is_refused_and_the_others_go_on(home: Home, raw: OpenRaw) -> None:
    home.up(connections_max=3)
    opened = [await raw(f"agent-{number}") for number in range(3)]
    crowd = await raw(greet=False)
    assert await refusal(crowd) == "too_many_connections"
    assert (await opened[0].call("send_message", to="agent-1", body="x"))["ok"]["status"] == "received"
    await opened[2].close()
    assert (await (await until_admitted(raw)).call("list_agents"))["ok"]


async def until_admitted(raw: OpenRaw) -> Raw:
    """The broker notices in its own time that a connection is gone."""

    async def attempt() -> Raw | None:
        with suppress(ConnectionError, AssertionError, KeyError):
            return await raw()
        return None

    found = await until(attempt)
    assert found is not None
    return found
