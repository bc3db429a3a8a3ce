"""Gemini CLI: a trusted MCP server, and hooks."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, cast

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


DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
"""Names a file of settings beneath the person's: hooks of both run, and servers of both are there."""
USUAL_DEFAULTS = {
    "darwin": "/Library/Application Support/GeminiCli/system-defaults.json",
    "linux": "/etc/gemini-cli/system-defaults.json",
}


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """`settings.json`."""
    root = place.project if place.scope == "project" else place.env.get("GEMINI_CLI_HOME") or place.home
    entries = (MemberEntry(("mcpServers", SERVER), _server(programs)), *_hooks(programs))
    return [
        Target(path=os.path.join(root, ".gemini", "settings.json"), format="json_comments", entries=entries)
    ]


def session(place: RunPlace) -> RunStart:
    """A file of system defaults, with those of the machine in it."""
    usual = USUAL_DEFAULTS.get(sys.platform, "")
    known, notes = _defaults(place.env.get(DEFAULTS) or usual)
    servers: dict[str, Any] = {**known.get("mcpServers", {}), SERVER: _server(place.programs)}
    hooks: dict[str, Any] = dict(known.get("hooks", {}))
    for each in _hooks(place.programs):
        hooks[each.event] = [*hooks.get(each.event, []), *each.groups]
    path = os.path.join(place.folder, "system-defaults.json")
    text = json.dumps({**known, "mcpServers": servers, "hooks": hooks}, indent=2)
    return RunStart(env={DEFAULTS: path}, files={path: text}, notes=notes)


def _defaults(path: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The machine's own, and what to tell of them."""
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except FileNotFoundError:
        return {}, ()
    except (OSError, ValueError):
        return {}, (f"{path} cannot be read; this session does without it.",)
    return (cast("dict[str, Any]", known), ()) if isinstance(known, dict) else ({}, ())


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
