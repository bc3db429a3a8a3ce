"""Codex as its human starts it: hooks run once they are trusted, and all terminals share one daemon.

Each session there is an agent of its own, mail goes to the right one, and when its terminal is closed the
agent is offline and its mail waits.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.end_to_end.clients import Client
from tests.end_to_end.mesh import statuses, until_known, until_status
from tests.end_to_end.script import Request, say
from tests.end_to_end.stage import (
    END,
    FINAL,
    INSTALL_S,
    LOOK,
    QUESTION,
    Stage,
    once,
    open_stage,
    processes_of,
)
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_faults import session_of
from tests.end_to_end.trust import NO_DAEMON, Cautious, cautious, trust

SECOND = "And is the lexer finished?"


@asynccontextmanager
async def open_cautious(folder: Path) -> AsyncGenerator[tuple[Stage, Cautious]]:
    """A stage with a Codex whose hooks are reviewed."""
    async with open_stage("codex", folder) as stage, cautious(stage) as client:
        yield stage, client


def check(stage: Stage) -> subprocess.CompletedProcess[str]:
    """Ask tellwire whether all is in place."""
    own = {"TELLWIRE_HOME": str(stage.home.path), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [str(Path(sys.executable).parent / "tellwire"), "install", "codex", "--user", "--check"],
        env={**stage.client.environment(), **own},
        cwd=stage.client.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )


async def settle(client: Client, terminal: Terminal, word: str) -> None:
    """A first turn, to its end."""
    await terminal.shows(client.ready_mark)
    await terminal.type(f"Get ready {word}.")
    await terminal.shows(f"Ready {word}.")
    await terminal.idle()


def ready(word: str) -> tuple[str, str]:
    """What is typed, and what the model says to it."""
    return f"Get ready {word}.", f"Ready {word}."


async def test_hooks_run_only_after_their_human_has_trusted_them(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, _):
        await stage.during_turn([QUESTION], LOOK, END)
        assert not any(QUESTION in request.text for request in stage.requests), "a hook ran"
        before = check(stage)
        assert before.returncode != 0
        assert "Trust all and continue" in before.stdout
        await trust(stage.home, stage.client, stage.agent)
        after = check(stage)
        assert after.returncode == 0, after.stdout + after.stderr
        _, (sent,) = await stage.during_turn([SECOND], LOOK, END)
        once(stage.requests[-1])
        once(stage.requests[-1], SECOND)
        await stage.until_read(sent)


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_sessions_on_one_daemon_in_two_folders_get_their_own_mail(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage.home, stage.client, stage.agent)
        other = Cautious(client.home, tmp_path / "yard", client.model_url)
        client.trust_project(other.project)
        stage.play(*(say(answer)._replace(when=typed) for typed, answer in map(ready, ("one", "two"))))
        async with Terminal.open(client) as first, Terminal.open(other) as second:
            await settle(client, first, "one")
            await settle(other, second, "two")
            for name, word in (("shop-codex", "one"), ("yard-codex", "two")):
                stage.play(END)
                await until_known(stage.alice, name)
                await wake(stage, name, word)


async def wake(stage: Stage, name: str, word: str) -> None:
    """Mail starts a turn, in the session that it is for."""
    sent = await stage.alice.send(name, f"Mail for {word}, idle.")
    asked = await stage.request(f"Mail for {word}, idle.")
    check_place(asked, word, "idle")
    await stage.until_read(sent.id)


def check_place(asked: Request, word: str, when: str) -> None:
    """A mail is in the context of the session that it is for, once."""
    once(asked, f"Mail for {word}, {when}.")
    assert ready(word)[0] in asked.text, f"mail for {word} is in the other session"


@pytest.mark.requirement("WAKE-1", "REC-3", stage="clients")
async def test_sessions_in_one_folder_get_their_own_mail_in_every_state(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage.home, stage.client, stage.agent)
        stage.play(*(say(answer)._replace(when=typed) for typed, answer in map(ready, ("one", "two"))))
        async with Terminal.open(client) as first:
            await until_known(stage.alice, "shop-codex")
            async with Terminal.open(client) as second:
                await until_known(stage.alice, "shop-codex-2")
                seats = (("shop-codex-2", "two", second), ("shop-codex", "one", first))
                for (
                    _,
                    word,
                    terminal,
                ) in seats:  # both were there before the first prompt, and in another order
                    await settle(client, terminal, word)
                for name, word, terminal in seats:
                    await give_in_turn(stage, name, word, terminal)
                    stage.play(END)
                    await wake(stage, name, word)
                    await terminal.idle()
                for word, other in (("one", "two"), ("two", "one")):
                    mixed = [each for each in stage.requests if ready(word)[0] in each.text]
                    assert not any(f"Mail for {other}" in each.text for each in mixed)


async def give_in_turn(stage: Stage, name: str, word: str, terminal: Terminal) -> None:
    """Mail during a tool call, and more during the last answer of the turn."""
    typed, look, last = f"Look around {word}.", asyncio.Event(), asyncio.Event()
    steps = (LOOK._replace(hold=look), say("So far.")._replace(hold=last), END)
    stage.play(*(step._replace(when=typed) for step in steps))
    await terminal.type(typed)
    await stage.request(typed)
    ids: list[str] = []
    for when, release in (("mid-turn", look), ("at the end", last)):
        ids.append((await stage.alice.send(name, f"Mail for {word}, {when}.")).id)
        release.set()
        check_place(await stage.request(f"Mail for {word}, {when}."), word, when)
    await terminal.shows(FINAL)
    await stage.until_read(*ids)
    await terminal.idle()


@pytest.mark.requirement("REC-1", stage="clients")
async def test_an_agent_whose_terminal_is_closed_is_offline_and_its_mail_waits_for_its_return(
    tmp_path: Path,
) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage.home, stage.client, stage.agent)
        typed, answer = ready("one")
        stage.play(say(answer)._replace(when=typed))
        async with Terminal.open(client) as terminal:
            await settle(client, terminal, "one")
            await until_known(stage.alice, stage.agent)
            release = asyncio.Event()
            stage.play(END._replace(when="Think about it.", hold=release))
            await terminal.type("Think about it.")
            await stage.request("Think about it.")
        assert statuses(stage.home)[stage.agent] == "online", "its turn goes on without a terminal"
        (early,) = await stage.send("Mail before the end.")
        stage.play(END)
        release.set()
        await stage.until_read(early)
        await until_status(stage.home, stage.agent, "offline")
        asked = len(stage.requests)
        sent = await stage.alice.send(stage.agent, QUESTION)
        assert sent.status == "queued"
        assert threads(client), "the daemon has ended the session: nothing was shown"
        assert (len(stage.requests), await stage.state(sent.id)) == (asked, ("pending", ""))
        stage.play(END)
        async with Terminal.open(client, "resume", session_of(client)):
            once(await stage.request(QUESTION))
            await stage.until_read(sent.id)
            assert typed in stage.requests[-1].text, "not the same session"
            await until_known(stage.alice, stage.agent)


def threads(client: Client) -> list[int]:
    """The shims that the daemon still runs for its sessions."""
    running = processes_of(str(client.home).encode())
    return [pid for pid, words in running.items() if b"mcp_shim" in words]


@pytest.mark.requirement("REC-1", stage="clients")
async def test_a_terminal_opened_again_has_its_name_and_its_mail(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage.home, stage.client, stage.agent)
        async with Terminal.open(client) as terminal:
            await until_known(stage.alice, stage.agent)
            await terminal.shows(client.ready_mark)
            await terminal.type("/quit")
            await terminal.ended()
        await until_status(stage.home, stage.agent, "offline")
        sent = await stage.alice.send(stage.agent, QUESTION)
        typed, answer = ready("again")
        stage.play(say(answer)._replace(when=typed), END, END)
        async with Terminal.open(client) as terminal:
            await settle(client, terminal, "again")
            once(await stage.request(QUESTION))
            await stage.until_read(sent.id)
            assert set(statuses(stage.home)) == {"alice", stage.agent}


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_without_a_daemon_mail_after_an_interrupt_comes_by_a_line_that_is_typed(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage.home, stage.client, stage.agent)
        typed, answer = ready("one")
        stage.play(say(answer)._replace(when=typed), say("never said")._replace(hold=asyncio.Event()), END)
        async with Terminal.open(client, NO_DAEMON) as terminal:
            await settle(client, terminal, "one")
            await terminal.type("Think about it.")
            await stage.request("Think about it.")
            await terminal.interrupt()
            (sent,) = await stage.send(QUESTION)
            once(await stage.request(QUESTION))
            await stage.until_read(sent)
        await until_status(stage.home, stage.agent, "offline")
