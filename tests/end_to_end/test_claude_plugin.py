"""Claude Code with tellwire as a plugin folder: its tools, and mail into a turn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client
from tests.end_to_end.model import Model
from tests.end_to_end.script import call
from tests.end_to_end.stage import END, FINAL, INSTALL_S, QUESTION, Stage, is_served, once
from tests.integration.world import Home, Join, take, until

TOOLS = "mcp__plugin_tellwire_tellwire__"


class Plugged(Claude):
    """Started with `--plugin-dir`; its settings only allow the tools."""

    unlisted = f"{TOOLS}{{}}"

    @property
    def plugin(self) -> Path:
        """The plugin's folder."""
        return self.home / "plugin"

    def configure(self, server: object = (), hook: str = "") -> None:
        """Nothing of tellwire."""
        del server
        super().configure((), hook)
        self.write(".claude/settings.json", {"permissions": {"allow": [f"{TOOLS}*"]}})

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """The same, with the plugin."""
        return ["--plugin-dir", str(self.plugin), *super().headless(prompt, resume=resume)]


def make_plugin(home: Home, client: Client, folder: Path) -> None:
    """As a person would."""
    program = str(Path(sys.executable).parent / "tellwire")
    done = subprocess.run(
        [program, "install", "claude", "--plugin", str(folder), "--yes"],
        env={**client.environment(), "TELLWIRE_HOME": str(home.path), "PATH": os.environ["PATH"]},
        cwd=client.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.requirement("F2-7", stage="clients")
async def test_a_plugin_folder_brings_the_tools_and_the_mail(
    home: Home, model: Model, join: Join, tmp_path: Path
) -> None:
    stage = Stage("claude", home, model, tmp_path)
    stage.client = client = Plugged(tmp_path / "claude", tmp_path / "shop", model.url("claude"))
    client.configure()
    make_plugin(home, client, client.plugin)
    await until(lambda: is_served(home), what="hooks over HTTP")
    stage.alice = await join("alice")
    steps = (call("agent_send", to="alice", body="I have begun."), END)
    ran, (sent,) = await stage.during_turn([QUESTION], *steps)
    assert ran.text.endswith(FINAL)
    (begun,) = await take(stage.alice, 1)
    assert (begun.sender, begun.body) == (stage.agent, "I have begun.")
    once(stage.requests[-1])
    await stage.until_read(sent)
