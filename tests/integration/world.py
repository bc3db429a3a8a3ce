"""What the tests of real processes share: a home with its broker, bounded waiting, a raw connection.

No test sleeps: `until` is the one place that waits, and it always has a bound.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from tellwire import Agent, Message
from tellwire.protocol.errors import ERRORS
from tellwire.settings import Settings, broker_environment, load_settings
from tests.integration.warm import WARM, WARM_BARE, Warm
from tests.integration.warm_cli import WARM_CLI

if TYPE_CHECKING:
    from tellwire.daemon import Times  # every program of a test would import it

ROOT = Path(__file__).parent.parent.parent
POLL_S = 0.01
WITHIN_S = 60.0
"""The bound of a wait for an event: generous, for a busy machine; it costs nothing where the event comes."""
LINE_BYTES_MAX = 8 << 20

T = TypeVar("T")
Join: TypeAlias = Callable[..., Awaitable[Agent]]
OpenRaw: TypeAlias = "Callable[..., Awaitable[Raw]]"


async def until(look: Callable[[], T | Awaitable[T]], *, within_s: float = WITHIN_S, what: str = "") -> T:
    """Look again and again until there is something; fail after a bounded time."""
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        value = await cast("Awaitable[T]", seen) if inspect.isawaitable(seen) else cast("T", seen)
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or inspect.getsource(look).strip()}")
        await asyncio.sleep(POLL_S)


async def take(agent: Agent, count: int) -> list[Message]:
    """So many messages, in as many calls as it takes; none of them is confirmed."""
    got: list[Message] = []
    while len(got) < count:
        part = await agent.messages(wait_s=WITHIN_S)
        assert part, f"only {len(got)} of {count} messages came"
        got += part
    return got


async def pass_time(seconds: float) -> None:
    """Let real time go by, where the time itself is what is tested: a stopped process, a silence."""
    began = time.monotonic()
    await until(lambda: time.monotonic() - began >= seconds, within_s=seconds + WITHIN_S)


class Home:
    """One broker's home folder, and whatever process runs in it."""

    STOP = signal.SIGSTOP
    GO_ON = signal.SIGCONT
    KILL = signal.SIGKILL

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def settings(self) -> Settings:
        """The settings as a client of this home finds them."""
        return load_settings(home=self.path)

    @property
    def log(self) -> str:
        """What the broker wrote into its log."""
        return self.settings.log.read_text("utf-8") if self.settings.log.exists() else ""

    def environment(self, **settings: object) -> dict[str, str]:
        """The environment of a process that belongs to this home."""
        words = {f"TELLWIRE_{name.upper()}": str(value) for name, value in settings.items()}
        return {**os.environ, "TELLWIRE_HOME": str(self.path), **words}

    def tellwire(self, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        command, variables = tellwire_command(*arguments), self.environment(**settings)
        if "up" not in arguments:
            ended = WARM_CLI.run([*arguments], variables, within_s=WITHIN_S)
            return subprocess.CompletedProcess(command, ended.code, ended.out.decode(), ended.err.decode())
        return subprocess.run(
            command,
            env=variables,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def up(self, times: Times | None = None, /, **settings: object) -> int:
        """Start a broker in the background, which may wait for other times than usual; its pid."""
        return self._up(WARM, self.environment(**settings), times)

    def up_without_sdk(self) -> int:
        """Start one that has yet to load the MCP SDK."""
        return self._up(WARM_BARE, self.environment())

    def up_first(self, environment: dict[str, str] | None = None) -> None:
        """Start the first broker of this home as a client would; clients start the later ones."""
        if not self.pid:
            self._up(WARM, environment or broker_environment(self.settings))

    def _up(self, warm: Warm, environment: dict[str, str], times: Times | None = None) -> int:
        code, words = warm.up(environment, times)
        assert code in (0, ERRORS["already_running"].exit), words
        return self.pid

    def status(self) -> dict[str, Any]:
        """What `tellwire status --json` tells."""
        done = self.tellwire("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def pid(self) -> int:
        """The broker that holds, or last held, the lock; 0 if there was none."""
        with suppress(OSError, ValueError):
            return int((self.path / "broker.lock").read_text())
        return 0

    def signal(self, number: signal.Signals) -> None:
        """Send the broker a signal."""
        os.kill(self.pid, number)

    def brokers(self) -> list[int]:
        """Living processes that have this home's database open."""
        database = str(self.settings.database)
        return [pid for pid in tellwire_processes() if database in open_files(pid)]

    def starters(self) -> list[int]:
        """Living processes that run or start a broker for this home."""
        return [pid for pid in tellwire_processes() if self._starts(pid)]

    def _starts(self, pid: int) -> bool:
        mark = f"TELLWIRE_HOME={self.path}".encode()
        return mark in read_proc(pid, "environ").split(b"\0") and bool(read_proc(pid, "cmdline"))

    def _holds(self, pid: int) -> bool:
        """Whether a process has a file of this home open, also one that was removed."""
        folder = f"{self.path}/"
        return any(file.startswith(folder) for file in open_files(pid))

    def end(self) -> None:
        """Leave no process of this home behind."""
        deadline = time.monotonic() + WITHIN_S
        while pids := [pid for pid in tellwire_processes() if self._holds(pid) or self._starts(pid)]:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"processes that cannot be ended: {pids}"
            time.sleep(POLL_S)


def tellwire_command(*arguments: str) -> list[str]:
    """The command line as it is installed."""
    return [str(Path(sys.executable).with_name("tellwire")), *arguments]


def tellwire_processes() -> Iterator[int]:
    """Processes whose command line tells that they are, or start, a broker."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            line = read_proc(int(name), "cmdline")
            if b"tellwire.cli" in line or b"/tellwire/__main__.py\0" in line:
                yield int(name)


def read_proc(pid: int, name: str) -> bytes:
    """A file of /proc; empty once the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", 0) as file:  # of all processes, at the end of every test
            return file.read()
    except OSError:
        return b""


def open_files(pid: int) -> list[str]:
    """The paths behind a process's descriptors; empty once it is gone."""
    found: list[str] = []
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.append(os.readlink(entry.path))
    return found


def rss_bytes(pid: int) -> int:
    """The memory that a process occupies."""
    fields = dict(line.split(b":", 1) for line in read_proc(pid, "status").splitlines() if b":" in line)
    return int(fields[b"VmRSS"].split()[0]) * 1024


class Raw:
    """A connection that says exactly what a test wants it to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.offers: list[dict[str, Any]] = []
        self._number = 0

    @classmethod
    async def open(cls, home: Home, *, greet: bool = True) -> Raw:
        """Connect, and greet unless told otherwise."""
        reader, writer = await asyncio.open_unix_connection(str(home.settings.socket), limit=LINE_BYTES_MAX)
        raw = cls(reader, writer)
        if greet:
            await raw.write(b'{"tellwire":1,"program":"test"}\n')
            assert (await raw.frame())["tellwire"] == 1
        return raw

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        async with asyncio.timeout(WITHIN_S):
            await self.writer.drain()

    async def frame(self, within_s: float = WITHIN_S) -> dict[str, Any]:
        """The next line from the broker; an empty object at the end of the stream."""
        async with asyncio.timeout(within_s):
            line = await self.reader.readline()
        return json.loads(line) if line else {}

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask for an operation; the frame that answers. Offers that come before it are kept."""
        self._number += 1
        call = {"n": self._number, "do": {"op": op, **fields}}
        await self.write(json.dumps(call).encode() + b"\n")
        while True:
            frame = await self.frame()
            if "offer" in frame:
                self.offers.append(frame["offer"])
            elif frame.get("n", self._number) in (0, self._number):
                return frame

    async def register(self, name: str, *, session: str = "") -> dict[str, Any]:
        """Join under a name."""
        return await self.call("register_agent", name=name, session=session or f"session-of-{name}")

    async def close(self) -> None:
        """Hang up, whatever is still unsent."""
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


class Deaf:
    """A connection that writes and never reads."""

    def __init__(self, home: Home) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(home.settings.socket))
        self._socket.setblocking(False)

    def __enter__(self) -> Deaf:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def write(self, data: bytes) -> int:
        """Send as much as the broker takes; how many bytes that was."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
