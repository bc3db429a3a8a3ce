"""tellwire from each client's own market: the folder `market`, installed by the client's own commands."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tellwire.install.endpoint import peek_endpoint
from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import ROOT, SERVER, Client, run
from tests.end_to_end.gemini import Gemini
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import call, say
from tests.end_to_end.stage import END, FINAL, INSTALL_S, PROMPT, QUESTION, Stage, is_served, once
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, settle, wake
from tests.end_to_end.trust import cautious, trust
from tests.integration.world import Home, Join, take, until

GEMINI_RULE = f'[[rule]]\nmcpName = "{SERVER}"\ntoolName = "*"\ndecision = "allow"\npriority = 100\n'
"""An extension cannot allow its own tools, and without a terminal Gemini CLI cannot ask."""
CLAUDE_TOOLS = "mcp__plugin_tellwire_tellwire__"
COMMANDS: dict[str, Callable[[str], list[list[str]]]] = {
    "claude": lambda market: [
        ["plugin", "validate", market],
        ["plugin", "validate", "--profile", "directory", f"{market}/claude"],
        ["plugin", "marketplace", "add", market],
        ["plugin", "install", f"{SERVER}@{SERVER}"],
    ],
    "codex": lambda market: [
        ["plugin", "marketplace", "add", market],
        ["plugin", "add", f"{SERVER}@{SERVER}"],
    ],
    "gemini": lambda market: [
        ["extensions", "validate", market],
        ["extensions", "install", market, "--consent", "--skip-settings"],
    ],
    "opencode": lambda market: [["plugin", "--global", f"{market}/opencode"]],
    "pi": lambda market: [["install", f"{market}/pi"]],
}
"""What a person types, after the name of the program; the clients' own validators first."""


PLUGGED = ("opencode", "pi")
"""Clients whose plugin asks the broker over HTTP: without `install` that begins with their first session."""


def is_open(home: Home) -> bool:
    return peek_endpoint(str(home.path)) is not None and is_served(home)


def run_client(client: Client, words: Sequence[str]) -> str:
    """One command of the client that needs no model."""
    done = subprocess.run(
        [*client.program(), *words],
        env=client.environment(),
        cwd=client.project,
        input="y\n",
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def market(tmp_path: Path) -> str:
    """As somebody has it who fetched the repository; Codex waits for the tools, however busy the machine."""
    copy = shutil.copytree(ROOT / "market", tmp_path / "market")
    servers = copy / "codex" / ".mcp.json"
    servers.write_text(
        servers.read_text("utf-8").replace('"env_vars"', '"required": true, "env_vars"'), "utf-8"
    )
    return str(copy)


@pytest.fixture
def client(request: pytest.FixtureRequest, home: Home, model: Model, tmp_path: Path) -> Client:
    """A client with nothing of tellwire in its settings; the program is on its PATH."""
    short: str = request.param
    client = PROGRAMS[short](tmp_path / short, tmp_path / "shop", model.url(short))
    client.configure()
    if isinstance(client, Claude):
        client.unlisted = f"{CLAUDE_TOOLS}{{}}"
        client.write(".claude/settings.json", {"permissions": {"allow": [f"{CLAUDE_TOOLS}*"]}})
    if isinstance(client, Gemini):
        client.write(".gemini/policies/tellwire.toml", GEMINI_RULE)
    programs = f"{client.environment()['PATH']}:{Path(sys.executable).parent}"
    client.extra = {"TELLWIRE_HOME": str(home.path), "PATH": programs}
    return client


@pytest.mark.requirement("INST-6", stage="install")
@pytest.mark.parametrize("client", PROGRAMS, indirect=True)
async def test_a_client_that_got_tellwire_from_its_market_has_the_tools_and_the_mail(
    client: Client, market: str, home: Home, model: Model, join: Join, tmp_path: Path
) -> None:
    for words in COMMANDS[client.short](market):
        run_client(client, words)
    stage = Stage(client.short, home, model, tmp_path)
    stage.client, stage.alice = client, await join("alice")
    release = asyncio.Event()
    stage.play(call("agent_send", to="alice", body="I have begun.")._replace(hold=release), END)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, PROMPT))
        await stage.request()
        if client.short in PLUGGED:
            await until(lambda: is_open(home), what="the door for plugins")
        (sent,) = await stage.send(QUESTION)
        release.set()
    ran = running.result()
    assert ran.text.endswith(FINAL)
    (begun,) = await take(stage.alice, 1)
    assert (begun.sender, begun.body) == (stage.agent, "I have begun.")
    once(stage.requests[-1])
    await stage.until_read(sent)


@pytest.mark.requirement("INST-6", stage="install")
@pytest.mark.parametrize("client", PROGRAMS, indirect=True)
async def test_mail_wakes_an_idle_session_of_a_client_that_got_tellwire_from_its_market(
    client: Client, market: str, home: Home, model: Model, join: Join, tmp_path: Path
) -> None:
    for words in COMMANDS[client.short](market):
        run_client(client, words)
    stage = Stage(client.short, home, model, tmp_path)
    stage.client, stage.alice = client, await join("alice")
    stage.play(say(READY), END)
    async with Terminal.open(client) as terminal:
        await settle(stage, terminal)
        await wake(stage, terminal, FINAL)


@pytest.mark.requirement("INST-6", stage="install")
@pytest.mark.parametrize("client", ["codex"], indirect=True)
async def test_codex_asks_about_the_hooks_of_its_plugin_and_then_wakes_through_its_daemon(
    client: Client, market: str, home: Home, model: Model, join: Join, tmp_path: Path
) -> None:
    for words in COMMANDS["codex"](market):
        run_client(client, words)
    stage = Stage("codex", home, model, tmp_path)
    stage.client, stage.alice = client, await join("alice")
    async with cautious(stage) as careful:
        careful.extra = client.extra
        await trust(home, careful, stage.agent)
        stage.play(say(READY), END)
        async with Terminal.open(careful) as terminal:
            await settle(stage, terminal)
            await wake(stage, terminal, FINAL)
