"""Real agent CLIs with palaver's hooks: mail enters a running turn, its end, and an idle session, once."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from palaver import Agent
from palaver.gateways.inside import INTEGRATIONS
from palaver.integrations.install.endpoint import peek_endpoint
from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client, run
from tests.end_to_end.codex import Codex
from tests.end_to_end.conftest import Install
from tests.end_to_end.gemini import Gemini
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.script import call, say
from tests.end_to_end.terminal import Terminal
from tests.integration.world import Home, Join, until

QUESTION = "Is the parser finished?"
FINAL = "That is all."
EVIDENCE = {each.short: INTEGRATIONS[each.kind].evidence for each in (Claude, Codex, Gemini)}
INSTALL_S = 60.0


def install_palaver(home: Home, client: Client) -> None:
    """Install palaver into a client's own settings, as a person would."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "palaver"), "install", client.short, "--user", "--yes"],
        env={**client.environment(), "PALAVER_HOME": str(home.path), "PATH": os.environ["PATH"]},
        cwd=client.project,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def equip(home: Home, client: Client) -> None:
    """A client with palaver, and the broker ready for its hooks."""
    await asyncio.to_thread(install_palaver, home, client)
    await until(lambda: served(home), what="hooks over HTTP")


def served(home: Home) -> bool:
    """Whether the broker listens for hooks."""
    endpoint = peek_endpoint(str(home.path))
    assert endpoint is not None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", endpoint.port)) == 0


async def until_read(sender: Agent, message: str, evidence: str) -> None:
    """Wait until a receipt says so, and by what."""

    async def read() -> bool:
        (seen,) = (await sender.status(message)).recipients
        return (seen.state, seen.evidence) == ("read", evidence)

    await until(read, what=f"{message} read by {evidence}")


@pytest.mark.parametrize("short", ["claude", "codex", "gemini"])
async def test_mail_enters_a_running_turn_once(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, mesh=False)
    await equip(home, client)
    release = asyncio.Event()
    model.play(
        short,
        call("list_peers")._replace(hold=release),
        call("list_peers"),
        say(FINAL),
        unlisted=client.unlisted,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Look around."))
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        second = await model.request(short, index=1)
        await model.request(short, index=2)
    assert running.result().code == 0, running.result()
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
    await until_read(alice, sent.id, EVIDENCE[short])


@pytest.mark.parametrize("short", ["claude", "codex", "gemini"])
async def test_mail_enters_at_the_end_of_a_turn_once(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, mesh=False)
    await equip(home, client)
    release = asyncio.Event()
    model.play(short, say("First.")._replace(hold=release), say(FINAL), unlisted=client.unlisted)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Say something."))
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        second = await model.request(short, index=1)
    assert running.result().code == 0, running.result()
    assert running.result().text.endswith(FINAL), running.result()
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
    await until_read(alice, sent.id, EVIDENCE[short])


@pytest.mark.parametrize("short", ["claude", "codex"])
async def test_mail_wakes_an_idle_session_once(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, mesh=False)
    await equip(home, client)
    model.play(short, say("Ready."), say(FINAL), unlisted=client.unlisted)
    async with Terminal.open(client) as terminal:
        await terminal.shows(client.ready_mark)
        await terminal.type("Get ready.")
        await terminal.shows("Ready.")
        await terminal.idle()
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        second = await model.request(short, QUESTION)
        await terminal.shows(FINAL)
        await until_read(alice, sent.id, EVIDENCE[short])
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
