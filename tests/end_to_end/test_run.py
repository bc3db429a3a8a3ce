"""`tellwire run`: the real clients on the mesh for one session, their configuration untouched."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.end_to_end.clients import Client, started
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS, REAL
from tests.end_to_end.script import call, say
from tests.end_to_end.stage import END, PROMPT, QUESTION, Stage, install, once, processes_of
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, settle, wake
from tests.integration.world import Home, Join, until

TELLWIRE = str(Path(sys.executable).with_name("tellwire"))
SETTINGS = (
    ".claude/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".config/opencode/opencode.json",
    ".config/opencode/tui.json",
    ".config/opencode/tui.jsonc",
    ".pi/agent/models.json",
)
"""What is a person's own in each client; the client writes its other files itself."""

pytestmark = pytest.mark.requirement("INST-3", stage="install")
Start = Callable[..., Awaitable[Stage]]


def started_by_run(client: Client, home: Home) -> None:
    """Have `tellwire run` start the client, which is on the PATH under its usual name."""
    folder = client.home.parent / "path"
    folder.mkdir(exist_ok=True)
    program = folder / client.short
    program.write_text(f'#!/bin/sh\nexec {shlex.join(client.program())} "$@"\n', "utf-8")
    program.chmod(0o755)
    path = client.environment()["PATH"]
    client.extra |= {"PATH": f"{folder}:{path}", "TELLWIRE_HOME": str(home.path)}
    client.program = lambda: [TELLWIRE, "run", client.short]


def configuration(client: Client) -> dict[str, bytes]:
    paths = [client.home / name for name in SETTINGS]
    return {str(path): path.read_bytes() for path in paths if path.exists()}


def settle_schema(client: Client) -> None:
    """OpenCode adds this line to a file that does not have it, with or without us."""
    path = client.home / ".config/opencode/opencode.json"
    if path.exists():
        known = json.loads(path.read_text("utf-8"))
        path.write_text(
            json.dumps({"$schema": "https://opencode.ai/config.json", **known}, indent=1), "utf-8"
        )


def mentions(client: Client) -> list[str]:
    """Files of configuration in which tellwire is named."""
    places = [client.home / name for name in (*SETTINGS, ".claude.json", ".config/opencode/plugins")]
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return [str(path) for path in files if path.is_file() and b"tellwire-launcher" in path.read_bytes()]


@pytest.fixture
def start(home: Home, model: Model, join: Join, tmp_path: Path) -> Start:
    """A stage whose client tellwire is not installed in, unless that is asked for."""

    async def make(row: str, *, installed: bool = False) -> Stage:
        stage = Stage(row, home, model, tmp_path)
        stage.client = PROGRAMS[row](tmp_path / row, tmp_path / "shop", model.url(row))
        stage.client.configure()
        settle_schema(stage.client)
        if installed:
            install(home, stage.client)
        started_by_run(stage.client, home)
        stage.alice = await join("alice")
        return stage

    return make


@pytest.mark.parametrize("row", REAL)
async def test_mail_enters_the_turn_of_a_session_and_nothing_is_configured(start: Start, row: str) -> None:
    stage = await start(row)
    before = configuration(stage.client)
    _, (sent,) = await stage.during_turn([QUESTION], call("list_peers"), END)
    once(stage.requests[-1])
    await stage.until_read(sent)
    assert configuration(stage.client) == before
    assert mentions(stage.client) == []


@pytest.mark.parametrize("row", REAL)
async def test_mail_wakes_an_idle_session(start: Start, row: str) -> None:
    stage = await start(row)
    stage.play(say(READY), say("Woken up."))
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        await wake(stage, terminal, "Woken up.")
    assert mentions(stage.client) == []


@pytest.mark.parametrize("row", REAL)
async def test_a_client_with_tellwire_in_its_configuration_gets_mail_once(start: Start, row: str) -> None:
    stage = await start(row, installed=True)
    before = configuration(stage.client)
    _, (sent,) = await stage.during_turn([QUESTION], call("list_peers"), END)
    once(stage.requests[-1])
    await stage.until_read(sent)
    assert configuration(stage.client) == before


@pytest.mark.parametrize("row", REAL)
async def test_a_session_that_is_killed_leaves_nothing_behind(start: Start, row: str) -> None:
    stage = await start(row)
    before = configuration(stage.client)
    stage.play(say("never said")._replace(hold=asyncio.Event()))
    async with started(stage.client, PROMPT) as process:
        await until_known(stage.alice, stage.agent)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    place = os.fsencode(stage.client.home)
    await until(lambda: not processes_of(place), what="the end of all its processes")
    assert configuration(stage.client) == before
    assert mentions(stage.client) == []
