"""The floor of tellwire's own stack: its wire, its codec and its loop, one sync per tick, and nothing else.

Run: `floor_broker.py SOCKET LOG`. It keeps no mailbox, checks nothing and forgets everything; what it costs,
every broker in Python that tellwire's clients talk to costs too.
"""

import asyncio
import os
import sys
import time
from typing import cast

import msgspec
import uvloop

from tellwire.protocol.frames import (
    LineDecoder,
    Welcome,
    format_frame,
    format_offer,
    format_ok,
    parse_call,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import Done, RegisterAgent, Registered
from tellwire.protocol.operations.messages import (
    Confirmed,
    ConfirmMessages,
    MessageRecord,
    SendMessage,
    Sent,
)

LOG_BYTES = 8 << 20
GRANT_S = 45.0

_encode = msgspec.json.Encoder().encode


class Floor:
    """Who is connected, and the calls of the next tick."""

    def __init__(self, log: str) -> None:
        self._fd = os.open(log, os.O_CREAT | os.O_RDWR, 0o600)
        os.pwrite(self._fd, bytes(LOG_BYTES), 0)
        os.fsync(self._fd)
        self._offset = 0
        self._seq = 0
        self._queue: list[tuple[Line, int, AnyOperation, bytes]] = []
        self._loop = asyncio.get_running_loop()
        self.lines: dict[str, Line] = {}

    def submit(self, line: "Line", n: int, operation: AnyOperation, data: bytes) -> None:
        """Put a call into the next tick."""
        if not self._queue:
            self._loop.call_soon(self._tick)
        self._queue.append((line, n, operation, data))

    def _tick(self) -> None:
        queue, self._queue = self._queue, []
        out: dict[Line, list[bytes]] = {}
        written: list[bytes] = []
        for line, n, operation, data in queue:
            answers = out.setdefault(line, [])
            if isinstance(operation, SendMessage):
                self._seq += 1
                message_id = format_id("m", self._seq)
                written.append(data)
                answers.append(format_ok(n, Sent(id=message_id, status="received")))
                to = str(operation.to)
                record = MessageRecord(message_id, line.name, to, operation.body, 0.0)
                offer = format_offer([_encode(record)], 0, time.monotonic() + GRANT_S)
                out.setdefault(self.lines[to], []).append(offer)
            elif isinstance(operation, ConfirmMessages):
                written.append(data)
                answers.append(format_ok(n, Confirmed(count=len(operation.ids))))
            elif isinstance(operation, RegisterAgent):
                line.name = operation.name
                self.lines[line.name] = line
                answers.append(format_ok(n, Registered(id=line.name, name=line.name)))
            elif n:
                answers.append(format_ok(n, Done()))
        if written:
            self._write(b"".join(written))
        for line, frames in out.items():
            line.write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        if self._offset + len(data) > LOG_BYTES:
            self._offset = 0
        os.pwrite(self._fd, data, self._offset)
        self._offset += len(data)
        os.fdatasync(self._fd)


class Line(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._decoder = LineDecoder()
        self._greeted = False
        self.name = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        lines = self._decoder.feed(data)
        if not self._greeted:
            lines.pop(0)
            self._greeted = True
            self.write(
                format_frame(
                    Welcome(tellwire=1, version="floor", awake=1.0, heartbeat_s=30.0, clock=time.monotonic())
                )
            )
        for line in lines:
            call = parse_call(line)
            self._floor.submit(self, call.n, call.do, line)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._transport.write(data)


async def main(path: str, log: str) -> None:
    """Serve until ended."""
    floor = Floor(log)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: Line(floor), path, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2]))
