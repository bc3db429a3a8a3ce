"""An MCP server as a process on two raw pipes, and the least of a client: no SDK in who measures.

Every server is spawned in the same way, so that what the harness costs is small and the same for all.
"""

import importlib.util
import itertools
import json
import os
import select
import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.engine import Missing, RoundFailed
from bench.engines.tellwire_broker import TellwireEngine
from bench.process import START_TIMEOUT_S, wait_until_ended
from tellwire.cli.commands.setup.mcp import shim_command

SDK_SERVER = Path(__file__).with_name("mcp_sdk_server.py")
"""Never imported here: the SDK would weigh on the process that measures."""
PROTOCOL = "2025-06-18"
CLIENT = "bench"
READ_BYTES = 1 << 16
END_S = 5.0


class McpProcess:
    """A spawned server; each method returns when it has answered."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        child_in, self._in = os.pipe()
        self._out, child_out = os.pipe()
        files = [(os.POSIX_SPAWN_DUP2, child_in, 0), (os.POSIX_SPAWN_DUP2, child_out, 1)]
        self._ids = itertools.count(1)
        self._heard = b""
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self.command = command
        self.spawned = time.perf_counter()
        self.pid = os.posix_spawn(command[0], tuple(command), environment, file_actions=files)
        os.close(child_in)
        os.close(child_out)

    # -- MCP

    def initialize(self) -> dict[str, Any]:
        """The first half of the handshake: what a client waits for before it goes on."""
        self.ask_initialize()
        return self.answer()

    def ask_initialize(self) -> None:
        """The same without waiting; `has_answered` tells whether the answer is there."""
        info = {"name": CLIENT, "version": "1"}
        self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info})

    def open(self) -> dict[str, Any]:
        """The whole handshake."""
        answer = self.initialize()
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
        return answer

    def list_tools(self) -> list[dict[str, Any]]:
        """What `tools/list` answers."""
        self._ask("tools/list", {})
        return self.answer()["tools"]

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the tool says, as data."""
        self._ask("tools/call", {"name": tool, "arguments": arguments})
        answer = self.answer()
        if answer.get("isError"):
            raise RoundFailed(f"{tool}: {answer['content'][0]['text']}")
        return answer["structuredContent"]

    # -- lines

    def has_answered(self) -> bool:
        """Whether something can be read now."""
        return bool(self._poll.poll(0))

    def answer(self) -> dict[str, Any]:
        """The result in the next line, which must be the answer to what was asked last."""
        message = json.loads(self.line())
        if "result" not in message:
            raise RoundFailed(f"{self.command[-1]}: {message}")
        return message["result"]

    def line(self) -> bytes:
        """The next line, of which the server writes one for each request."""
        while b"\n" not in self._heard:
            if not self._poll.poll(START_TIMEOUT_S * 1000):
                raise RoundFailed(f"{self.command[-1]} did not answer")
            data = os.read(self._out, READ_BYTES)
            if not data:
                raise RoundFailed(f"{' '.join(self.command)} ended without an answer")
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _ask(self, method: str, params: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        os.write(self._in, json.dumps(message).encode() + b"\n")

    # -- its end

    def wait_for_end(self) -> None:
        """Return when it has closed its output, as a process does at its end."""
        while os.read(self._out, READ_BYTES):
            pass

    def close(self) -> None:
        """Close its input, as a client that ends does; insist if it stays."""
        os.close(self._in)
        os.close(self._out)
        if not wait_until_ended(self.pid, END_S):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@contextmanager
def opened(command: Sequence[str], environment: Mapping[str, str]) -> Generator[McpProcess, None, None]:
    """A server, ended afterwards whatever happened."""
    process = McpProcess(command, environment)
    try:
        yield process
    finally:
        process.close()


def sdk_command(database: Path) -> list[str]:
    """The SDK's server in the agent's own process.

    Raises:
        Missing: it is not installed here.
    """
    if importlib.util.find_spec("mcp") is None:
        raise Missing("the package mcp is not installed")
    return [sys.executable, "-I", str(SDK_SERVER), str(database)]


@contextmanager
def opened_sdk(folder: Path) -> Generator[McpProcess, None, None]:
    """The SDK's server, with its database in this folder."""
    with opened(sdk_command(folder / "sdk.db"), os.environ) as process:
        yield process


@contextmanager
def opened_shim(
    engine: TellwireEngine, name: str, dialect: str | None = None
) -> Generator[McpProcess, None, None]:
    """A shim of this broker, started with the words that an agent's configuration has."""
    with opened(shim_command(name=name, dialect=dialect), engine.environment()) as process:
        yield process
