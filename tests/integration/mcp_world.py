"""What the tests of the MCP door share: shims as real processes, and a small JSON-RPC client on their pipes.

The client keeps every line that came, so that a test can count: one answer for each request, and no more.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tellwire.paths import kept_environment
from tests.integration.world import ROOT, WITHIN_S, Home, until

SHIM = str(ROOT / "src" / "tellwire" / "relay" / "mcp_shim.py")
LINE_BYTES_MAX = 8 << 20
HANDSHAKE = "2025-06-18"
HANDSHAKE_NEWER = "2025-11-25"
MODERN = "2026-07-28"
ERAS = (HANDSHAKE, HANDSHAKE_NEWER, MODERN)
META = "io.modelcontextprotocol"
HURRIED = """\
import os, sys
sys.path.append({source!r})
from tellwire.relay import fallback, shim
for name, value in {pace!r}.items():
    setattr(fallback if hasattr(fallback, name) else shim, name, value)
os._exit(shim.main())
"""
PARENT = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


class Result(NamedTuple):
    """What a tool said."""

    text: str
    data: dict[str, Any]
    failed: bool

    @property
    def bodies(self) -> list[str]:
        """The bodies of the messages that it handed out."""
        return [message["body"] for message in self.data.get("messages", ())]

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return [message["id"] for message in self.data.get("messages", ())]


class Shim:
    """One shim and its client: requests in, answers by id out."""

    def __init__(self, process: asyncio.subprocess.Process, era: str, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.pid = process.pid
        self.era = era
        self.name = name
        """The one it was asked to bear."""
        self.instructions = ""
        self.answers: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)
        """All that came with an id, by id; those without one under None."""
        self.notes: list[dict[str, Any]] = []
        """Notifications."""
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._ids = itertools.count(1)
        self._arrived = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self.read()

    # -- the client's end of the pipes

    def read(self) -> None:
        """Read what comes, from now on."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def pause(self) -> None:
        """Read nothing any more, until `read`."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    async def _read(self) -> None:
        while line := await self._stdout.readline():
            message: dict[str, Any] = json.loads(line)
            async with self._arrived:
                if "method" in message:
                    self.notes.append(message)
                else:
                    self.answers[message.get("id")].append(message)
                self._arrived.notify_all()

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._stdin.write(data)
        async with asyncio.timeout(WITHIN_S):
            await self._stdin.drain()

    def begin(self, data: bytes) -> None:
        """Send bytes without waiting until they are taken."""
        self._stdin.write(data)

    def line(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> tuple[int, bytes]:
        """A request as it goes over the pipe, with the envelope of its era, and its id."""
        number = next(self._ids)
        body = dict(params or {})
        if self.era == MODERN:
            meta = {**envelope(), **meta}
        if meta:
            body["_meta"] = meta
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": body}
        return number, json.dumps(message).encode() + b"\n"

    def tool(self, name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> tuple[int, bytes]:
        """The same for a tool call."""
        return self.line("tools/call", {"name": name, "arguments": arguments or {}}, **meta)

    async def arrival(self, number: Any, *, within_s: float = WITHIN_S, count: int = 1) -> dict[str, Any]:
        """The answer with that id, once it has come."""
        async with asyncio.timeout(within_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.answers[number]) >= count)
        return self.answers[number][count - 1]

    async def note(self, method: str, *, count: int = 1, within_s: float = WITHIN_S) -> dict[str, Any]:
        """The so-manieth notification of that method, once it has come."""

        def found() -> list[dict[str, Any]]:
            return [note for note in self.notes if note["method"] == method]

        async with asyncio.timeout(within_s), self._arrived:
            await self._arrived.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]

    # -- MCP

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Ask and wait for the whole answer."""
        number, line = self.line(method, params, **meta)
        await self.write(line)
        return await self.arrival(number)

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Say something that has no answer."""
        await self.write(notification(method, params))

    async def open(self, client: str = "tester") -> Shim:
        """Begin the session as its era does."""
        if self.era == MODERN:
            answer = await self.request("server/discover")
        else:
            info = {"name": client, "version": "1"}
            answer = await self.request(
                "initialize", {"protocolVersion": self.era, "capabilities": {}, "clientInfo": info}
            )
            assert answer["result"]["protocolVersion"] == self.era
            await self.notify("notifications/initialized")
        self.instructions = answer["result"].get("instructions", "")
        return self

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> Result:
        """Call a tool and wait for what it says."""
        number, line = self.tool(name, arguments, **meta)
        await self.write(line)
        return result_of(await self.arrival(number))

    async def send(self, to: str | Shim, body: str, **fields: Any) -> str:
        """Send a message; its id."""
        name = to if isinstance(to, str) else to.name
        sent = await self.call("agent_send", {"to": name, "body": body, **fields})
        assert not sent.failed, sent.text
        return sent.data["id"]

    async def state(self, message: str) -> str:
        """How far a message got with its one recipient, and by what evidence."""
        (recipient,) = (await self.call("message_status", {"id": message})).data["recipients"]
        evidence = recipient.get("evidence", "")
        return f"{recipient['state']} by {evidence}" if evidence else recipient["state"]

    # -- its end

    def close(self) -> None:
        """Close its input, as a client that ends does."""
        self._stdin.close()

    async def ended(self, *, within_s: float = WITHIN_S) -> int:
        """Its exit code, once it has ended and all that it wrote is read."""
        async with asyncio.timeout(within_s):
            code = await self.process.wait()
            if self._reading is not None:
                await self._reading
        return code

    async def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def end(self) -> None:
        """End it, and leave nothing behind: its output is read to the end, whoever holds it."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self._stdin.close()
        self.read()
        assert self._reading is not None
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait([self._reading])
            await self.process.wait()
            with suppress(OSError):
                await self._stdin.wait_closed()


class Shims:
    """The shims of one home."""

    def __init__(self, home: Home, stack: AsyncExitStack, *, cold: bool) -> None:
        self._home = home
        self._stack = stack
        self._cold = cold

    async def start(
        self,
        name: str = "",
        *options: str,
        era: str = HANDSHAKE,
        pace: dict[str, float] | None = None,
        beneath: bool = False,
        settings: dict[str, Any] | None = None,
        home: str = "",
        limit: int = LINE_BYTES_MAX,
    ) -> Shim:
        """Start the process; nothing is said yet. `beneath`: with a process of its own for a client.

        `pace` changes how long it waits, by the names of its constants.
        """
        program = [SHIM]
        if pace is not None:
            program = ["-c", HURRIED.format(source=str(ROOT / "src"), pace=pace)]
        command = [sys.executable, "-I", "-S", *program, *(["--name", name] if name else []), *options]
        if beneath:
            command = [sys.executable, "-I", "-S", "-c", PARENT, *command]
        variables = environment(self._home, settings or {}, home)
        if not self._cold:
            await asyncio.to_thread(self._home.up_first, variables)
        process = await asyncio.create_subprocess_exec(
            *command,
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=limit,
        )
        shim = Shim(process, era, name)
        self._stack.push_async_callback(shim.end)
        return shim

    async def open(self, name: str = "", *options: str, client: str = "tester", **how: Any) -> Shim:
        """Start one and begin its session."""
        return await (await self.start(name, *options, **how)).open(client)


@contextmanager
def own_home() -> Generator[Home]:
    """A home for all tests of a module, where starting a broker for each would take longer than the tests."""
    here = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        yield here
    finally:
        here.end()
        shutil.rmtree(here.path, ignore_errors=True)


@asynccontextmanager
async def open_shims(home: Home, *, cold: bool = False) -> AsyncGenerator[Shims]:
    """Shims that all are ended in the end; the broker ends with its home.

    A home's first broker starts warm, unless `cold` leaves that to the shims.
    """
    async with AsyncExitStack() as stack:
        yield Shims(home, stack, cold=cold)


def environment(home: Home, settings: dict[str, Any], other_home: str = "") -> dict[str, str]:
    """What a shim is started with: no keys, and the home of the test."""
    words = {f"TELLWIRE_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept_environment(os.environ), "TELLWIRE_HOME": other_home or str(home.path), **words}


def envelope() -> dict[str, Any]:
    """What every request of the modern era says of its client."""
    return {
        f"{META}/protocolVersion": MODERN,
        f"{META}/clientInfo": {"name": "tester", "version": "1"},
        f"{META}/clientCapabilities": {},
    }


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A notification as it goes over the pipe."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode() + b"\n"


def cancellation(number: int) -> bytes:
    """The client does not want an answer any more."""
    return notification("notifications/cancelled", {"requestId": number, "reason": "the user said so"})


def result_of(answer: dict[str, Any]) -> Result:
    """What a tool said, out of an answer that must not be an error."""
    assert "result" in answer, answer
    result = answer["result"]
    return Result(result["content"][0]["text"], result["structuredContent"], bool(result.get("isError")))


def code_of(answer: dict[str, Any]) -> int:
    """The code of an answer that must be an error."""
    assert "error" in answer, answer
    return answer["error"]["code"]


async def statuses(observer: Shim) -> dict[str, str]:
    """Every other agent's state, as one of them sees it."""
    peers = (await observer.call("list_peers", {"all": True})).data["peers"]
    return {peer["name"]: peer["status"] for peer in peers}


async def until_status(observer: Shim, name: str, status: str, *, within_s: float = WITHIN_S) -> None:
    """Wait until an agent is shown so."""

    async def shown() -> bool:
        return (await statuses(observer)).get(name) == status

    await until(shown, within_s=within_s, what=f"{name} {status}")


async def until_state(sender: Shim, message: str, state: str, *, within_s: float = WITHIN_S) -> None:
    """Wait until a message got so far."""

    async def reached() -> bool:
        return await sender.state(message) == state

    await until(reached, within_s=within_s, what=f"{message} {state}")
