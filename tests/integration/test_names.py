"""Names stay with session and pane: stand-ins for Claude Code, in two panes and one folder (FIRST-4)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tellwire import Agent
from tests.integration.tmux import Tmux
from tests.integration.world import ROOT, WITHIN_S, Home, Join, until

ONE, TWO = "shop-claude", "shop-claude-2"
LINE_BYTES_MAX = 1 << 20


class Pane:
    """A place for one session after the other."""

    def __init__(self, tmux: Tmux, home: Home, folder: Path, window: str) -> None:
        self._tmux = tmux
        self._home = home
        self._folder = folder
        self._window = window
        self._conversation = ""
        self._number = 0
        self._stdin = -1
        self._stdout: asyncio.StreamReader
        self._transport: asyncio.BaseTransport

    async def open(self, conversation: str, *, source: str = "startup") -> None:
        """Start a session, as its human does; hooks tell which conversation it is."""
        self._number += 1
        self._conversation = conversation
        pipes = [self._folder / f"{self._window}.{self._number}.{end}" for end in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        # For both directions: the one end must not wait for the other.
        self._stdin, out = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        self._stdout = asyncio.StreamReader(LINE_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(self._stdout)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(out, "rb", 0))
        program = f'exec "{sys.executable}" -m tests.integration.stand_in claude-code <{pipes[0]} >{pipes[1]}'
        words = ("-e", f"TELLWIRE_HOME={self._home.path}", "sh", "-c", program)
        await self._tmux.run("respawn-pane", "-k", "-t", f"{self._window}.0", "-c", str(ROOT), *words)
        await self.do("join", name="", cwd=str(self._folder))
        await self.hook("SessionStart", source=source)

    async def do(self, word: str, **arguments: Any) -> Any:
        """Have the client do something."""
        os.write(self._stdin, json.dumps({"do": word, **arguments}).encode() + b"\n")
        async with asyncio.timeout(WITHIN_S):
            return json.loads(await self._stdout.readline())

    async def hook(self, event: str, **fields: str) -> str:
        """A hook; what it prints."""
        about = {"session_id": self._conversation, "hook_event_name": event, "cwd": str(self._folder)}
        about["transcript_path"] = str(self._folder / f"{self._conversation}.jsonl")
        done = await self.do("hook", client="claude-code", payload=json.dumps({**about, **fields}))
        assert (done["code"], done["err"]) == (0, ""), done
        return done["out"]

    async def prompt(self, number: str) -> str:
        """A turn that the human begins; the mail that comes along."""
        given = await self.hook("UserPromptSubmit", prompt="Go on.", prompt_id=number)
        await self.hook("Stop", prompt_id=number, last_assistant_message="Done.")
        return json.loads(given)["hookSpecificOutput"]["additionalContext"]

    def close(self) -> None:
        """The human leaves; the client, its shim and its hooks are gone."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
            self._transport.close()


@pytest.fixture
async def panes(home: Home, tmp_path: Path) -> AsyncIterator[tuple[Pane, Pane]]:
    """Two panes in one folder, empty at first."""
    home.up()
    folder = tmp_path / "shop"
    folder.mkdir()
    async with Tmux.open("cat") as tmux:
        await tmux.run("new-window", "-d", "cat")
        two = Pane(tmux, home, folder, "0"), Pane(tmux, home, folder, "1")
        try:
            yield two
        finally:
            for pane in two:
                pane.close()


async def online(asker: Agent) -> list[str]:
    """The names of the sessions that are there."""
    peers = await asker.peers(all=True)
    return sorted(each.name for each in peers if each.kind == "claude-code" and each.status == "online")


async def until_online(asker: Agent, *names: str) -> None:
    """Wait until these are there, and no others."""

    async def look() -> bool:
        return await online(asker) == sorted(names)

    await until(look, what=f"{names} online")


async def close_both(panes: tuple[Pane, Pane], alice: Agent) -> None:
    """Both leave, and mail comes for both."""
    for pane in panes:
        pane.close()
    await until_online(alice)
    for name in (ONE, TWO):
        assert (await alice.send(name, f"Meanwhile, for {name} alone.")).status == "queued"


async def mail_waited(seats: dict[str, Pane]) -> None:
    """Each session gets what came for its name meanwhile, once, and nothing of the other's."""
    for name, pane in seats.items():
        given = await pane.prompt(f"back {name}")
        assert given.count(f"Meanwhile, for {name} alone.") == given.count("Meanwhile") == 1, given


async def own_mail(alice: Agent, word: str, seats: dict[str, Pane]) -> None:
    """What is sent to each name enters its session at the next prompt, once, and no other."""
    for name in seats:
        await alice.send(name, f"{word}, for {name} alone.")
    for name, pane in seats.items():
        given = await pane.prompt(f"{word} {name}")
        assert given.count(f"{word}, for {name} alone.") == 1, given
        assert not any(f"for {other} alone." in given for other in seats if other != name), given


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_sessions_reopened_in_another_order_keep_their_names_and_their_mail(
    panes: tuple[Pane, Pane], join: Join
) -> None:
    one, two = panes
    alice = await join("alice")
    await one.open("conversation-1")
    await until_online(alice, ONE)
    await two.open("conversation-2")
    await until_online(alice, ONE, TWO)
    await own_mail(alice, "While both are there", {TWO: two, ONE: one})

    await close_both(panes, alice)
    await two.open("conversation-3")
    await until_online(alice, TWO)
    await one.open("conversation-4")
    await until_online(alice, ONE, TWO)
    await mail_waited({ONE: one, TWO: two})


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_resumed_sessions_take_their_names_and_mail_along_to_other_panes(
    panes: tuple[Pane, Pane], join: Join
) -> None:
    one, two = panes
    alice = await join("alice")
    await one.open("conversation-1")
    await until_online(alice, ONE)
    await two.open("conversation-2")
    await until_online(alice, ONE, TWO)
    await close_both(panes, alice)
    await two.open("conversation-1", source="resume")
    await until_online(alice, ONE)
    await one.open("conversation-2", source="resume")
    await until_online(alice, ONE, TWO)
    await mail_waited({TWO: one, ONE: two})
