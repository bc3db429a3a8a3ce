"""A client in a real tmux that only typing reaches: mail starts a turn, once, and only if it is idle."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tellwire import Agent
from tellwire.daemon import Times
from tellwire.sessions.typing import TypingTimes
from tellwire.system.panes import WAKE_LINE
from tellwire.wiring import SessionTimes
from tests.integration.test_panes import Screen
from tests.integration.tmux import Tmux
from tests.integration.world import Home, Join, pass_time, until

NEVER_S = 2.0
"""Longer than a wake takes."""


class Client(Screen):
    """A stand-in for Gemini CLI, known to the broker as `worker`."""

    @property
    def entered(self) -> list[dict[str, str]]:
        """The lines that were entered, each with what the prompt hook gave."""
        path = self.folder / "lines"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def hook(self, event: str, **fields: Any) -> None:
        """Have the client run a hook, and wait for its end."""
        path = self.folder / "answers"
        before = len(path.read_text().splitlines()) if path.exists() else 0
        self.tell(do="hook", event=event, **fields)
        await until(
            lambda: path.exists() and len(path.read_text().splitlines()) > before, what=f"the hook {event}"
        )


HASTY = Times(sessions=SessionTimes(typing=TypingTimes(started_s=1.0, again_s=(0.5,))))


@pytest.fixture
async def client(home: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """An idle client that waits for its user."""
    home.up()
    async with open_client(home, tmp_path) as opened:
        yield opened


@pytest.fixture
async def hasty(home: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """The same before a broker that soon gives up, and soon tries again."""
    home.up(HASTY)
    async with open_client(home, tmp_path) as opened:
        yield opened


@asynccontextmanager
async def open_client(home: Home, tmp_path: Path) -> AsyncGenerator[Client]:
    """A client in a tmux of its own; both end with the block."""
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "LANG": "C.UTF-8"}
    words = (sys.executable, "-m", "tests.integration.prompting", str(tmp_path), "worker")
    async with Tmux.open(*words, environment={**usual, "TELLWIRE_HOME": str(home.path)}) as tmux:
        opened = Client(tmux, tmp_path, "")
        await opened.shows("Type your message")
        yield opened


async def wake_of(agent: Agent) -> tuple[str, bool, str]:
    """What the listing says: state, whether typing works, and what is in its way."""
    peer = await agent.peer("worker")
    (path,) = (each for each in peer.paths if each.name == "typing")
    return peer.activity, path.works, path.note


@pytest.mark.requirement("WAKE-1", "WAKE-2", stage="clients")
async def test_mail_wakes_an_idle_client_once_and_comes_with_the_prompt(client: Client, join: Join) -> None:
    alice = await join("alice")
    assert await wake_of(alice) == ("idle", True, "")
    sent = await alice.send("worker", "Is it done?")
    await until(lambda: client.entered, what="a line")
    await alice.send("worker", "And this?")
    (entered,) = client.entered
    assert entered["line"] == WAKE_LINE
    given = json.loads(entered["given"])["hookSpecificOutput"]["additionalContext"]
    assert f"peer-message id={sent.id} from=alice" in given
    path = next(each for each in (await alice.peer("worker")).paths if each.name == "typing")
    await until(lambda: typed(alice), what="the path's time")
    assert path.wakes
    await pass_time(NEVER_S)
    assert len(client.entered) == 1, "it is busy: the second waits for a hook of this turn"


async def typed(agent: Agent) -> bool:
    """Whether the listing knows that typing worked."""
    return any(each.name == "typing" and each.last_at for each in (await agent.peer("worker")).paths)


@pytest.mark.requirement("WAKE-1", stage="clients")
@pytest.mark.parametrize(("event", "state"), [("BeforeAgent", "busy"), ("Notification", "waiting")])
async def test_nothing_is_typed_while_the_client_is_busy_or_asks_its_human(
    client: Client, join: Join, event: str, state: str
) -> None:
    alice = await join("alice")
    await client.hook(event, prompt="Work.", notification_type="ToolPermission", message="May I?")
    assert (await wake_of(alice))[0] == state
    await alice.send("worker", "Is it done?")
    await pass_time(NEVER_S)
    assert client.entered == []
    assert "Type your message" in await client.tmux.screen()


@pytest.mark.requirement("WAKE-1", "WAKE-2", stage="clients")
async def test_what_a_human_types_is_left_alone_and_takes_the_mail_along(client: Client, join: Join) -> None:
    alice = await join("alice")
    await client.tmux.run("send-keys", "-l", "half a")
    await client.shows("> half a")
    sent = await alice.send("worker", "Is it done?")
    await until(lambda: in_the_way(alice, "there is text in its input line"), what="the note")
    assert client.entered == []
    await client.tmux.run("send-keys", "-l", " line")
    await client.tmux.run("send-keys", "Enter")
    await until(lambda: client.entered, what="a line")
    assert client.entered[0]["line"] == "half a line"
    assert sent.id in client.entered[0]["given"]


async def in_the_way(agent: Agent, note: str) -> bool:
    """Whether the listing says so."""
    return (await wake_of(agent))[1:] == (False, note)


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_what_was_in_the_way_is_tried_again(hasty: Client, join: Join) -> None:
    client = hasty
    alice = await join("alice")
    await client.tmux.run("copy-mode")
    sent = await alice.send("worker", "Is it done?")
    await until(lambda: in_the_way(alice, "its pane is in copy mode"), what="the note")
    await client.tmux.run("send-keys", "-X", "cancel")
    await until(lambda: client.entered, what="a line")
    assert [each["line"] for each in client.entered] == [WAKE_LINE]
    assert sent.id in client.entered[0]["given"]


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_a_muted_agent_is_not_woken_until_it_is_no_longer(
    client: Client, home: Home, join: Join
) -> None:
    alice = await join("alice")
    assert home.tellwire("mute", "worker", "--for", "1h").returncode != 0, "only the operator, and itself"
    client.tell(do="mute")
    await until(lambda: muted(alice, expected=True), what="muted")
    sent = await alice.send("worker", "Is it done?")
    assert sent.note == "muted: waits for its next turn"
    await pass_time(NEVER_S)
    assert client.entered == []
    client.tell(do="mute_off")
    await until(lambda: client.entered, what="a line")
    assert sent.id in client.entered[0]["given"]


async def muted(agent: Agent, *, expected: bool) -> bool:
    """Whether the listing says so."""
    return (await agent.peer("worker")).muted is expected


async def test_a_setting_switches_typing_off(home: Home, tmp_path: Path, join: Join) -> None:
    home.up(typing="false")
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "LANG": "C.UTF-8"}
    words = (sys.executable, "-m", "tests.integration.prompting", str(tmp_path), "worker")
    async with Tmux.open(*words, environment={**usual, "TELLWIRE_HOME": str(home.path)}) as tmux:
        await Client(tmux, tmp_path, "").shows("Type your message")
        alice = await join("alice")
        assert await wake_of(alice) == ("idle", False, "switched off in the settings")
        listed = home.tellwire("list").stdout
        assert "not wakeable" in listed
        await alice.send("worker", "Is it done?")
        await pass_time(NEVER_S)
        assert not (tmp_path / "lines").exists()


async def test_a_line_that_starts_nothing_is_not_typed_again(hasty: Client, join: Join, home: Home) -> None:
    client = hasty
    alice = await join("alice")
    client.tell(do="ignore")
    await until((client.folder / "answers").exists, what="its word")
    await alice.send("worker", "Is it done?")
    await until(lambda: in_the_way(alice, "a line was typed, but no turn began"), what="the note")
    await alice.send("worker", "And this?")
    await pass_time(NEVER_S)
    assert client.lines == [WAKE_LINE]
    assert "no turn began" in home.log
    await client.hook("BeforeTool", tool_name="ls", tool_input={})
    assert await wake_of(alice) == ("busy", True, ""), "it has shown life"


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_a_muting_that_ends_by_itself_wakes_for_what_waited(client: Client, join: Join) -> None:
    alice = await join("alice")
    client.tell(do="mute_for", length="3s")
    await until(lambda: muted(alice, expected=True), what="muted")
    sent = await alice.send("worker", "Is it done?")
    assert client.entered == []
    await until(lambda: client.entered, what="a line")
    assert sent.id in client.entered[0]["given"]


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_a_broker_killed_in_the_middle_of_typing_leaves_one_line_at_most(
    client: Client, home: Home, join: Join
) -> None:
    alice = await join("alice")
    sent = await alice.send("worker", "Is it done?")
    await client.shows(f"> {WAKE_LINE}")
    home.signal(Home.KILL)  # the shim and alice's client start the next one
    await alice.send("worker", "And this?")
    await until(lambda: is_back(alice), what="the client's shim")
    await until(lambda: entered_or_there(client), what="the line")
    await pass_time(NEVER_S)
    lines = [each["line"] for each in client.entered]
    assert lines in ([], [WAKE_LINE])
    if not lines:
        await client.tmux.run("send-keys", "Enter")
        await until(lambda: client.entered, what="a line")
    # If the broker died after Enter, this hook had nobody to ask; the next one has.
    await client.hook("AfterTool", tool_name="ls", tool_input={}, tool_response={})
    answers = (client.folder / "answers").read_text()
    given = "".join(each["given"] for each in client.entered) + answers
    (receipt,) = (await alice.status(sent.id)).recipients
    # Handed to a hook that died with the broker it stays `delivered` until the client's own record tells.
    assert (given.count(f"id={sent.id} "), receipt.state) in ((1, "delivered"), (0, "delivered"))


async def is_back(agent: Agent) -> bool:
    """Whether the client has found the next broker."""
    return (await agent.peer("worker")).status == "online"


async def entered_or_there(client: Client) -> bool:
    """Whether our line was sent off, or stands there whole."""
    return bool(client.entered) or f"> {WAKE_LINE}\n" in await client.tmux.screen()


async def test_two_messages_at_once_are_one_line(client: Client, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    ids = [(await each.send("worker", "Is it done?")).id for each in (alice, bob, alice, bob)]
    await until(lambda: client.entered, what="a line")
    await pass_time(NEVER_S)
    assert [each["line"] for each in client.entered] == [WAKE_LINE]
    assert all(f"id={each} " in client.entered[0]["given"] for each in ids)


@pytest.mark.requirement("SC-9", stage="links")
async def test_without_a_record_the_session_is_told_from_the_terminal(client: Client, join: Join) -> None:
    assert client.folder.exists()
    alice = await join("alice")
    found = await alice.turns.transcript("worker")
    assert (found.source, found.agent) == ("terminal", "worker")
    assert "Type your message" in found.text
    short = await alice.turns.transcript("worker", tail=5)
    assert (len(short.text), short.cut) == (5, True)
