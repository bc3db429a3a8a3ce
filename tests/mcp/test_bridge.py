"""The bridge passes on what a stdio server says, and notes what a stdio server must not do."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.mcp.bridge import SESSION_HEADER, bridged
from tests.mcp.parrot import ODD

BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
WAIT_S = 10.0


class Http:
    """One HTTP session, a request at a time."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url
        self.headers = dict(BOTH)

    async def post(self, body: bytes | dict[str, Any], **headers: str) -> httpx2.Response:
        data = body if isinstance(body, bytes) else json.dumps({"jsonrpc": "2.0", **body}).encode()
        return await self.client.post(self.url, content=data, headers={**self.headers, **headers})

    async def initialize(self) -> None:
        answer = await self.post({"id": 0, "method": "initialize", "params": {}})
        assert answer.status_code == 200
        self.headers[SESSION_HEADER] = answer.headers[SESSION_HEADER]


@asynccontextmanager
async def speaking(url: str) -> AsyncGenerator[Http]:
    async with httpx2.AsyncClient(trust_env=False, timeout=WAIT_S) as client:
        yield Http(client, url)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_lines_pass_unchanged_in_both_directions(parrot_command: tuple[str, ...]) -> None:
    sent = b'{"method":"echo" , "jsonrpc" : "2.0","id":"\\u0061", "params":{"z":1,"a":1.50,"x":null}}'
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        answer = await http.post(sent)
    heard = json.dumps(sent.decode())
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == ODD % ('"a"', heard)
    assert not bridge.faults


async def test_every_session_has_a_process_that_ends_with_it(parrot_command: tuple[str, ...]) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as one, speaking(bridge.url) as two:
        await one.initialize()
        await two.initialize()
        answers = [await http.post({"id": 1, "method": "pid"}) for http in (one, two)]
        pids = [answer.json()["result"]["pid"] for answer in answers]
        assert pids == bridge.pids
        assert len(set(pids)) == 2
        deleted = await one.client.delete(bridge.url, headers=one.headers)
        assert deleted.status_code == 200
        assert [runs(pid) for pid in pids] == [False, True]
        assert (await one.post({"id": 2, "method": "pid"})).status_code == 404
    assert not any(runs(pid) for pid in pids)
    assert not bridge.faults


async def test_a_notification_is_accepted_and_not_answered(parrot_command: tuple[str, ...]) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        answer = await http.post({"method": "notifications/initialized"})
        assert (answer.status_code, answer.content) == (202, b"")
    assert not bridge.faults


async def test_an_answer_with_progress_is_a_stream(parrot_command: tuple[str, ...]) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        answer = await http.post({"id": 5, "method": "progress", "params": {"_meta": {"progressToken": "t"}}})
        assert answer.headers["content-type"].startswith("text/event-stream")
        data = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert [message.get("method", message.get("id")) for message in data] == ["notifications/progress", 5]
    assert not bridge.faults


async def test_what_the_server_says_unasked_comes_on_the_stream_of_the_session(
    parrot_command: tuple[str, ...],
) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        async with (
            asyncio.timeout(WAIT_S),
            http.client.stream("GET", bridge.url, headers=http.headers) as got,
        ):
            assert got.status_code == 200
            again = await http.client.get(bridge.url, headers=http.headers)
            assert again.status_code == 409
            await http.post({"id": 1, "method": "unasked"})
            lines = got.aiter_lines()
            assert await anext(lines) == "event: message"
            assert '"unasked"' in await anext(lines)
            await http.client.delete(bridge.url, headers=http.headers)
            assert [line async for line in lines] == [""]
    assert not bridge.faults


@pytest.mark.parametrize(
    ("method", "fault", "status"),
    [("noise", "not JSON", 200), ("die", "owes the answer", 502)],
)
async def test_what_a_server_must_not_do_is_noted(
    parrot_command: tuple[str, ...], method: str, fault: str, status: int
) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        assert (await http.post({"id": 1, "method": method})).status_code == status
        # A session whose server has gone is over.
        assert (await http.post({"id": 2, "method": "echo"})).status_code == (404 if status == 502 else 200)
    assert len(bridge.faults) == 1
    assert fault in bridge.faults[0]


async def test_a_server_that_outlives_its_input_is_ended_and_noted(parrot_command: tuple[str, ...]) -> None:
    async with bridged(parrot_command, end_s=0.2) as bridge, speaking(bridge.url) as http:
        await http.initialize()
        await http.post({"id": 1, "method": "stay"})
    assert [fault[:22] for fault in bridge.faults] == ["the server did not end"]
    assert not any(runs(pid) for pid in bridge.pids)


async def test_a_refused_handshake_makes_no_session(parrot_command: tuple[str, ...]) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        answer = await http.post({"id": 0, "method": "initialize", "params": {"refuse": True}})
        assert answer.json()["error"]["message"] == "refused"
        assert SESSION_HEADER not in answer.headers
        assert not any(runs(pid) for pid in bridge.pids)
    assert not bridge.faults


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"echo"}', {}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo"}', {SESSION_HEADER: "unknown"}, 404),
        (b'{"jsonrpc":"2.0","id":1,\n"method":"initialize"}', {}, 400),
        (b"[]", {}, 400),
        (b"{", {}, 400),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"accept": "application/json"}, 406),
        (b"{}", {"host": "evil.example"}, 403),
        (b"{}", {"origin": "http://evil.example"}, 403),
    ],
)
async def test_what_is_not_streamable_http_is_refused_and_starts_nothing(
    parrot_command: tuple[str, ...], body: bytes, headers: dict[str, str], status: int
) -> None:
    async with bridged(parrot_command) as bridge, speaking(bridge.url) as http:
        assert (await http.post(body, **headers)).status_code == status
        assert not bridge.pids
