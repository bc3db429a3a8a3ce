"""A person's shell at a terminal, and an agent in it that runs what a test tells it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import shlex
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.world import ROOT, Home, tellwire_command, until

AGENT = """
import json, os, pathlib, subprocess, sys, tellwire
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
with tellwire.connect_sync(name, kind="agent-cli"):
    (folder / "joined").touch()
    with open(folder / "orders") as orders:
        for order in orders:
            code, words = json.loads(order)
            done = subprocess.run(["bash", "-c", words], stdin=-3, capture_output=True, text=True)
            (folder / "part").write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
            os.rename(folder / "part", folder / code)
(folder / "left").touch()
"""
ORPHANED = "( above=$BASHPID; ( while kill -0 $above 2> /dev/null; do :; done; exec {} ) & )"
"""A command that begins when the process above it has gone."""


class Ended(NamedTuple):
    """What a command in a shell came to."""

    code: int
    out: str


class Shell:
    """A person's shell on a terminal of its own, opened by this process as by a terminal program."""

    def __init__(self, home: Home, folder: Path, *program: str) -> None:
        self._folder = folder
        self._number = 0
        master, slave = pty.openpty()
        self._screen = b""
        self.environment = {**home.environment(), "PS1": "", "TERM": "xterm", "HISTFILE": "/dev/null"}
        self.process = subprocess.Popen(
            program or ("bash", "--noprofile", "--norc", "-i"),
            env=self.environment,
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
        )
        os.close(slave)
        self._master = master
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            self._screen += os.read(self._master, 65_536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)

    @property
    def screen(self) -> str:
        """All that it has shown."""
        return self._screen.decode(errors="replace")

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    async def run(self, words: str) -> Ended:
        """Type a command in the foreground, and wait for its end."""
        self._number += 1
        out, code = self._folder / f"out-{self._number}", self._folder / f"code-{self._number}"
        self.type(f"{words} > {out} 2>&1; echo $? > {code}.part; mv {code}.part {code}\n")
        await until(code.exists, what=f"{words}: {self._screen[-2_000:]!r}")
        return Ended(int(code.read_text()), out.read_text())

    async def close(self) -> None:
        """Hang up."""
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        self.process.kill()
        await asyncio.to_thread(self.process.wait)


class Captive:
    """An agent that runs commands for a test, as a model does with the tool for its shell."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._number = 0
        self._orders: Any = None
        os.mkfifo(folder / "orders")

    @property
    def words(self) -> str:
        """The command line that starts it."""
        return shlex.join([sys.executable, "-c", AGENT, self.name, str(self.folder)])

    async def joined(self) -> None:
        """Wait until it is there."""
        await until((self.folder / "joined").exists, what=f"{self.name} joins")
        self._orders = await asyncio.to_thread(open, self.folder / "orders", "w")

    async def run(self, words: str) -> Ended:
        """Run a command beneath the agent, and wait for its end, though not for what it leaves behind."""
        self._number += 1
        answer = self.folder / f"answer-{self._number}"
        print(json.dumps([answer.name, words]), file=self._orders, flush=True)
        await until(answer.exists, what=words)
        code, out, err = json.loads(answer.read_text())
        return Ended(code, out + err)

    async def leave_behind(self, words: str, around: str) -> Ended:
        """Run a command that `around` detaches, as `{}` in it, and wait until that has ended."""
        self._number += 1
        script, out, code = (self.folder / f"{what}-{self._number}" for what in ("do", "out", "code"))
        script.write_text(f"{words} > {out} 2>&1\necho $? > {code}.part\nmv {code}.part {code}\n")
        await self.run(around.format(shlex.join(["bash", str(script)])))
        await until(code.exists, what=f"{around}: {words}")
        return Ended(int(code.read_text()), out.read_text())

    async def quit(self) -> None:
        """The agent ends as its human wishes."""
        self._orders.close()
        await until((self.folder / "left").exists, what=f"{self.name} leaves")

    def let_go(self) -> None:
        """After the test."""
        if self._orders is not None:
            with suppress(OSError):
                self._orders.close()


@asynccontextmanager
async def at_work(home: Home, folder: Path, name: str = "coder") -> AsyncGenerator[tuple[Shell, Captive]]:
    """An agent that a person has started in the foreground of a shell."""
    shell, captive = Shell(home, folder), Captive(folder, name)
    try:
        shell.type(f"{captive.words}\n")
        await captive.joined()
        yield shell, captive
    finally:
        captive.let_go()
        await shell.close()


def command(*words: str) -> str:
    """The command of this project, for a shell."""
    return shlex.join(tellwire_command(*words))


def mcp_session(name: str) -> str:
    """Shell words: an MCP client that asks to be `name`, fetches its mail and sends a message to bob."""
    info = {"name": "tester", "version": "1"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
        ("tools/call", {"name": "get_messages", "arguments": {}}),
        ("tools/call", {"name": "agent_send", "arguments": {"to": "bob", "body": "by tools"}}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls, 1)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    said = " ".join(shlex.quote(line) for line in lines)
    return f"printf '%s\\n' {said} | {command('mcp', '--name', name)}"


async def open_gate(gate: Path) -> None:
    """Let a program go on that waits for a line of a pipe; never wait for one that is not there."""

    def opened() -> bool:
        try:
            pipe = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.write(pipe, b"go\n")
        os.close(pipe)
        return True

    await until(opened, what="a program at the gate")
