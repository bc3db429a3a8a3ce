"""An agent in a process of its own, and the program it runs: a call on a line in, the answer on a line out.

python -m tests.integration.program
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

import tellwire
from tests.integration.world import ROOT, WITHIN_S, Home

LINE_BYTES_MAX = 32 << 20

StartProgram: TypeAlias = "Callable[..., Awaitable[Program]]"


class Program:
    """The test's end: every method is a call to the agent over there."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, home: Home) -> Program:
        """Start the process; it joins nothing yet."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.program"),
            env=home.environment(),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        return cls(process)

    async def join(self, name: str, **options: Any) -> str:
        """Connect; the name borne."""
        return (await self.call("join", name, **options))["name"]

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the agent and wait for the answer; an error comes as `{"error": code}`."""
        self.ask(method, *arguments, **options)
        return await self.answer()

    def ask(self, method: str, *arguments: Any, **options: Any) -> None:
        """Call a method; the answer is fetched later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, arguments, options]).encode() + b"\n")

    async def answer(self, within_s: float = WITHIN_S) -> Any:
        """The answer to the oldest open call."""
        assert self.process.stdout is not None
        async with asyncio.timeout(within_s):
            line = await self.process.stdout.readline()
        assert line, "the program ended without an answer"
        return json.loads(line)

    def freeze(self) -> None:
        """Stop the process, as Ctrl-Z or a debugger does."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    async def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


async def obey() -> None:
    """Be the other end: carry the calls out one after another until stdin ends."""
    loop = asyncio.get_running_loop()
    agents: list[tellwire.Agent] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        method, arguments, options = json.loads(line)
        try:
            if method == "join":
                agents.append(await tellwire.connect(*arguments, **options).__aenter__())
                value: Any = describe(agents[-1])
            elif method == "describe":
                value = describe(agents[-1])
            elif method == "leave":
                value = await agents.pop().__aexit__(None, None, None)
            elif method == "beneath":
                value = await run_beneath(arguments)
            else:
                value = await operator.attrgetter(method)(agents[-1])(*arguments, **options)
        except tellwire.TellwireError as error:
            value = {"error": error.code, "message": error.message}
        print(json.dumps(msgspec.to_builtins(value)), flush=True)


def describe(agent: tellwire.Agent) -> dict[str, Any]:
    """What the agent knows of itself."""
    return {"name": agent.name, "note": agent.note, "attached": agent.attached, "waiting": agent.waiting}


async def run_beneath(calls: list[Any]) -> list[Any]:
    """Carry calls out in a process beneath this one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.program"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    lines = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
    async with asyncio.timeout(WITHIN_S):
        out, _ = await process.communicate(lines)
    return [json.loads(line) for line in out.splitlines()]


if __name__ == "__main__":
    asyncio.run(obey())
