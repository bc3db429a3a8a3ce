"""A broker that has not loaded the MCP SDK answers the first questions itself, as the SDK would."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mcp_world import META, MODERN, SHIM
from tests.integration.world import WITHIN_S, Home, until

INFO = {"name": "some-client", "version": "1"}
ENVELOPE = {
    f"{META}/protocolVersion": MODERN,
    f"{META}/clientInfo": INFO,
    f"{META}/clientCapabilities": {},
}


def request(number: int, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A request; without params there is no such field."""
    line: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    return line if params is None else {**line, "params": params}


def handshake(version: str) -> list[dict[str, Any]]:
    """How a session of the older eras begins."""
    return [
        request(1, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "ping"),
        request(3, "tools/list"),
        request(4, "tools/call", {"name": "nothing", "arguments": {}}),
    ]


OPENINGS = {
    "2025-06-18": handshake("2025-06-18"),
    "2025-11-25": handshake("2025-11-25"),
    "an unknown version": handshake("1999-01-01"),
    "2026-07-28": [
        request(1, "server/discover", {"_meta": ENVELOPE}),
        request(2, "tools/list", {"_meta": ENVELOPE}),
        request(3, "tools/call", {"_meta": ENVELOPE, "name": "nothing", "arguments": {}}),
    ],
    "without a handshake": [request(1, "tools/list"), request(2, "ping")],
    "a malformed handshake": [request(1, "initialize", {"protocolVersion": 7}), request(2, "ping")],
    "twice": [*handshake("2025-06-18")[:1], *handshake("2025-11-25")],
}


def converse(home: Home, lines: list[dict[str, Any]], *options: str) -> list[Any]:
    """All that a shim answers to these lines, by id. Its input stays open until all is answered."""
    expected = sum("id" in line for line in lines)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", SHIM, "--name=newcomer", *options],
        env=home.environment(),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        shim.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        shim.stdin.flush()
        said = [shim.stdout.readline() for _ in range(expected)]
        shim.stdin.close()
        said += shim.stdout.readlines()
        assert shim.wait(timeout=2 * WITHIN_S) == 0
    # each session has a word of its own
    answers = [json.loads(re.sub(r"…</\w{4}>", "…</word>", line)) for line in said]
    return sorted(answers, key=lambda answer: str(answer.get("id")))


@contextmanager
def broker(*, cold: bool = True) -> Generator[Home]:
    """A fresh broker in a home of its own; a cold one has not loaded the SDK."""
    home = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        home.up_without_sdk() if cold else home.up()
        yield home
    finally:
        home.end()
        shutil.rmtree(home.path, ignore_errors=True)


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_first_session_of_a_broker_hears_what_every_later_one_does(opening: str) -> None:
    lines = OPENINGS[opening]
    with broker() as cold:
        first = converse(cold, lines)
    with broker(cold=False) as warm:
        converse(warm, OPENINGS["2025-06-18"], "--dialect=f2", "--name=warmer")
        later = converse(warm, lines)
    assert len(first) == sum("id" in line for line in lines)
    assert first == later


@pytest.mark.parametrize("dialect", ["f2", "agent-network"])
def test_it_does_so_in_every_dialect(dialect: str) -> None:
    lines = OPENINGS["2025-11-25"][:4]
    with broker() as cold:
        first = converse(cold, lines, f"--dialect={dialect}", "--tools=all")
        asyncio.run(until(lambda: "newcomer" not in cold.tellwire("list", "--json").stdout))
        later = converse(cold, lines, f"--dialect={dialect}", "--tools=all")
    assert first == later
