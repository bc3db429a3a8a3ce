"""One stdio server under test: a process, and who waits for which of the lines it writes.

Lines are handed on as they come. One that breaks the rules of the stdio transport is not repaired but
noted in ``faults``, and so is a process that does not end when its input does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, cast

LINE_BYTES_MAX = 4 * 1024 * 1024
QUEUE_LINES_MAX = 1000
WRITE_S = 10.0
END_S = 10.0


class Line(NamedTuple):
    """What the server wrote, without the newline; ``last`` if it answers the request."""

    data: bytes
    last: bool


# None: the process has gone, nothing follows.
Lines = asyncio.Queue[Line | None]


class Child:
    """A running stdio server; made by ``Child.start`` and ended by ``end``, by whoever started it."""

    def __init__(self, process: asyncio.subprocess.Process, faults: list[str], *, end_s: float) -> None:
        self.process = process
        self.faults = faults
        self.end_s = end_s
        self.unasked: Lines = asyncio.Queue(QUEUE_LINES_MAX)
        self._asked: dict[str, Lines] = {}
        self._progress: dict[str, Lines] = {}
        self.gone = False

    @classmethod
    async def start(cls, command: Sequence[str], faults: list[str], *, end_s: float) -> Child:
        """Start the server; what it writes to stderr goes where the tests write theirs."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, limit=LINE_BYTES_MAX
        )
        return cls(process, faults, end_s=end_s)

    def expect(self, message: dict[str, Any]) -> Lines | None:
        """Where the answer to this request will arrive; None if one with this id is under way."""
        key = key_of(message["id"])
        if key in self._asked:
            return None
        lines: Lines = asyncio.Queue(QUEUE_LINES_MAX)
        self._asked[key] = lines
        token = progress_token(message)
        if token is not None:
            self._progress[key_of(token)] = lines
        return lines

    def forget(self, message: dict[str, Any]) -> None:
        """The request is over, answered or not."""
        self._asked.pop(key_of(message["id"]), None)
        self._progress.pop(key_of(progress_token(message)), None)

    async def write(self, line: bytes) -> bool:
        """Hand one line to the server; False if it does not read any more."""
        assert self.process.stdin is not None
        try:
            async with asyncio.timeout(WRITE_S):
                self.process.stdin.write(line + b"\n")
                await self.process.stdin.drain()
        except (TimeoutError, ConnectionError):
            return False
        return True

    async def read(self) -> None:
        """Hand out what the server writes, until it has written all."""
        assert self.process.stdout is not None
        try:
            while line := await self.process.stdout.readline():
                self._hand_out(line)
        except ValueError:
            self.faults.append(f"a line is longer than {LINE_BYTES_MAX} bytes")
        finally:
            self.gone = True
            for lines in (*self._asked.values(), self.unasked):
                self._put(lines, None)

    async def end(self) -> None:
        """Close the server's input, which must end it; if it does not, end it by its pid."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with suppress(ConnectionError):
            await self.process.stdin.wait_closed()
        if await self._ended():
            return
        self.faults.append(f"the server did not end {self.end_s} s after its input did")
        with suppress(ProcessLookupError):
            self.process.terminate()
        if not await self._ended():
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def _ended(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), self.end_s)
        return self.process.returncode is not None

    def _hand_out(self, line: bytes) -> None:
        try:
            message = parse_line(line)
        except ValueError as fault:
            self.faults.append(f"{fault}: {line[:200]!r}")
            return
        data = line.removesuffix(b"\n")
        if "method" in message:
            self._put(self._listening(message), Line(data, last=False))
            return
        asker = self._asked.get(key_of(message.get("id")))
        if asker is None:
            self.faults.append(f"an answer to no request: {line[:200]!r}")
        else:
            self._put(asker, Line(data, last=True))

    def _listening(self, message: dict[str, Any]) -> Lines:
        if message["method"] != "notifications/progress":
            return self.unasked
        token = member(message.get("params"), "progressToken")
        return self._progress.get(key_of(token), self.unasked)

    def _put(self, lines: Lines, line: Line | None) -> None:
        try:
            lines.put_nowait(line)
        except asyncio.QueueFull:
            self.faults.append(f"more than {QUEUE_LINES_MAX} lines that nobody reads")


def parse_line(line: bytes) -> dict[str, Any]:
    """The message on a line; ValueError tells which rule of the stdio transport the line breaks."""
    if not line.endswith(b"\n"):
        raise ValueError("the last line is not ended")
    if b"\r" in line:
        raise ValueError("a carriage return is not part of a message")
    return parse_message(line)


def parse_message(data: bytes) -> dict[str, Any]:
    """One JSON-RPC message in UTF-8, as far as it must be understood to be handed on; or ValueError."""
    try:
        message: Any = json.loads(data.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"not JSON ({fault})") from None
    if member(message, "jsonrpc") != "2.0":
        raise ValueError("not a JSON-RPC 2.0 message")
    return message


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def progress_token(message: dict[str, Any]) -> Any:
    """The token under which the server may tell of progress, or None."""
    return member(member(message.get("params"), "_meta"), "progressToken")


def member(value: Any, name: str) -> Any:
    """A member of a JSON object; None if there is none or the value is not an object."""
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def key_of(value: Any) -> str:
    """A request's id as a key; 1 and "1" are two ids."""
    return json.dumps(value)
