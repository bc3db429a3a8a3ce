"""The console in a real terminal: start, resize, suspend, going to a pane, a killed broker, its end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.tmux import Tmux
from tests.integration.world import Home, Join, read_proc, tellwire_command, until
from tests.surfaces.cli_world import run, run_at_terminal, run_program_at_terminal

TELLWIRE = tellwire_command()[0]
WORKER = (
    "import asyncio, tellwire\n"
    "async def main():\n"
    "    async with tellwire.connect('worker', kind='agent-cli'):\n"
    "        print('the worker is here', flush=True)\n"
    "        await asyncio.Event().wait()\n"
    "asyncio.run(main())\n"
)


def environment(home: Home, **more: str) -> dict[str, str]:
    """What a terminal brings along."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    words = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC", "TELLWIRE_HOME": str(home.path)}
    return {**kept, **words, **more}


class Terminal:
    """A console in a pane, and a person at it."""

    def __init__(self, tmux: Tmux) -> None:
        self.tmux = tmux

    async def shows(self, *words: str) -> str:
        """Wait until the words are on screen."""

        async def look() -> str:
            screen = await self.tmux.screen()
            return screen if all(word in screen for word in words) else ""

        try:
            return await until(look)
        except AssertionError:
            raise AssertionError(f"{words} are not on screen:\n{await self.tmux.screen()}") from None

    async def hides(self, word: str) -> None:
        """Wait until a word is not on screen any more."""

        async def look() -> bool:
            return word not in await self.tmux.screen()

        await until(look, what=f"{word} is gone")

    async def press(self, *keys: str) -> None:
        """Type keys, as tmux names them."""
        await self.tmux.run("send-keys", "-t", "0.0", *keys)

    async def type(self, text: str) -> None:
        await self.tmux.run("send-keys", "-t", "0.0", "-l", text)


@asynccontextmanager
async def console(home: Home, *words: str) -> AsyncGenerator[Terminal]:
    """A console in a pane that a person has before them when it starts."""
    gate = home.path / "gate"
    wait = f'until test -e "{gate}"; do sleep 0.05; done; exec "$0" "$@"'
    async with Tmux.open("sh", "-c", wait, TELLWIRE, *words, environment=environment(home)) as tmux:
        tmux.attach()

        async def is_attached() -> bool:
            return bool((await tmux.run("list-clients")).strip())

        await until(is_attached, what="a person is there")
        gate.touch()
        yield Terminal(tmux)


async def test_it_starts_a_broker_and_says_how_to_start_two_agents(home: Home) -> None:
    async with console(home) as terminal:
        await terminal.shows("1 Agents", "No agent is here yet. To start two:", "Nothing needs you.")
        assert home.pid
        await terminal.press("q")
        await terminal.shows("Pane is dead (status 0")


@pytest.mark.requirement("HUM-2", "HUM-3", stage="console")
async def test_a_question_is_answered_by_one_key_and_the_agent_hears_it(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with console(home, "tui") as terminal:
        await terminal.shows("1 Agents 1", "alice")
        sent = await alice.send("operator", "Delete the build folder?", choices=["yes", "no"])
        await terminal.shows("alice asks: Delete the build folder?", "1 yes", "2 no")
        told = json.loads(run(home, "needs", "--json").out)["needs"]
        assert [need["id"] for need in told] == [sent.id]  # the same, by the command line
        await terminal.press("n", "2")
        (message,) = await alice.messages(wait_s=60)
        assert (message.sender, message.body, message.re) == ("operator", "no", sent.id)
        await terminal.shows("Nothing needs you.", "the agent is online")
        assert not json.loads(run(home, "needs", "--json").out)["needs"]


async def test_a_killed_broker_costs_no_row_and_no_typed_text(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with console(home, "tui") as terminal:
        await terminal.shows("1 Agents 1", "alice")
        await alice.send("operator", "Before the broker was killed.")
        await terminal.shows("Before the broker was killed.")
        await terminal.press("c")
        await terminal.type("half a sent")
        await terminal.shows("half a sent")
        before = home.pid
        home.signal(signal.SIGKILL)
        await terminal.type("ence")
        await terminal.press("Enter")
        (message,) = await alice.messages(wait_s=60)
        assert message.body == "half a sentence"
        await terminal.shows("alice", "Before the broker was killed.", "you ⇄ alice")
        await terminal.hides("reconnecting")
        assert home.pid != before


async def test_it_follows_the_size_of_the_terminal(home: Home, join: Join) -> None:
    await join("alice")
    async with console(home, "tui") as terminal:
        await terminal.shows("alice", "2 Conversations")  # two columns at 120 x 30
        for size, words in (
            ((80, 24), ("1 Agents 1", "Needs you")),
            ((30, 8), ("tellwire needs 40 x 12",)),
            ((200, 60), ("1 Agents 1", "2 Conversations", "4 Files, children", "5 Timeline")),
            ((120, 40), ("1 Agents 1", "2 Conversations")),
        ):
            await terminal.tmux.run("resize-window", "-x", str(size[0]), "-y", str(size[1]))
            await terminal.shows(*words)


async def test_enter_shows_the_pane_of_an_agent_and_leaving_it_comes_back(home: Home, join: Join) -> None:
    await join("alice")
    async with Tmux.open(sys.executable, "-c", WORKER, environment=home.environment()) as theirs:
        await until(lambda: "worker" in run(home, "list", "--all").out, what="the worker joined")
        async with console(home, "tui") as terminal:
            await terminal.shows("worker", "alice")
            await terminal.press(":")
            await terminal.type("go worker")
            await terminal.press("Enter")
            await terminal.shows("the worker is here")
            (client,) = (await theirs.run("list-clients", "-F", "#{client_name}")).split()
            await theirs.run("detach-client", "-t", client)
            await terminal.shows("1 Agents", "back from worker")


async def test_ctrl_z_gives_the_shell_back_and_fg_returns(home: Home, join: Join) -> None:
    await join("alice")
    shell = environment(home, PS1="shell$ ")
    async with Tmux.open("sh", "-i", environment=shell) as tmux:
        terminal = Terminal(tmux)
        await terminal.type(f"{TELLWIRE} tui\n")
        await terminal.shows("1 Agents 1", "alice")
        await terminal.press("C-z")
        await terminal.shows("shell$", "topped")
        await terminal.type("fg\n")
        await terminal.shows("1 Agents 1", "Nothing needs you.")


async def test_a_closed_terminal_ends_it_and_nothing_else(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with console(home, "tui") as terminal:
        await terminal.shows("1 Agents 1")
        pid = await terminal.tmux.pid()
        broker = home.pid
        await terminal.tmux.run("kill-server")
        await until(lambda: not read_proc(pid, "cmdline"), what="the console is gone")
        assert home.pid == broker
        assert (await alice.send("operator", "Still here.")).id


@pytest.mark.requirement("HUM-5", stage="console")
async def test_a_console_that_nobody_looks_at_rings_once(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with console(home, "tui") as terminal:
        await terminal.shows("1 Agents 1")
        raw = Path(terminal.tmux.folder) / "raw"
        await terminal.tmux.run("pipe-pane", "-t", "0.0", f"cat > {raw}")
        await terminal.press("-H", "1b", "5b", "4f")  # the terminal says that it lost the focus
        await alice.send("operator", "Shall I?", choices=["yes", "no"])
        await until(lambda: raw.exists() and b"\a" in raw.read_bytes(), what="the bell")
        await terminal.shows("alice asks: Shall I?")
        assert raw.read_bytes().count(b"\a") == 1


# -- where it does not open ---------------------------------------------------------------------------


def test_without_a_terminal_there_is_help_and_no_traceback(home: Home) -> None:
    alone = run(home)
    assert alone.code == 0
    assert "Usage: tellwire" in alone.out
    named = run(home, "tui")
    assert named.code == 64
    assert "needs a terminal" in named.err
    dumb = run_at_terminal(home, "tui", TERM="dumb")
    assert (dumb.code, "tellwire follow" in dumb.out.replace("\n", " ")) == (64, True)


def test_without_textual_a_sentence_says_what_to_install(home: Home) -> None:
    program = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'textual' else real(name, *rest)\n"
        "from tellwire.cli.main import main\n"
        "sys.argv[0] = 'tellwire'\n"
        "main()\n"
    )
    for words in ((), ("tui",)):
        done = run_program_at_terminal(home, [sys.executable, "-c", program, *words])
        told = " ".join(done.out.split())
        assert (done.code, "Textual, which is not installed" in told) == (64, True), done
        assert "tellwire[console]" in told
        assert "Traceback" not in done.out


BENEATH = (
    "import asyncio, subprocess, sys, tellwire\n"
    "async def main():\n"
    "    async with tellwire.connect('worker', kind='agent-cli'):\n"
    "        await asyncio.to_thread(subprocess.run, sys.argv[1:], check=False)\n"
    "asyncio.run(main())\n"
)


async def test_beneath_an_agent_it_is_refused_and_audited(home: Home, join: Join) -> None:
    await join("alice")
    script = [sys.executable, "-c", BENEATH, TELLWIRE, "tui"]
    async with Tmux.open(*script, environment=environment(home)) as tmux:
        await Terminal(tmux).shows("Ask the agent itself")

    def is_audited() -> bool:
        rows = json.loads(run(home, "audit", "--type", "call_refused", "--json").out)["rows"]
        return any(row["who"] == "worker" for row in rows)

    await until(is_audited)
