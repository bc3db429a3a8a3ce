"""Starts brokers from a process that has imported everything: `tellwire up --detach` without the imports.

A test starts its own broker, often more than one, and most of such a start is importing: the MCP SDK alone,
which a broker loads with its first MCP session, takes 0.6 s of CPU. One process for each worker of pytest
imports everything once and forks; the fork runs the same code as the command. Tests about loading the SDK
fork from a second process that has not imported it; tests about starting run the command itself.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tellwire.daemon import Times  # every program of a test would import it

ROOT = Path(__file__).parent.parent.parent
MARK = "tellwire.cli.launch"
"""In the command line of every broker, so that a test finds those of its home."""


BARE = "bare"
"""The argument of the process that has not imported the SDK."""
ENDPOINT_S = 0.05
"""How often a broker looks for the port of its HTTP door, unless a test says otherwise."""


class Warm:
    """The process that forks brokers; started with the first of them."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def up(self, environment: dict[str, str], times: Times | None = None) -> tuple[int, str]:
        """Start a broker in the background; the exit code of the command, and what it says."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            usual = {"sessions": {"endpoint_s": ENDPOINT_S}}
            order = {"environment": environment, "times": msgspec.to_builtins(times) if times else usual}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
            return answer["code"], answer["words"]

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.warm", MARK, *self._arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        atexit.register(process.stdin.close)  # it ends with its input
        return process


WARM = Warm()
WARM_BARE = Warm(BARE)


def main() -> None:
    """Fork a broker for each line of standard input: the environment that it is to have, and its times."""
    from tellwire import daemon  # noqa: PLC0415 - only this process needs it
    from tellwire.cli import launch  # noqa: PLC0415 - as above

    if BARE not in sys.argv:
        import tellwire.mcp.server  # noqa: F401, PLC0415
    gc.collect()
    gc.freeze()  # a broker need not look through what was imported, nor get pages of its own for it
    for line in sys.stdin:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            order = json.loads(line)
            os.environ.clear()
            os.environ.update(order["environment"])
            times = msgspec.convert(order["times"], daemon.Times)
            code, words = launch.detach(partial(daemon.run, times=times))
            os.write(writer, json.dumps({"code": code, "words": words}).encode())
            os._exit(0)
        os.close(writer)
        said = b""
        while chunk := os.read(reader, 65_536):
            said += chunk
        os.close(reader)
        os.waitpid(pid, 0)
        sys.stdout.write(said.decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
