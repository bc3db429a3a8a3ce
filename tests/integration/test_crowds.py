"""Crowds before the doors: strangers cost little, nobody else waits for them, and the log says so once."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tellwire.daemon import Times
from tellwire.install.endpoint import HookEndpoint
from tellwire.sessions.doors.hook_http import HttpTimes
from tellwire.sessions.doors.http_listener import STRANGERS_MAX
from tellwire.wiring import SessionTimes
from tests.integration.leave import served
from tests.integration.test_hook_doors import post
from tests.integration.world import (
    ROOT,
    WITHIN_S,
    Home,
    OpenRaw,
    open_files,
    pass_time,
    rss_bytes,
    tellwire_command,
    until,
)

STRANGERS = 600
GROWTH_BYTES_MAX = 20 << 20
SESSIONS = 150
KEPT_BYTES_MAX = 60 << 20
"""Of what sessions have told, 16 MiB; of a broker that is busy with large payloads, the rest."""
FEW_DESCRIPTORS = 128
MEGABYTE = b"x" * (1 << 20)


def head(endpoint: HookEndpoint, token: str = "", size: int = 1 << 20) -> bytes:
    """The head of a request, with any token."""
    lines = [
        "POST /hooks/codex HTTP/1.1",
        f"Host: 127.0.0.1:{endpoint.port}",
        f"Content-Length: {size}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


ATTACKS: dict[str, Callable[[HookEndpoint], bytes]] = {
    "no-token": lambda endpoint: head(endpoint) + MEGABYTE,
    "wrong-token": lambda endpoint: head(endpoint, "0" * 64) + MEGABYTE,
    "endless-head": lambda endpoint: b"POST /hooks/codex HTTP/1.1\r\nX: " + MEGABYTE,
    "half-a-head": lambda endpoint: head(endpoint)[:40],
    "nothing": lambda endpoint: b"",
    "no-http": lambda endpoint: MEGABYTE,
}


class Crowd:
    """Strangers at the HTTP door; each of them says as much as is taken, and does not go by itself."""

    def __init__(self, endpoint: HookEndpoint, data: bytes) -> None:
        self._endpoint = endpoint
        self._data = data
        self._sockets: list[tuple[socket.socket, int]] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each[0].close()

    def come(self, count: int) -> None:
        """So many more; what the kernel does not let in now is of no interest."""
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.connect(("127.0.0.1", self._endpoint.port))
            self._sockets.append((sock, 0))

    def push(self) -> int:
        """Have each of them say more; how many are still in."""
        kept: list[tuple[socket.socket, int]] = []
        for sock, said in self._sockets:
            try:
                with suppress(BlockingIOError):
                    if sock.recv(1 << 16) == b"":
                        raise ConnectionResetError
                with suppress(BlockingIOError):
                    while said < len(self._data):
                        said += sock.send(self._data[said : said + (1 << 18)])
            except OSError:
                sock.close()
            else:
                kept.append((sock, said))
        self._sockets = kept
        return len(kept)


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Enough of them for the crowd, which is in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def up_with_few_descriptors(home: Home) -> None:
    """Start a broker that has hardly any."""
    command = " ".join(tellwire_command("up", "--detach"))
    words = ["sh", "-c", f"ulimit -n {FEW_DESCRIPTORS} && exec {command}"]
    await asyncio.to_thread(
        subprocess.run, words, env=home.environment(), cwd=ROOT, check=True, timeout=WITHIN_S
    )


async def listing(home: Home) -> float:
    """How long `tellwire list` takes."""
    began = time.monotonic()
    done = await asyncio.to_thread(home.tellwire, "list", "--json")
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


@pytest.mark.requirement("SEC-3")
@pytest.mark.requirement("SEC-4", stage="clients")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_six_hundred_strangers_cost_little_and_nobody_waits_for_them(home: Home, attack: str) -> None:
    home.up()
    endpoint = await served(home)
    assert (await post(endpoint, b"{}"))[0] == 200
    await listing(home)
    before = rss_bytes(home.pid)
    with Crowd(endpoint, ATTACKS[attack](endpoint)) as crowd:
        most = 0
        for _ in range(20):
            crowd.come(STRANGERS // 20)
            crowd.push()
            most = max(most, rss_bytes(home.pid))
            assert (await post(endpoint, b"{}"))[0] == 200, "one with the token is served in between"
        held = [await listing(home) for _ in range(3)]
        most = max(most, rss_bytes(home.pid))
        assert most - before < GROWTH_BYTES_MAX, f"{(most - before) >> 20} MB"
        assert min(held) < 10, held
        await until(lambda: crowd.push() == 0, what="every stranger gone")
    await until(lambda: "turned" in home.log, what="a word in the log")
    told = [line for line in home.log.splitlines() if "turned" in line]
    assert len(told) <= 2, told
    assert "Traceback" not in home.log
    print(f"{attack}: {(most - before) / (1 << 20):.1f} MB, list {[round(each, 2) for each in held]} s")


@pytest.mark.requirement("SEC-3")
async def test_with_few_descriptors_the_local_socket_keeps_its_share(home: Home) -> None:
    await up_with_few_descriptors(home)
    endpoint = await served(home)
    with Crowd(endpoint, b"") as crowd:
        for _ in range(10):
            crowd.come(STRANGERS // 10)
            crowd.push()
            await listing(home)
            assert len(open_files(home.pid)) < FEW_DESCRIPTORS * 2 // 3
        assert (await post(endpoint, b"{}"))[0] == 200
    assert "Traceback" not in home.log


@pytest.mark.requirement("SEC-3")
async def test_a_client_with_the_token_that_stops_in_mid_request_is_closed(home: Home) -> None:
    times = HttpTimes(head_s=0.5, body_s=0.5)
    home.up(Times(sessions=SessionTimes(endpoint_s=0.05, http=times)), beat_s=0.05)
    endpoint = await served(home)
    for words in (head(endpoint, endpoint.token), head(endpoint, endpoint.token) + b"{", b"POST /ho"):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(words)
        async with asyncio.timeout(WITHIN_S):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("sent", [0, 10])
async def test_a_hook_that_stops_in_the_middle_of_its_payload_is_closed(
    home: Home, raw: OpenRaw, sent: int
) -> None:
    home.up(greeting_s=0.3, beat_s=0.05)
    connection = await raw(greet=False)
    hello = {"tellwire": 1, "hook": {"version": 1, "client": "codex", "bytes": 100}}
    await connection.write(json.dumps(hello).encode() + b"\n" + b"x" * sent)
    assert await connection.frame() == {}, "closed without a word"


@pytest.mark.requirement("SEC-3")
async def test_a_client_that_greets_a_byte_at_a_time_is_closed_in_time(home: Home, raw: OpenRaw) -> None:
    home.up(greeting_s=0.5, beat_s=0.05)
    connection = await raw(greet=False)
    farewell = asyncio.create_task(connection.frame())

    async def trickle() -> bool:
        with suppress(ConnectionError):
            await connection.write(b" ")
        return farewell.done()

    await until(trickle, what="closed, however busy it looks")
    assert (await farewell)["error"]["code"] == "greeting_missing"


@pytest.mark.requirement("SEC-3")
async def test_what_comes_behind_a_hooks_payload_is_not_kept(home: Home, raw: OpenRaw) -> None:
    home.up()
    before = rss_bytes(home.pid)
    connection = await raw(greet=False)
    hello = {"tellwire": 1, "hook": {"version": 1, "client": "codex", "bytes": 2}}
    with suppress(ConnectionError):
        await connection.write(json.dumps(hello).encode() + b"\n{}" + MEGABYTE * 64)
    assert rss_bytes(home.pid) - before < GROWTH_BYTES_MAX


@pytest.mark.requirement("SEC-3")
async def test_the_long_prompts_of_many_sessions_are_not_kept(home: Home) -> None:
    home.up()
    endpoint = await served(home)
    before = rss_bytes(home.pid)
    for number in range(SESSIONS):
        told = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": f"session-{number}",
            "cwd": "/",
            "transcript_path": "",
            "prompt": "x" * 1_000_000,
        }
        assert (await post(endpoint, json.dumps(told).encode()))[0] == 200
    assert rss_bytes(home.pid) - before < KEPT_BYTES_MAX


@pytest.mark.requirement("SEC-3")
async def test_only_a_few_strangers_are_in_at_a_time(home: Home) -> None:
    home.up()
    endpoint = await served(home)
    before = len(open_files(home.pid))
    with Crowd(endpoint, b"") as crowd:
        crowd.come(100)
        assert (await post(endpoint, b"{}"))[0] == 200
        assert len(open_files(home.pid)) - before <= STRANGERS_MAX + 4


@pytest.mark.requirement("SEC-3")
async def test_clients_with_the_token_leave_descriptors_for_the_local_socket(home: Home) -> None:
    await up_with_few_descriptors(home)
    endpoint = await served(home)
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writers.append(writer)
            with suppress(ConnectionError):
                writer.write(head(endpoint, endpoint.token, size=2) + b"{}")
                await reader.read(1)  # it is answered, and stays; or is closed
        assert len(open_files(home.pid)) < FEW_DESCRIPTORS * 2 // 3
        await listing(home)
    finally:
        for writer in writers:
            writer.close()


@pytest.mark.requirement("SEC-3")
async def test_of_a_body_that_is_too_long_only_the_beginning_is_kept(home: Home) -> None:
    home.up()
    endpoint = await served(home)
    before = rss_bytes(home.pid)
    _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.transport.set_write_buffer_limits(0)
    with suppress(ConnectionError):
        writer.write(head(endpoint, endpoint.token, size=1 << 30) + MEGABYTE * 48)
        await writer.drain()
    assert rss_bytes(home.pid) - before < GROWTH_BYTES_MAX
    writer.close()


async def answer(sock: socket.socket) -> bytes:
    """The next answer on a connection; empty if it was closed instead."""
    async with asyncio.timeout(WITHIN_S):
        return await asyncio.get_running_loop().sock_recv(sock, 1 << 16)


def connected(endpoint: HookEndpoint) -> socket.socket:
    """A connection that a test reads and writes as it likes."""
    sock = socket.create_connection(("127.0.0.1", endpoint.port))
    sock.setblocking(False)
    return sock


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("times", "stays"), [(HttpTimes(idle_s=0.2), False), (HttpTimes(head_s=0.2, body_s=0.2), True)]
)
async def test_a_client_that_asks_nothing_more_is_closed_and_not_before_its_time(
    home: Home, times: HttpTimes, stays: bool
) -> None:
    request = b"{}"
    home.up(Times(sessions=SessionTimes(endpoint_s=0.05, http=times)), beat_s=0.05)
    endpoint = await served(home)
    with connected(endpoint) as sock:
        sock.sendall(head(endpoint, endpoint.token, size=len(request)) + request)
        assert (await answer(sock)).startswith(b"HTTP/1.1 200")
        if stays:
            await pass_time(0.6)
            sock.sendall(head(endpoint, endpoint.token, size=len(request)) + request)
            assert (await answer(sock)).startswith(b"HTTP/1.1 200"), "closed as if it had begun a request"
        else:
            assert await answer(sock) == b"", "closed without a word"


@pytest.mark.requirement("SEC-3")
async def test_what_a_client_says_while_it_is_served_waits_in_its_own_buffers(home: Home) -> None:
    home.up()
    endpoint = await served(home)
    me = json.dumps({"pid": os.getpid()}).encode()
    poll = head(endpoint, endpoint.token, size=len(me)).replace(b"/hooks/codex", b"/wait/nobody") + me
    rest = memoryview(head(endpoint, endpoint.token, size=64 << 20) + MEGABYTE * 64)
    with connected(endpoint) as sock, connected(endpoint) as second:
        sock.sendall(poll)

        def push(said: int) -> int:
            with suppress(BlockingIOError):
                while said < len(rest):
                    said += sock.send(rest[said : said + (1 << 18)])
            return said

        said = still = 0
        while still < 10:
            assert (await post(endpoint, b"{}"))[0] == 200, "it has had the time to read on"
            before, said = said, push(said)
            still = still + 1 if said == before else 0
            assert said < 32 << 20, "it is read though nobody asked for it yet"
        second.sendall(poll)  # the next poll of a client ends the one before
        assert (await answer(sock)).startswith(b"HTTP/1.1 200")

        def all_said() -> bool:
            nonlocal said
            said = push(said)
            return said == len(rest)

        await until(all_said, what="the rest read")
        assert (await answer(sock)).startswith(b"HTTP/1.1 200")
    assert "Traceback" not in home.log
