"""The record of Claude Code: what its parts are, and what is special about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellwire.clients.claude import deny_rules
from tellwire.clients.claude.hooks import REFUSAL, ClaudeHooks
from tellwire.clients.claude.install import KIND, session, targets
from tellwire.clients.claude.transcript import ClaudeTranscript
from tellwire.clients.client import (
    FOLDER,
    SET_UP,
    Client,
    EnvRules,
    LaunchWords,
    McpTraits,
    ScreenTraits,
    Switch,
    Writes,
    prompt,
)
from tellwire.clients.ports import ClientThreads, Doors, SessionPort, Waker

STATE_BYTES_MAX = 64 << 20
RULE = r"─{8,}.*"


def is_distrusted(cwd: str, env: Mapping[str, str]) -> bool:
    """It asks only in a window; without one it takes every folder, and what that tells it to run."""
    home = Path(env.get("CLAUDE_CONFIG_DIR") or env.get("HOME", "/nonexistent"))
    try:
        with open(home / ".claude.json", "rb") as file:
            known: Any = json.loads(file.read(STATE_BYTES_MAX)).get("projects", {})
        folders = [cwd, *map(str, Path(cwd).parents)]
        return not any(known[each].get("hasTrustDialogAccepted") for each in folders if each in known)
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return True


def wakers(port: SessionPort, doors: Doors, threads: ClientThreads | None) -> list[Waker]:
    """Its hooks can run a program in the background while a session is idle."""
    del port, threads
    return [doors.waiter, doors.typing]


CLAUDE = Client(
    kind=KIND,
    name="claude",
    title="Claude Code",
    program="claude",
    npm="@anthropic-ai/claude-code",
    lowest=(2, 1, 300),
    highest_known=(2, 1, 325),
    mcp=McpTraits(
        info="claude-code",
        short="claude",
        owns=True,
        shows=True,
        text_only=True,
        conversation="CLAUDE_CODE_SESSION_ID",
    ),
    hooks=ClaudeHooks(),
    tells_cuts=True,
    transcript=ClaudeTranscript(),
    launch=LaunchWords(headless=("-p",), once=("-p", "--print")),
    environment=EnvRules(
        keys=(
            "ANTHROPIC_",
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_DISABLE_",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
        )
    ),
    screen=ScreenTraits(
        prompt=prompt("❯[\\s\xa0]", RULE, RULE),
        dialogs=(
            (FOLDER, re.compile(r"Yes, I trust this folder")),
            (
                SET_UP,
                re.compile(
                    r"Choose the text style|Select login method|Do you want to use this API key|"
                    r"Let's get started"
                ),
            ),
        ),
        is_distrusted=is_distrusted,
    ),
    writes=Writes(
        event="PreToolUse",
        tools={
            "Write": "file_path",
            "Edit": "file_path",
            "MultiEdit": "file_path",
            "NotebookEdit": "notebook_path",
        },
        refusal=REFUSAL,
    ),
    hold=deny_rules.hold,
    targets=targets,
    session=session,
    plugin_notes=(
        "Start it with `claude --plugin-dir {folder}`.",
        'It asks once for each tool, unless your settings allow "mcp__plugin_tellwire_tellwire__*".',
    ),
    switches=(Switch(("disableAllHooks",), True),),
    wakers=wakers,
)
