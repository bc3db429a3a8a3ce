"""Tries cases on a real broker, and says what it did wrong.

What must hold: the broker lives and answers a listing, no traceback is in its log, its memory is bounded,
every call and every MCP request with an id is answered or the connection ends, and no connection is left
hanging.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from tellwire.install.endpoint import HookEndpoint
from tellwire.relay.ids import IDS_MAX, find_ids, is_answerable
from tests.integration.world import WITHIN_S, Home, rss_bytes

LINE_BYTES_MAX = 64 << 20
GROWTH_BYTES_MAX = 128 << 20
"""Of a broker that has thousands of fuzzed agents and messages, and may have loaded the MCP SDK (45 MB)."""
LAST = 2**53 - 7
HELLO = b'{"tellwire":1,"program":"fuzz"}\n'
OPENING = [
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
]


class FaultError(Exception):
    """Something that must hold does not."""


class Doors:
    """The doors of one broker."""

    def __init__(self, home: Home, endpoint: HookEndpoint) -> None:
        self._home = home
        self._endpoint = endpoint
        self._pid = home.pid
        self._rss = rss_bytes(home.pid)
        self._log = 0
        self._numbers = itertools.count(1)
        self.most = 0
        """How much larger the broker was at most."""
        self.tries: dict[str, Callable[[bytes], Coroutine[Any, Any, None]]] = {
            "frames": self.frames,
            "hooks": self.hooks,
            "http": self.http,
            "mcp": self.mcp,
        }

    async def attempt(self, door: str, case: bytes) -> None:
        """Try one case.

        Raises:
            FaultError: what came of it must not be.
        """
        try:
            async with asyncio.timeout(WITHIN_S):
                await self.tries[door](case)
        except TimeoutError:
            raise FaultError("a connection was left hanging") from None

    async def check(self) -> None:
        """See that the broker is well.

        Raises:
            FaultError: it is not.
        """
        answered = await self._lines(HELLO + b'{"n":1,"do":{"op":"list_agents"}}\n', 2)
        if len(answered) != 2 or "ok" not in json.loads(answered[1]) or self._home.pid != self._pid:
            raise FaultError("the broker does not answer a listing")
        text = self._home.log
        if "Traceback" in text:
            raise FaultError(f"a traceback is in the log:\n{text[text.index('Traceback') - 200 :][:3_000]}")
        self.most = max(self.most, rss_bytes(self._pid) - self._rss)
        if self.most > GROWTH_BYTES_MAX:
            raise FaultError(f"the broker grew by {self.most >> 20} MB")

    # -- one door each --------------------------------------------------------------------------------

    async def frames(self, case: bytes) -> None:
        """Lines behind a greeting: calls are answered in order, or the connection ends with a reason."""
        lines = [line for line in case.split(b"\n") if line]
        calls = [n for line in lines if (n := _call_number(line)) is not None]
        last = b'\n{"n":%d,"do":{"op":"heartbeat"}}\n' % LAST
        reader, writer = await self._open()
        seen: list[int] = []
        try:
            writer.write(HELLO + case + last)
            while LAST not in seen and (line := await _line(reader)):
                frame = json.loads(line)
                seen += [frame["n"]] if "n" in frame else []
        finally:
            writer.transport.abort()
        if (
            LAST in seen
            and 0 not in seen
            and [n for n in seen if n != LAST] != [n for n in calls if n != LAST]
        ):
            raise FaultError(f"of the calls {calls} these were answered: {seen}")
        if LAST not in seen and 0 not in seen[-1:]:
            raise FaultError("the connection ended without a reason")

    async def hooks(self, case: bytes) -> None:
        """A payload: an answer or none, and the end."""
        client, _, payload = case.partition(b"\n")
        name = client.decode("ascii", "replace")[:60]
        facts = {"version": 1, "client": name, "bytes": len(payload), "cut": len(payload) % 5 == 0}
        hello = json.dumps({"tellwire": 1, "hook": facts}).encode() + b"\n"
        said = b"".join(await self._lines(hello + payload, 1_000))
        if said and not isinstance(json.loads(said), dict):
            raise FaultError(f"a hook was told {said[:100]!r}")

    async def http(self, case: bytes) -> None:
        """A request: an answer, or the end."""
        endpoint = self._endpoint
        data = case.replace(b"@PORT@", b"%d" % endpoint.port).replace(b"@TOKEN@", endpoint.token.encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=LINE_BYTES_MAX)
        try:
            writer.write(data)
            said = await _line(reader)
        finally:
            writer.transport.abort()
        if said and not said.startswith(b"HTTP/1.1 "):
            raise FaultError(f"a request was told {said[:100]!r}")

    async def mcp(self, case: bytes) -> None:
        """Lines of a client: each is dealt with, and each id that can be said is answered."""
        number = next(self._numbers)
        lines = [line for line in case.split(b"\n") if line.strip()]
        last = b'{"jsonrpc":"2.0","id":"the last","method":"ping"}'
        said = [*OPENING, *lines, last]
        hello = {
            "tellwire": 1,
            "shim": {"version": 1, "instance": f"fuzz-{number:08}", "name": f"f{number % 50}"},
        }
        numbered = [b"%d 1 - %b\n" % (place, line) for place, line in enumerate(said, 1)]
        reader, writer = await self._open()
        done: set[int] = set()
        answers: list[bytes] = []
        ended = False
        try:
            writer.write(json.dumps(hello).encode() + b"\n" + b"".join(numbered))
            if not (await _line(reader)).startswith(b"shim 1 "):
                raise FaultError("a shim was not welcome")
            while len(done) < len(said) and not ended and (line := await _line(reader)):
                head, flag, text = line.rstrip(b"\n").split(b" ", 2)
                done.add(int(head))
                done.discard(0)
                ended = flag == b"x"
                answers += [text] if text else []
        finally:
            writer.transport.abort()
        if not ended:
            _check_answers(said, done, answers)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self._home.settings.socket), limit=LINE_BYTES_MAX)

    async def _lines(self, data: bytes, count: int) -> list[bytes]:
        """What is said to some bytes, up to so many lines or the end."""
        reader, writer = await self._open()
        found: list[bytes] = []
        try:
            writer.write(data)
            while len(found) < count and (line := await _line(reader)):
                found.append(line)
        finally:
            writer.transport.abort()
        return found


async def _line(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.readline()
    return b""


def _call_number(line: bytes) -> int | None:
    """The number that a call is answered with; None if it is none, or answered by the end of it all."""
    try:
        call = json.loads(line)
    except (ValueError, RecursionError):
        return None
    n = cast("dict[str, Any]", call).get("n") if isinstance(call, dict) else None
    return n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else None


def _check_answers(said: list[bytes], done: set[int], answers: list[bytes]) -> None:
    if len(done) < len(said):
        raise FaultError(f"of {len(said)} lines only {sorted(done)} were dealt with")
    heard = [_key(told.get("id")) for told in map(json.loads, answers) if "method" not in told]
    cancelled = any(b"cancel" in line for line in said)
    for line in said:
        ids = find_ids(line)
        if cancelled or len(ids) > IDS_MAX or not all(map(is_answerable, ids)) or b'"method"' not in line:
            continue
        for raw in ids:
            if _key(json.loads(raw)) not in heard:
                raise FaultError(f"the id {raw[:80]!r} of {line[:200]!r} was not answered: {heard}")


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
