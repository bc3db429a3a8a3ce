"""`tellwire doctor --probe` with real clients: an idle session is reached, and by which way is told."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.mesh import until_known
from tests.end_to_end.script import say
from tests.end_to_end.stage import END, Stage, open_stage
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, settle
from tests.integration.world import tellwire_command, until

PROBE = "A test by `tellwire doctor`"


@pytest.mark.requirement("WAKE-2", stage="clients")
@pytest.mark.parametrize(("row", "way"), [("gemini", "typing"), ("claude", "waiter")])
async def test_a_probe_wakes_an_idle_session_and_names_the_way(row: str, way: str, tmp_path: Path) -> None:
    async with open_stage(row, tmp_path) as stage:
        stage.play(say(READY), END)
        async with Terminal.open(stage.client) as terminal:
            await settle(stage, terminal)
            await until_known(stage.alice, stage.agent)
            await until(lambda: listed(stage, way), what=f"{way} in the listing")
            done = await asyncio.to_thread(
                stage.home.tellwire,
                "doctor",
                stage.agent,
                "--probe",
                "--as",
                "ann",
                "--wait",
                "30s",
                "--json",
            )
        document = json.loads(done.stdout)
        assert (done.returncode, document["fine"]) == (0, True), done.stdout
        assert document["probe"]["state"] == "read"
        assert document["probe"]["evidence"] == stage.client.evidence
        assert way in document["probe"]["by"]
        assert sum(PROBE in request.text for request in stage.requests) == 1


@pytest.mark.requirement("FIRST-2", stage="contact")
@pytest.mark.parametrize(
    ("row", "path"), [("claude", ".claude/settings.json"), ("gemini", ".gemini/settings.json")]
)
async def test_a_session_that_runs_without_our_hooks_is_found_deaf(
    row: str, path: str, tmp_path: Path
) -> None:
    async with open_stage(row, tmp_path) as stage:
        settings = stage.client.home / path
        whole = json.loads(settings.read_text("utf-8"))
        settings.write_text(json.dumps({**whole, "hooks": {}}), "utf-8")
        stage.play(say(READY), END)
        async with Terminal.open(stage.client) as terminal:
            await settle(stage, terminal)
            await until_known(stage.alice, stage.agent)
            sent = await stage.alice.send(stage.agent, "Are you there?")
            settings.write_text(json.dumps(whole), "utf-8")  # installed behind its back
            done = await asyncio.to_thread(subprocess.run, **doctor_of(stage))
            listing = (await asyncio.to_thread(stage.home.tellwire, "list", "--all")).stdout
        assert (sent.status, "no hook of its session" in sent.why) == ("queued", True)
        assert "online (deaf)" in listing
        assert f"fail  {stage.agent}  deaf: no hook of its session has run" in done.stdout
        assert f"It started before {settings} was last changed" in " ".join(done.stdout.split())
        assert done.returncode != 0
        assert len(stage.requests) == 1, "nothing woke it"


def doctor_of(stage: Stage) -> dict[str, Any]:
    """How to run it as the person whose client it is."""
    environment = stage.home.environment() | {"HOME": str(stage.client.home), "COLUMNS": "400"}
    command = tellwire_command("doctor", stage.agent)
    return {"args": command, "env": environment, "capture_output": True, "text": True, "check": False}


async def listed(stage: Stage, way: str) -> bool:
    """Whether the listing names the way by which the agent is woken now."""
    done = await asyncio.to_thread(stage.home.tellwire, "list", "--all")
    lines = [line for line in done.stdout.splitlines() if line.startswith(stage.agent)]
    return any("idle" in line and way in line for line in lines)
