"""Sessions whose hooks were never heard: every view says so, and a sender is told the truth (FIRST-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tellwire.protocol.operations.feed import Overview
from tests.integration.hook_client import Client, open_client
from tests.integration.world import WITHIN_S, Home, Join, until

FIRST_2 = pytest.mark.requirement("FIRST-2", stage="contact")


@pytest.fixture(autouse=True)
def nobodys_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No client is installed here, and nobody's settings are looked at."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.fixture
async def deaf(home: Home, tmp_path: Path) -> AsyncIterator[tuple[Client, Client]]:
    """Two sessions of Claude Code in one folder, each with a waiter, of which no hook came."""
    home.up()
    async with AsyncExitStack() as stack:
        opened: list[Client] = []
        for name in ("one", "two"):
            opened.append(
                await stack.enter_async_context(
                    open_client(home, tmp_path / f"{name}.jsonl", program="claude-code", name=name)
                )
            )
            await opened[-1].do("wait", client="claude-code")
        yield opened[0], opened[1]


def shown(home: Home, *words: str) -> str:
    done = home.tellwire(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def record_of(home: Home, name: str) -> dict[str, Any]:
    return json.loads(shown(home, "info", name, "--json"))


@FIRST_2
@pytest.mark.usefixtures("deaf")
async def test_a_session_that_no_hook_was_heard_of_is_called_deaf_everywhere(home: Home, join: Join) -> None:
    alice = await join("alice")
    table = shown(home, "list", "--all").splitlines()
    for name in ("one", "two"):
        sent = await alice.send(name, "Are you there?")
        assert (sent.status, "no hook of its session" in sent.why) == ("queued", True)
        assert "deaf" in next(line for line in table if line.startswith(f"{name} "))
        record = record_of(home, name)
        assert (record["deaf"], record["status"]) == (True, "online")
        wakes = [path for path in record["paths"] if path["name"] != "get_messages"]
        assert [path for path in wakes if path["works"]] == [], "a waiter alone proves nothing"
        assert all(path["unproved"] for path in wakes)
        assert "path waiter        unproved" in shown(home, "info", name)
    done = home.tellwire("doctor")
    assert done.returncode == 75, "mail waits for sessions that cannot get it"
    for name in ("one", "two"):
        assert f"fail  {name}     deaf: no hook of its session has run" in done.stdout
    printed = home.tellwire("send", "one", "Hello?", "--as", "script").stdout
    assert "queued  one is online but cannot be reached now" in printed
    assert "no hook of its session has run" in printed


@FIRST_2
async def test_once_a_hook_is_heard_its_paths_work_and_its_mail_is_received(
    home: Home, deaf: tuple[Client, Client], join: Join
) -> None:
    alice = await join("alice")
    await deaf[0].hook("SessionStart", kind="claude-code", source="startup")

    def is_bound() -> bool:
        record = record_of(home, "one")
        return not record["deaf"] and any(path["works"] and path["wakes"] for path in record["paths"])

    await until(is_bound, what="bound")
    assert (await alice.send("one", "Hello.")).status == "received"
    assert (await alice.send("two", "Hello.")).status == "queued", "its neighbour's hook proves nothing of it"


@FIRST_2
async def test_a_dialog_is_found_and_shown_to_the_sender(
    home: Home, deaf: tuple[Client, Client], join: Join
) -> None:
    alice = await join("alice")
    await deaf[0].hook("UserPromptSubmit", kind="claude-code", prompt="Work.", prompt_id="p1")
    wanted: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
    await deaf[0].hook("PermissionRequest", kind="claude-code", prompt_id="p1", **wanted)
    await deaf[0].hook("Notification", kind="claude-code", message="Claude needs you")
    await until(lambda: record_of(home, "one")["activity"] == "waiting", what="the dialog")
    async with tellwire.watch(home=home.path) as feed, asyncio.timeout(WITHIN_S):
        page = await feed.client.call(Overview())
    assert [pulse.wants for pulse in page.pulses if pulse.activity == "waiting"] == ["Bash: rm -rf build"]
    sent = await alice.send("one", "Hello.")
    assert (sent.status, "dialog" in sent.note) == ("received", True)
    (receipt,) = (await alice.status(sent.id)).recipients
    assert receipt.why.startswith("a dialog in its terminal is waiting for its human")
    told = shown(home, "doctor", "one")
    assert "warn  one" in told
    assert "Answer the dialog in its terminal" in told
    assert "1 message: a dialog in its terminal" in shown(home, "info", "one")
    assert "one pending (a dialog in its terminal" in shown(home, "history", "--full")


@FIRST_2
async def test_what_only_pulls_is_received_and_read_when_it_next_asks(
    home: Home, tmp_path: Path, join: Join
) -> None:
    home.up()
    alice = await join("alice")
    async with open_client(home, tmp_path / "none", program="some-editor", name="editor"):
        sent = await alice.send("editor", "Hello.")
        assert (sent.status, sent.note) == ("received", "read when it next asks")
        assert record_of(home, "editor")["deaf"] is False
