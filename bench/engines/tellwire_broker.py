"""tellwire as its users meet it: the broker by its command, the clients by the public SDK."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import tellwire
from bench.engine import Client, Handle, Missing, Received, RoundFailed
from bench.process import kill, lock_holder, tail, wait_until_ended

COMMAND = Path(sys.executable).with_name("tellwire")
STORED = frozenset({"received", "queued", "sent"})
WAIT_S = 1.0


class TellwireClient:
    """An agent that joined through `tellwire.connect`."""

    def __init__(self, agent: tellwire.Agent, joined: AsyncExitStack) -> None:
        self._agent = agent
        self._joined = joined

    async def send(self, to: int, body: str) -> None:
        receipt = await self._agent.send(f"agent-{to}", body)
        if receipt.status not in STORED:
            raise RoundFailed(f"tellwire answered {receipt.status}: {receipt.note}")

    async def receive(self) -> Sequence[Received]:
        return [
            Received(message.id, cast(str, message.body))
            for message in await self._agent.messages(wait_s=WAIT_S)
        ]

    async def confirm(self, handles: Sequence[Handle]) -> None:
        await self._agent.confirm(cast(Sequence[str], handles))

    async def close(self) -> None:
        await self._joined.aclose()


async def join_as(name: str, home: Path) -> TellwireClient:
    """Join under a name; another one given by the broker would break the ring, so it is refused."""
    joined = AsyncExitStack()
    agent = await joined.enter_async_context(tellwire.connect(name, kind="script", home=home))
    if agent.name != name:
        await joined.aclose()
        raise RoundFailed(f"asked for the name {name}, got {agent.name}: {agent.note}")
    return TellwireClient(agent, joined)


class TellwireEngine:
    """The broker in a home of its own below the folder it is started in."""

    def __init__(self, name: str = "tellwire") -> None:
        self.name = name
        self._home = Path()
        self._pid = 0
        self._started = False

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def home(self) -> Path:
        """The broker's folder."""
        return self._home

    def start(self, folder: Path) -> None:
        if not COMMAND.exists() or importlib.util.find_spec("tellwire") is None:
            raise Missing(f"tellwire is not installed in {sys.prefix}")
        self._home = folder / "home"
        self._home.mkdir(exist_ok=True, mode=0o700)
        self._started = True
        answer = self.command("up", "--detach")
        if answer.returncode != 0:
            raise RoundFailed(f"tellwire up: {answer.stderr.strip()} {tail(self._home / 'broker.log')}")
        self.find_pid()

    def find_pid(self) -> int:
        """Ask the broker for its process: after a kill a client has started another."""
        self._pid = int(self.status()["pid"])
        return self._pid

    def status(self) -> dict[str, Any]:
        """`tellwire status --json`."""
        answer = self.command("status", "--json")
        if answer.returncode != 0:
            raise RoundFailed(f"tellwire status: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    def environment(self) -> dict[str, str]:
        """The environment in which `tellwire` means this broker."""
        return {**os.environ, "TELLWIRE_HOME": str(self._home)}

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `tellwire` for this broker."""
        return subprocess.run(
            [str(COMMAND), *arguments],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async def client(self, number: int) -> Client:
        return await self.join(f"agent-{number}")

    async def join(self, name: str) -> TellwireClient:
        """Join under a name."""
        return await join_as(name, self._home)

    def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        pid, self._pid = self._pid, 0
        try:
            self.command("down")
            if pid:
                wait_until_ended(pid)
        finally:
            if pid:  # also when the bench is being ended: nothing stays behind
                kill(pid)
            if another := lock_holder(self._home / "broker.lock"):  # somebody's shim or client started it
                kill(another)

    def kill(self) -> float:
        """kill -9 the broker; the moment it was done."""
        done = time.perf_counter()
        kill(self._pid)
        return done
