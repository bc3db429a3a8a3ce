"""Gemini CLI: a trusted MCP server, and hooks."""

from __future__ import annotations

import os
from typing import Any

from tellwire.clients.client import (
    HOOK_S,
    SERVER,
    InstallPlace,
    Programs,
    RunPlace,
    RunStart,
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


HOME = "GEMINI_CLI_HOME"
FOLDERS = ("extensions", "history", "tmp")
FILES = (
    "google_accounts.json",
    "installation_id",
    "oauth_creds.json",
    "projects.json",
    "trustedFolders.json",
)
"""What it makes in its folder; it is the person's, whether it is there already or not."""
NOTES = ("Settings that you change in this session are not kept; logins and conversations are.",)


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The entries of its `settings.json`."""
    root = place.project if place.scope == "project" else place.env.get(HOME) or place.home
    entries = (MemberEntry(("mcpServers", SERVER), _server(programs)), *_hooks(programs))
    return [
        Target(path=os.path.join(root, ".gemini", "settings.json"), format="json_comments", entries=entries)
    ]


def session(place: RunPlace) -> RunStart:
    """A home for its folder: settings of its own, all else leads to the person's.

    It takes settings from no option, and system settings from files of root only.
    """
    own = os.path.join(place.env.get(HOME) or place.env.get("HOME", "/nonexistent"), ".gemini")
    home = os.path.join(place.folder, "home")
    there = os.listdir(own) if os.path.isdir(own) else []
    names = {*there, *FILES, *FOLDERS} - {"settings.json"}
    links = {
        os.path.join(home, ".gemini", name): os.path.join(own, name) + ("/" if name in FOLDERS else "")
        for name in sorted(names)
    }
    target = Target(
        path=os.path.join(home, ".gemini", "settings.json"),
        format="json_comments",
        entries=(MemberEntry(("mcpServers", SERVER), _server(place.programs)), *_hooks(place.programs)),
    )
    copies = ((os.path.join(own, "settings.json"), target),)
    return RunStart(env={HOME: home}, copies=copies, links=links, notes=NOTES)


def _server(programs: Programs) -> dict[str, Any]:
    return {"command": programs.server[0], "args": list(programs.server[1:]), "trust": True}


def _hooks(programs: Programs) -> list[Hooks]:
    guard = ({"matcher": WRITERS}, _hook(programs.guard(KIND)))
    return [
        Hooks(
            event,
            (_hook(programs.gate(KIND) if event in GATED else programs.hook(KIND)),),
            {"matcher": MATCHERS.get(event, "*")},
            (guard,) if event == "BeforeTool" else (),
        )
        for event in EVENTS
    ]


def _hook(command: str) -> dict[str, Any]:
    return {"type": "command", "name": SERVER, "command": command, "timeout": HOOK_S * 1_000}
