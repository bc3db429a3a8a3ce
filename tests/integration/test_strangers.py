"""Clients with hooks that are not on the mesh, in the folder of one that is: nobody takes them for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tellwire import Agent
from tellwire.install.endpoint import HookEndpoint
from tests.integration.fake_claude import SESSION as KID
from tests.integration.fake_clients import FakeClient
from tests.integration.hook_client import SESSION, Client, activity, open_client, restart, state_of
from tests.integration.leave import PROGRAMS, served, written
from tests.integration.test_hook_doors import post
from tests.integration.test_spawning import end_children
from tests.integration.world import ROOT, Home, Join, until

STRANGE = "11111111-1111-4111-8111-111111111111"
CLAUDE = "claude-code"
PROMPTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini-cli": "BeforeAgent"}
every_client = pytest.mark.parametrize("kind", PROMPTS)


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up()
    return home


@pytest.fixture
async def stranger(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A client that has hooks and no name."""
    async with open_client(running, tmp_path / "strange.jsonl", name="") as client:
        yield client


async def over_http(endpoint: HookEndpoint, kind: str, cwd: Path, **fields: Any) -> bytes:
    """A hook that does not tell its process; what it is answered."""
    told = {"session_id": STRANGE, "cwd": str(cwd), "transcript_path": "", **fields}
    status, answer = await post(endpoint, json.dumps(told).encode(), target=f"/hooks/{kind}")
    assert status == 200
    return answer if answer != b"{}" else b""


@pytest.fixture
async def boss(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """An agent that can start children whose client is Claude Code; those work in `ROOT`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    FakeClient(folder, monkeypatch).does({})
    home.up()
    try:
        async with open_client(home, tmp_path / "boss.jsonl", name="boss") as client:
            yield client
    finally:
        home.end()
        end_children(home)


@pytest.mark.requirement("CHILD-5", stage="lineage")
async def test_a_stranger_in_the_folder_of_a_scoped_child_is_not_that_child(
    boss: Client, home: Home, join: Join, tmp_path: Path
) -> None:
    alice = await join("alice")
    endpoint = await served(home)
    mine = tmp_path / "src"
    mine.mkdir()
    words = ["kid", CLAUDE, "--task", "Work.", "--scope", str(mine), "--headless", "--cwd", str(ROOT)]
    started = await boss.do("tellwire", words=["spawn", *words])
    assert started["code"] == 0, started
    await until(lambda: busy(alice, "kid"), what="a child at work")
    await until(lambda: "messages_delivered" in home.tellwire("audit").stdout, what="it has its task")
    sent = await alice.send("kid", "For the kid alone.")
    told = {"session_id": STRANGE, "cwd": str(ROOT), "kind": CLAUDE}
    asked = written(CLAUDE, tmp_path / "README.md")
    async with open_client(home, tmp_path / "strange.jsonl", name="") as stranger:
        assert await stranger.hook("SessionStart", source="startup", **told) == {}
        assert await stranger.hook("UserPromptSubmit", prompt="Work.", **told) == {}
        assert await stranger.hook("", **{**told, **asked}) == {}
        assert await over_http(endpoint, CLAUDE, ROOT, **asked) == b"", "its process is known by now"
    await restart(home, alice, "kid")
    endpoint = await served(home)
    assert await over_http(endpoint, CLAUDE, ROOT, **asked) == b"", "to this broker it is not"
    assert (await state_of(alice, sent.id))[0] == "pending"
    refused = await over_http(endpoint, CLAUDE, ROOT, **{**asked, "session_id": KID})
    assert b"is outside your scope" in refused


async def busy(asker: Agent, name: str) -> bool:
    """Whether a turn of an agent is under way."""
    return await activity(asker, name) == "busy"


@every_client
async def test_a_stranger_beside_an_agent_gets_none_of_its_mail(
    running: Home, join: Join, tmp_path: Path, stranger: Client, kind: str
) -> None:
    alice = await join("alice")
    async with open_client(running, tmp_path / "rollout.jsonl", program=PROGRAMS[kind]) as client:
        await alice.send("worker", "For the worker alone.")
        told = {"session_id": STRANGE, "cwd": str(ROOT), "kind": kind}
        assert await stranger.hook("SessionStart", source="startup", **told) == {}
        assert await stranger.hook(PROMPTS[kind], prompt="Work.", **told) == {}
        assert await activity(alice) == "", "what it does is not the worker's doing"
        given = await client.hook(PROMPTS[kind], kind=kind, prompt="Work.", cwd=str(ROOT))
        assert "For the worker alone." in json.dumps(given)


async def test_a_hook_that_tells_no_process_is_of_the_only_one_near_unless_that_has_another_session(
    running: Home, join: Join, tmp_path: Path
) -> None:
    alice = await join("alice")
    endpoint = await served(running)
    async with open_client(running, tmp_path / "rollout.jsonl", program=CLAUDE):
        prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "Work."}
        assert await over_http(endpoint, CLAUDE, ROOT, session_id=SESSION, **prompt) == b""
        assert await activity(alice) == "busy", "it is known whose that was"
        await alice.send("worker", "For the worker alone.")
        assert await over_http(endpoint, CLAUDE, ROOT, **prompt) == b""
        used: dict[str, Any] = {"hook_event_name": "PostToolBatch", "tool_calls": []}
        given = await over_http(endpoint, CLAUDE, ROOT, session_id=SESSION, **used)
        assert b"For the worker alone." in given
