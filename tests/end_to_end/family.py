"""Agent CLIs that tellwire itself starts: all of one person, in one home, found on the path."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import tellwire
from tellwire import Agent, Message
from tests.end_to_end.clients import NODE, Client
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import Request, Step
from tests.end_to_end.stage import install, is_served, nothing_runs
from tests.integration.world import Home, tellwire_command, until

TASK = "Count the lines of the parser."
RESULT = "The parser has 42 lines."
SPAWN_S = 90.0
REQUEST_S = 90.0
OWN_WORDS: dict[str, tuple[str, ...]] = {
    "codex": ("--dangerously-bypass-hook-trust",),
    "gemini": ("-m", "gemini-2.5-pro"),
    "pi": ("--model", "scripted/scripted"),
}
"""What a child's client is told beside what tellwire says: as a person's settings might."""


class Family:
    """A person's agent CLIs in one project, and alice, who looks on."""

    def __init__(self, home: Home, model: Model, folder: Path) -> None:
        self.home = home
        self.model = model
        self.folder = folder
        self.shop = folder / "shop"
        self.clients: dict[str, Client] = {}
        self.alice: Agent

    def environment(self) -> dict[str, str]:
        """What the person's shell has: the keys of all their clients."""
        found: dict[str, str] = {"TELLWIRE_HOME": str(self.home.path)}
        for client in self.clients.values():
            found.update(client.environment())
        return {**found, "PATH": f"{self.folder / 'bin'}:{NODE.parent}:/usr/bin:/bin"}

    def play(self, short: str, *steps: Step) -> None:
        """What a client's model says next."""
        self.model.play(short, *steps, unlisted=self.clients[short].unlisted)

    async def request(self, short: str, containing: str = "", *, index: int = 0) -> Request:
        """Wait for what a client's model is asked."""
        return await self.model.request(short, containing, index=index, within_s=REQUEST_S)

    async def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command line in the project, as the person."""
        return await asyncio.to_thread(
            subprocess.run,
            tellwire_command(*words),
            env={**self.environment(), **more},
            cwd=self.shop,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SPAWN_S,
            check=False,
        )

    async def spawn(
        self,
        name: str,
        short: str,
        *options: str,
        task: str = TASK,
        words: Iterable[str] | None = None,
        **more: str,
    ) -> subprocess.CompletedProcess[str]:
        """Start a child of `boss`, who speaks by commands only."""
        own = OWN_WORDS.get(short, ()) if words is None else words
        kind = self.clients[short].kind if short in self.clients else short
        given = ("--task", task, "--as", "boss", "--json", *options, "--", *own)
        return await self.run("spawn", name, kind, *given, **more)

    async def children(self) -> list[dict[str, Any]]:
        """As a person sees them."""
        done = await self.run("children", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["children"]

    def journal(self, kind: str) -> list[dict[str, Any]]:
        """The facts of a kind, as a person sees them."""
        done = self.home.tellwire("audit", "--json", "--limit", "1000")
        assert done.returncode == 0, done.stderr
        return [row for row in json.loads(done.stdout)["rows"] if row["type"] == kind]

    def session(self) -> str:
        """The id of the one session that Claude Code has written down."""
        (path,) = (self.folder / "home/.claude/projects").glob("*/*.jsonl")
        return path.stem

    async def children_gone(self) -> bool:
        """Whether no child runs any more."""
        return not await self.children()

    def screen(self, name: str) -> str:
        """What a child's window shows."""
        words = ["tmux", "-S", str(self.home.path / "children" / "tmux"), "capture-pane", "-p", "-J"]
        return subprocess.run([*words, "-t", f"={name}:"], capture_output=True, text=True, check=False).stdout

    async def nothing_more(self) -> None:
        """Nobody told boss anything else, and no folder of a child is left."""
        async with tellwire.connect("boss", home=self.home.path) as boss:
            assert not await boss.messages(wait_s=1)
        folder = self.home.path / "children"
        await until(lambda: not list(folder.glob("a*")), what="a child's folder is left")

    async def heard(self, count: int) -> list[Message]:
        """So many messages of boss; then it has no more."""
        async with tellwire.connect("boss", home=self.home.path) as boss:
            got: list[Message] = []
            while len(got) < count:
                part = await boss.messages(wait_s=REQUEST_S)
                assert part, f"only {[each.body for each in got]} of {count} came"
                await boss.confirm(part)
                got += part
            return got


def find_programs(folder: Path, clients: Iterable[Client]) -> None:
    """Put the clients where a person's shell finds them."""
    folder.mkdir()
    names = {"claude": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode", "pi": "pi"}
    for client in clients:
        path = folder / names[client.short]
        path.write_text(f'#!/bin/sh\nexec {shlex.join(client.program())} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


@asynccontextmanager
async def open_family(folder: Path, *shorts: str) -> AsyncGenerator[Family]:
    """Clients with tellwire, none of them started; no process outlives the block."""
    home = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        async with Model.open() as model:
            family = Family(home, model, folder)
            family.shop.mkdir()
            # Without a repository Codex refuses to run headless.
            await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(family.shop)], check=True)
            for short in shorts:
                client = PROGRAMS[short](folder / "home", family.shop, model.url(short))
                client.configure()
                family.clients[short] = client
                await asyncio.to_thread(install, home, client)
                client.wait_for_tools()
            for client in family.clients.values():
                client.extra = family.environment()  # as a parent it hands on what its person has
            find_programs(folder / "bin", family.clients.values())
            home.up()
            await until(lambda: is_served(home), what="hooks over HTTP")
            async with tellwire.connect("alice", home=home.path) as family.alice:
                yield family
    except BaseException:
        with suppress(AssertionError):  # what went wrong first is what counts
            await end_family(home, folder)
        raise
    else:
        await end_family(home, folder)
    finally:
        shutil.rmtree(home.path, ignore_errors=True)


async def end_family(home: Home, folder: Path) -> None:
    """End the windows, then the broker; whatever else was started has to end by itself."""
    socket = home.path / "children" / "tmux"
    if socket.exists():
        await asyncio.to_thread(
            subprocess.run, ["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False
        )
    await nothing_runs(home, folder)
