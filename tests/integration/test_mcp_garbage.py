"""Whatever a client or a shim says: a clear answer or a closed connection, and the others never notice."""

import asyncio
import itertools
import json
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.mcp_world import ERAS, META, MODERN, SHIM, Shim, Shims, code_of, open_shims, own_home
from tests.integration.world import WITHIN_S, Home, Raw

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR = -32603
LINES = 10_000
NUMBERS = itertools.count(1)
SOON_S = 5.0
INSTANCE = "0123456789abcdef"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with own_home() as here:
        yield here


@pytest.fixture
async def shims(home: Home) -> AsyncIterator[Shims]:
    async with open_shims(home) as opened:
        yield opened


@pytest.fixture
async def healthy(home: Home, shims: Shims) -> AsyncIterator[None]:
    """A pair that must be able to talk before and after."""
    number = next(NUMBERS)
    alice, bob = await shims.open(f"alice{number}"), await shims.open(f"bob{number}")
    pid = home.pid

    async def talk(body: str) -> None:
        sent = await alice.send(bob, body)
        assert (await bob.call("get_messages", {"wait_s": 5})).ids == [sent]

    await talk("before")
    yield
    await talk("after")
    assert home.pid == pid, "the broker died"
    assert "Traceback" not in home.log, home.log


async def nobody(shims: Shims) -> Shim:
    """A session that says nothing but what the test wants."""
    return await shims.open(f"carol{next(NUMBERS)}")


NO_JSON = [
    (b"hello", None),
    (b"{", None),
    (b'{"jsonrpc":"2.0","id":700,"method":"ping"', 700),
    (b'{"jsonrpc":"2.0","id":701,"method":"ping"}}', 701),
    (b"\xff\xfe\xfd", None),
    (b'{"jsonrpc":"2.0","id":702,"method":"ping","params":{"x":"\xff\xfe"}}', 702),
    (b'{"jsonrpc":"2.0","method":"ping","params":{"x":"\xff\xfe","id":1},"id":703}', 703),
    (b"\x00", None),
    (b'{"jsonrpc":"2.0","id":704,"method":"ping"}\x00', 704),
    (b"[" * 100_000, None),
    (b'{"a":' * 100_000, None),
    (
        b'{"jsonrpc":"2.0","method":"ping","params":'
        + b'{"id":' * 100_000
        + b"1"
        + b"}" * 100_000
        + b',"id":"deep"}',
        "deep",
    ),
    (b'{"jsonrpc":"2.0","method":"ping","params":{"x":' + b"[" * 400 + b"]" * 400 + b'},"id":705}', 705),
    (b"NaN", None),
    (b'{"jsonrpc":"2.0","id":706,"method":"ping","params":{"x":"\\ud800"}}', 706),
    (b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}', "\ud83d"),
    (b'{"jsonrpc":"2.0","method":"ping","id":707,}', 707),
    (b'{"jsonrpc":"2.0","method":"ping","params":{"x":NaN},"id":708.5}', 708.5),
]
ENDS = [
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"' + b"i" * 2_000 + b'","method":7}',
    b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}',
    b'{"jsonrpc":"2.0","id":05,"method":"ping"}',
    b"[" + b",".join(b'{"id":%d,"method":"ping"}' % number for number in range(1_001)) + b"]",
    b'{"jsonrpc":"2.0","method":"ping","params":{"x":"' + b"x" * (1 << 21) + b'"},"id":"\xff"}',
]
NO_JSON_RPC = [
    (b"{}", None),
    (b"null", None),
    (b"42", None),
    (b'"text"', None),
    (b"[]", None),
    (b"[" * 500 + b"]" * 500, None),
    (b'{"jsonrpc":"1.0","id":801,"method":"ping"}', 801),
    (b'{"id":802,"method":"ping"}', 802),
    (b'{"jsonrpc":"2.0","id":803,"method":7}', 803),
    (b'{"jsonrpc":"2.0","method":7,"params":{"id":4},"id":"eight"}', "eight"),
    (b'{"jsonrpc":"2.0","id":804,"method":"ping","params":[1,2]}', 804),
    (b'{"jsonrpc":"2.0","id":805}', 805),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5),
    (b'{"jsonrpc":"2.0","id":-1.5e3,"method":"ping"}', -1500.0),
    (b'{"jsonrpc":"2.0","id":false,"method":"ping"}', False),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":806,"method":"ping","id":807.5}', 807.5),
    (b'{"jsonrpc":"2.0","method":7,"\\u0069d":808}', 808),
]


@pytest.mark.requirement("SEC-3")
async def test_what_is_no_json_is_answered_with_a_parse_error_and_its_id(healthy: None, shims: Shims) -> None:
    shim = await nobody(shims)
    for line, asked in NO_JSON:
        before = len(shim.answers[asked])
        await shim.write(line + b"\n")
        answer = await shim.arrival(asked, count=before + 1)
        assert code_of(answer) in (PARSE_ERROR, INVALID_REQUEST), line[:60]
    assert not (await shim.call("list_peers")).failed


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("line", ENDS, ids=range(len(ENDS)))
async def test_an_id_that_cannot_be_said_again_ends_the_connection_with_a_reason(
    healthy: None, shims: Shims, line: bytes
) -> None:
    shim = await nobody(shims)
    await shim.write(line + b"\n")
    assert await shim.ended(within_s=WITHIN_S) == 0
    said = [
        answer["error"]["message"]
        for answers in shim.answers.values()
        for answer in answers
        if "error" in answer
    ]
    assert "the connection ends" in said[-1]


@pytest.mark.requirement("SEC-3")
async def test_an_id_that_is_an_object_is_said_again_as_it_is(healthy: None, home: Home) -> None:
    asked = {"a": [1, {"id": 2}]}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", SHIM),
        env=home.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(WITHIN_S):
        said, _ = await process.communicate(
            json.dumps({"jsonrpc": "2.0", "id": asked, "method": "ping"}).encode()
        )
    answer = json.loads(said)
    assert (answer["id"], code_of(answer)) == (asked, INVALID_REQUEST)


LONG = b"x" * (1 << 21)


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (b'{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"x":"%b"}}', [900]),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"x":"%b","id":1},"id":901}', [901]),
        (b'{"params":{"x":"%b","id":1},"id":"902","jsonrpc":"2.0","method":"tools/call"}', ["902"]),
        (b'{"a":"%b","id":903,"b":"%b","method":"ping"}', [903]),
        (b'{"a":"%b\\","id":1,\\"%b","id":904}', [904]),
        (b'{"id":905,"a":"%b', [905]),
        (b'[{"id":906,"a":"%b"},{"a":["%b"],"id":907}]', [906, 907]),
        (b'{"method":"ping","params":{"x":"%b"}}', [None]),
    ],
    ids=range(8),
)
async def test_a_line_beyond_the_bound_is_refused_by_its_id_wherever_that_is(
    healthy: None, shims: Shims, line: bytes, asked: list[Any]
) -> None:
    shim = await nobody(shims)
    await shim.write(line.replace(b"%b", LONG) + b"\n")
    for each in asked:
        assert code_of(await shim.arrival(each)) == INVALID_REQUEST
    assert not (await shim.call("list_peers")).failed


async def test_what_is_no_json_rpc_is_answered_by_its_id_where_it_has_one(
    healthy: None, shims: Shims
) -> None:
    shim = await nobody(shims)
    for line, asked in NO_JSON_RPC:
        before = len(shim.answers[asked])
        await shim.write(line + b"\n")
        answer = await shim.arrival(asked, count=before + 1, within_s=SOON_S)
        assert code_of(answer) == INVALID_REQUEST, line[:60]
    assert not (await shim.call("list_peers")).failed


@pytest.mark.requirement("SEC-3")
async def test_a_batch_is_refused_by_each_of_its_ids(healthy: None, shims: Shims) -> None:
    shim = await nobody(shims)
    ping = {"jsonrpc": "2.0", "id": 70, "method": "ping"}
    await shim.write(
        json.dumps([ping, {**ping, "id": "71"}, {**ping, "params": {"id": 7}, "id": 72}]).encode() + b"\n"
    )
    for asked in (70, "71", 72):
        assert code_of(await shim.arrival(asked)) == INVALID_REQUEST
    assert not (await shim.call("list_peers")).failed
    assert None not in shim.answers


UNKNOWN_TOOLS: list[dict[str, Any]] = [
    {"name": "nope", "arguments": {}},
    {"name": "x" * 9_000},
    {"name": "peek_messages"},
]
BAD_PARAMS: list[dict[str, Any]] = [
    {},
    {"name": 7},
    {"name": "list_peers", "arguments": []},
    {"name": None},
]


@pytest.mark.parametrize("era", ERAS)
async def test_unknown_methods_and_tools_are_named_as_such(healthy: None, shims: Shims, era: str) -> None:
    shim = await shims.open(f"carol{next(NUMBERS)}", era=era)
    for method in ("no/such", "resources/list", "tools/calls", "", "x" * 10_000):
        assert code_of(await shim.request(method)) == NO_METHOD
    for params in UNKNOWN_TOOLS:
        answer = await shim.request("tools/call", params)
        assert (code_of(answer), len(answer["error"]["message"]) < 300) == (INVALID_PARAMS, True)
    for params in BAD_PARAMS:
        assert code_of(await shim.request("tools/call", params)) == INVALID_PARAMS
    await shim.notify("notifications/no_such_thing")
    await shim.notify("notifications/cancelled", {"requestId": 12345})
    await shim.notify("notifications/cancelled", {"requestId": {"a": 1}})
    assert not (await shim.call("list_peers")).failed


BAD_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("agent_send", {"body": "x"}, "to"),
    ("agent_send", {"to": "bob"}, "body"),
    ("agent_send", {"to": 7, "body": "x"}, "to"),
    ("agent_send", {"to": "bob", "body": "x", "too": 1}, "too"),
    ("agent_send", {"to": "bob", "body": "x", "from": "alice"}, "from"),
    ("agent_send", {"to": "bob", "body": "x", "key": "mine"}, "key"),
    ("agent_send", {"to": "bob", "body": "x", "mode": "shout"}, "mode"),
    ("agent_send", {"to": "bob", "body": "x", "ttl_s": "soon"}, "ttl_s"),
    ("agent_send", {"to": "bob", "body": "x", "re": 5}, "re"),
    ("agent_send", {"to": "no name at all!", "body": "x"}, "no name at all!"),
    ("get_messages", {"call": "12"}, "call"),
    ("get_messages", {"wait_s": "long"}, "wait_s"),
    ("get_messages", {"wait_s": 1e9}, "wait_s"),
    ("get_messages", {"id": "m999"}, "m999"),
    ("get_messages", {"id": 5}, "id"),
    ("get_messages", {"offset": "x"}, "offset"),
    ("message_status", {}, "id"),
    ("message_status", {"id": "nothing"}, "nothing"),
    ("announce", {"capabilities": "rust"}, "capabilities"),
    ("announce", {"name": "no name at all!"}, "no name at all!"),
    ("announce", {"metadata": []}, "metadata"),
    ("subscribe", {}, "topic"),
    ("subscribe", {"topic": "no topic!"}, "topic"),
    ("list_peers", {"all": "yes"}, "all"),
    ("list_peers", {"x" * 5_000: 1}, "xxx"),
]


async def test_bad_arguments_are_results_that_name_the_argument(healthy: None, shims: Shims) -> None:
    shim = await nobody(shims)
    for tool, arguments, word in BAD_CALLS:
        result = await shim.call(tool, arguments)
        assert (result.failed, word in result.text) == (True, True), f"{tool} {arguments}: {result.text}"
        assert result.data["error"]["code"]
        assert len(result.text) < 600
    assert not (await shim.call("list_peers")).failed


async def test_an_oversize_body_and_too_deep_a_context_are_results_too(healthy: None, shims: Shims) -> None:
    shim = await nobody(shims)
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"x": deep}
    for fields, code in (
        ({"body": "x" * 65_537}, "body_too_large"),
        ({"body": "é" * 32_769}, "body_too_large"),
        ({"body": "x", "context": {"x": "y" * 20_000}}, "body_too_large"),
        ({"body": "x", "context": deep}, "limit_exceeded"),
    ):
        result = await shim.call("agent_send", {"to": "bob", **fields})
        assert (result.failed, result.data["error"]["code"]) == (True, code)
    assert "No messages" in (await shim.call("get_messages")).text


async def test_a_call_before_the_handshake_is_refused_and_the_handshake_still_works(
    healthy: None, shims: Shims
) -> None:
    shim = await shims.start(f"carol{next(NUMBERS)}")
    answer = await shim.request("tools/call", {"name": "list_peers", "arguments": {}})
    assert code_of(answer) in (INVALID_REQUEST, INVALID_PARAMS)
    await shim.open()
    assert f"You are {shim.name}" in (await shim.call("list_peers")).text


async def test_requests_with_one_id_are_each_answered(healthy: None, shims: Shims) -> None:
    shim = await nobody(shims)
    call = {"name": "get_messages", "arguments": {"wait_s": 1}}
    line = json.dumps({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": call}).encode()
    await shim.write(line + b"\n" + line + b"\n")
    await shim.arrival("same", count=2)
    assert not (await shim.call("list_peers")).failed
    shim.close()
    assert await shim.ended(within_s=4) == 0, "no line is left open"


async def test_ten_thousand_lines_of_garbage_get_ten_thousand_answers(healthy: None, shims: Shims) -> None:
    dice = random.Random(5)
    shim = await shims.start(f"carol{next(NUMBERS)}")  # they may come before there is anybody to read them
    lines = [dice.randbytes(dice.randint(1, 60)).replace(b"\n", b"x") + b"." for _ in range(LINES)]
    shim.begin(b"\n".join(lines) + b"\n")
    await shim.arrival(None, count=LINES)
    assert {code_of(answer) for answer in shim.answers[None]} <= {PARSE_ERROR, INVALID_REQUEST}
    await shim.open()
    assert not (await shim.call("list_peers")).failed
    assert len(shim.answers[None]) == LINES


async def test_a_modern_request_without_its_envelope_is_refused_and_the_session_goes_on(
    healthy: None, shims: Shims
) -> None:
    shim = await shims.open(f"carol{next(NUMBERS)}", era=MODERN)
    metas: list[Any] = [None, {}, [], {f"{META}/protocolVersion": "1999-01-01"}]
    for meta in metas:
        params: dict[str, Any] = {"name": "list_peers", "arguments": {}, "_meta": meta}
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": f"meta {meta}",
            "method": "tools/call",
            "params": params,
        }
        await shim.write(json.dumps(message).encode() + b"\n")
        assert "error" in await shim.arrival(f"meta {meta}")
    assert f"You are {shim.name}" in (await shim.call("list_peers")).text


# -- on the socket ------------------------------------------------------------------------------------


def greeting(**facts: Any) -> bytes:
    """What a shim says first."""
    shim = {"version": 1, "instance": INSTANCE, **facts}
    return json.dumps({"tellwire": 1, "program": "mcp shim", "shim": shim}).encode() + b"\n"


BAD_SHIMS = [
    greeting(version=2),
    greeting(version="one"),
    greeting(instance=""),
    greeting(instance=7),
    greeting(open="all"),
    greeting(open=[-1, "x"]),
    greeting(name=["x"]),
    b'{"tellwire":1,"shim":7}\n',
    greeting() + b"garbage\n",
    greeting() + b"\n",
    greeting() + b'{"n":1,"do":{"op":"heartbeat"}}\n',
    greeting() + b"1 zz - {}\n",
    greeting() + b"1 0 - " + b"x" * (2 << 20),
    greeting() + b"\xff\x00\xfe" * 1_000 + b"\n",
]


async def rest(raw: Raw) -> bytes:
    """All that the broker says until it hangs up."""
    said = b""
    async with asyncio.timeout(WITHIN_S):
        with suppress(ConnectionError):
            while data := await raw.reader.read(1 << 16):
                said += data
    return said


async def test_a_shim_that_speaks_nonsense_is_hung_up_on(home: Home, healthy: None) -> None:
    for data in BAD_SHIMS:
        raw = await Raw.open(home, greet=False)
        with suppress(ConnectionError):
            await raw.write(data)
        said = await rest(raw)
        assert len(said) < 1_000, data[:80]
        await raw.close()


async def test_a_session_with_a_name_that_cannot_be_gets_another_and_is_told_so(
    healthy: None, shims: Shims
) -> None:
    for name in ("no name!", "broadcast"):
        shim = await shims.open(name)
        first, second = await shim.call("list_peers"), await shim.call("list_peers")
        assert (first.failed, f"{name!r}" in first.text) == (False, True), first.text
        assert name not in second.text
        assert first.data["you"] in shim.instructions


async def test_a_shim_with_an_unknown_dialect_or_set_of_tools_says_so(healthy: None, shims: Shims) -> None:
    for options in (["--dialect", "klingon"], ["--tools", "hammers"]):
        shim = await shims.start(f"carol{next(NUMBERS)}", *options)
        answer = await shim.request("server/discover")
        assert code_of(answer) == INTERNAL_ERROR
        assert options[1] in answer["error"]["message"]
