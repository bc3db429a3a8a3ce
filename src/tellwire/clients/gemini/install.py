"""Gemini CLI: a trusted MCP server, and hooks."""

from __future__ import annotations

import os
from typing import Any

from tellwire.clients.client import (
    HOOK_S,
    SERVER,
    InstallPlace,
    Programs,
    Target,
)
from tellwire.clients.entries import Hooks, MemberEntry

KIND = "gemini-cli"
EVENTS = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd")
MATCHERS = {"BeforeTool": "^invoke_agent$"}
WRITERS = "^(write_file|replace)$"
"""Of tools before they run, only these and the one that starts a sub-agent are of interest: the others cost
nothing."""
GATED = ("AfterTool",)


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The entries of its `settings.json`."""
    root = place.project if place.scope == "project" else place.env.get("GEMINI_CLI_HOME") or place.home
    server = {"command": programs.server[0], "args": list(programs.server[1:]), "trust": True}
    guard = ({"matcher": WRITERS}, _hook(programs.guard(KIND)))
    hooks = [
        Hooks(
            event,
            (_hook(programs.gate(KIND) if event in GATED else programs.hook(KIND)),),
            {"matcher": MATCHERS.get(event, "*")},
            (guard,) if event == "BeforeTool" else (),
        )
        for event in EVENTS
    ]
    entries = (MemberEntry(("mcpServers", SERVER), server), *hooks)
    return [
        Target(path=os.path.join(root, ".gemini", "settings.json"), format="json_comments", entries=entries)
    ]


def _hook(command: str) -> dict[str, Any]:
    return {"type": "command", "name": SERVER, "command": command, "timeout": HOOK_S * 1_000}
