"""A stand-in for an agent CLI, `python -m bench.hook_runner NAME`: joins by the shim, runs hooks as children.

A process of its own, because who is beneath an agent speaks as that agent, and the bench has to be somebody
else. A JSON object in each line: first what an installation has written down, then an answer to each request.

    {"command": […], "payload": "…", "environment": {…} or null}   →  {"ms": 1.2, "said": "…"}
    {"reply_to": "m4"}                                             →  {}
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.engine import RoundFailed
from bench.mcp_process import PROTOCOL, READ_BYTES, McpProcess
from tellwire.cli.commands.setup.mcp import shim_command
from tellwire.cli.local.world import find_world
from tellwire.install import launcher

KIND = "codex"
HOOK_S = 20.0


class Shim(McpProcess):
    """Our MCP server, asked by a program whose process counts as the agent."""

    def ask_initialize(self) -> None:
        info = {"name": "codex-mcp-client", "version": "1"}
        self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info})

    def use(self, tool: str, **arguments: str) -> None:
        """Call a tool; such a client gets words only, and no data."""
        self._ask("tools/call", {"name": tool, "arguments": arguments})
        if self.answer().get("isError"):
            raise RoundFailed(f"{tool} failed")


def timed(command: Sequence[str], payload: bytes, environment: Mapping[str, str]) -> tuple[float, bytes]:
    """Run a hook: milliseconds from its spawn to its end, and what it said."""
    child_in, ours_in = os.pipe()
    ours_out, child_out = os.pipe()
    os.write(ours_in, payload)  # fits into the pipe
    os.close(ours_in)
    files = [(os.POSIX_SPAWN_DUP2, child_in, 0), (os.POSIX_SPAWN_DUP2, child_out, 1)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], tuple(command), environment, file_actions=files)
    os.close(child_out)
    said = _read(ours_out, pid)
    os.waitpid(pid, 0)
    took_ms = (time.perf_counter() - began) * 1000
    os.close(child_in)
    os.close(ours_out)
    return took_ms, said


def _read(file: int, pid: int) -> bytes:
    """All that comes; a hook that never ends is ended."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    said = b""
    while True:
        if not poll.poll(HOOK_S * 1000):
            os.kill(pid, signal.SIGKILL)
        data = os.read(file, READ_BYTES)
        if not data:
            return said
        said += data


def answer(shim: Shim, asked: dict[str, Any]) -> dict[str, Any]:
    """Do what one line asks for."""
    if "reply_to" in asked:  # the receipt is settled by it, as no transcript could here
        shim.use("agent_send", to="alice", body="Thanks.", re=asked["reply_to"])
        return {}
    environment: Mapping[str, str] = asked["environment"] or os.environ
    ms, said = timed(asked["command"], asked["payload"].encode(), environment)
    return {"ms": ms, "said": said.decode()}


def main(name: str) -> None:
    """Until the input ends."""
    shim = Shim(shim_command(name=name), os.environ)
    try:
        shim.open()
        shim.use("list_peers")
        world = find_world("user", fixed=True)
        launcher.write(str(world.settings.home))
        programs = world.programs
        known = {
            "hook": ["/bin/sh", "-c", programs.hook(KIND)],
            "gate": ["/bin/sh", "-c", programs.gate(KIND)],
            "mark": os.path.join(programs.marks, str(os.getpid())),
        }
        print(json.dumps(known), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(shim, json.loads(line))), flush=True)
    finally:
        shim.close()


if __name__ == "__main__":
    main(sys.argv[1])
