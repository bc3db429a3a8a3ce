"""Codex as its human starts it: hooks run once they are trusted, and all sessions share one daemon.

The other tests start it with a flag that passes the review by, and with it come no daemon and no trust.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.end_to_end.clients import Client
from tests.end_to_end.codex import Codex
from tests.end_to_end.mesh import statuses, until_known
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, INSTALL_S, LOOK, QUESTION, Stage, once, open_stage, processes_of
from tests.end_to_end.terminal import HAND_S, SHOWN_S, Terminal
from tests.integration.world import pass_time, until

DIALOG = "Hooks need review"
TRUST_ALL = "2"
CHOSEN = "› 2."
SECOND = "And is the lexer finished?"


class Cautious(Codex):
    """Codex without what passes the review by."""

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """As usual, and hooks are reviewed."""
        return [word for word in super().headless(prompt, resume=resume) if "hook-trust" not in word]

    def interactive(self) -> list[str]:
        """Nothing to add."""
        return []


@asynccontextmanager
async def open_cautious(folder: Path) -> AsyncGenerator[tuple[Stage, Cautious]]:
    """A stage with such a Codex; its daemon ends with the block."""
    async with open_stage("codex", folder) as stage:
        stage.client = client = Cautious(stage.client.home, stage.client.project, stage.client.model_url)
        try:
            yield stage, client
        finally:
            end_daemon(client)


def end_daemon(client: Client) -> None:
    """End the daemon, and what looks after it."""
    for pid, words in processes_of(str(client.home).encode()).items():
        if b"app-server" in words:
            os.kill(pid, signal.SIGKILL)


async def trust(stage: Stage) -> None:
    """Answer the dialog, as the human does."""
    async with Terminal.open(stage.client) as terminal:
        await terminal.shows(DIALOG)

        async def answered() -> bool:
            """It drops keys at first, and may take a number for an answer or for a choice."""
            await terminal.press(TRUST_ALL)
            await pass_time(HAND_S)
            if CHOSEN in await terminal.visible():
                await terminal.press("Enter")
                await pass_time(HAND_S)
            return DIALOG not in await terminal.visible()

        await until(answered, within_s=SHOWN_S, what="an answer to the dialog")
        await terminal.shows(stage.client.ready_mark)
    end_daemon(stage.client)  # it would go on with the session
    await until(lambda: statuses(stage.home).get(stage.agent) != "online", what="the end of the session")


def check(stage: Stage) -> subprocess.CompletedProcess[str]:
    """Ask palaver whether all is in place."""
    own = {"PALAVER_HOME": str(stage.home.path), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [str(Path(sys.executable).parent / "palaver"), "install", "codex", "--user", "--check"],
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
        await trust(stage)
        after = check(stage)
        assert after.returncode == 0, after.stdout + after.stderr
        _, (sent,) = await stage.during_turn([SECOND], LOOK, END)
        once(stage.requests[-1])
        once(stage.requests[-1], SECOND)
        await stage.until_read(sent)


async def test_sessions_on_one_daemon_get_their_own_mail_and_no_other(tmp_path: Path) -> None:
    async with open_cautious(tmp_path) as (stage, client):
        await trust(stage)
        other = Cautious(client.home, tmp_path / "yard", client.model_url)
        client.trust_project(other.project)
        stage.play(*(say(answer)._replace(when=typed) for typed, answer in map(ready, ("one", "two"))))
        async with Terminal.open(client) as first, Terminal.open(other) as second:
            await settle(client, first, "one")
            await settle(other, second, "two")
            for name, word in (("shop-codex", "one"), ("yard-codex", "two")):
                stage.play(END)
                await until_known(stage.alice, name)
                sent = await stage.alice.send(name, f"This is for {word}.")
                asked = await stage.request(f"This is for {word}.")
                once(asked, f"This is for {word}.")
                assert ready(word)[0] in asked.text, f"mail for {word} is in the other session"
                await stage.until_read(sent.id)
