"""As much HTTP as agent CLIs need of a model on loopback: one request for each connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, NamedTuple

BODY_BYTES_MAX = 64 << 20


class Asked(NamedTuple):
    """One HTTP request."""

    method: str
    path: str
    body: dict[str, Any]


async def read_request(reader: asyncio.StreamReader) -> Asked:
    """Read a request to its end.

    Raises:
        EOFError: the client hung up.
    """
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    if "chunked" in fields.get("transfer-encoding", ""):
        data = await _read_chunks(reader)
    else:
        size = int(fields.get("content-length", "0"))
        assert size <= BODY_BYTES_MAX
        data = await reader.readexactly(size)
    return Asked(method, path.partition("?")[0], json.loads(data) if data else {})


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    data = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        data += await reader.readexactly(size)
        assert len(data) <= BODY_BYTES_MAX
        await reader.readline()
    await reader.readline()
    return data


async def write_json(writer: asyncio.StreamWriter, value: Any, status: int = 200) -> None:
    """Answer with JSON."""
    data = json.dumps(value).encode()
    writer.write(_head(status, "application/json", len(data)) + data)
    await writer.drain()


async def write_events(writer: asyncio.StreamWriter, events: Iterable[str]) -> None:
    """Answer with server-sent events."""
    writer.write(_head(200, "text/event-stream"))
    for each in events:
        writer.write(each.encode())
        await writer.drain()


def _head(status: int, kind: str, size: int | None = None) -> bytes:
    phrase = next((each.phrase for each in HTTPStatus if each == status), "Overloaded")
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {kind}", "Connection: close"]
    lines += [] if size is None else [f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()
