"""Claude Code: an MCP server, permission for its tools, and hooks.

Its files are plain JSON: it silently ignores one that has a comment in it.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tellwire.clients.client import HOOK_S, SERVER, InstallPlace, Programs, RunPlace, RunStart, Target
from tellwire.clients.entries import Hooks, Item, MemberEntry
from tellwire.version import VERSION

KIND = "claude-code"
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolBatch",
    "Stop",
    "StopFailure",
    "Notification",
    "SubagentStop",
    "SessionEnd",
)
GATED = ("PostToolBatch",)
WRITERS = "^(Write|Edit|MultiEdit|NotebookEdit)$"
"""The tools that are asked about before they run: those that write files. The others cost nothing."""
WAITER_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop")
WAITER_S = 604_800
"""A week; the client's timer takes no more than 24 days."""


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The list of MCP servers, and the settings; a project's are those that are not shared: paths differ."""
    folder = place.env.get("CLAUDE_CONFIG_DIR") or os.path.join(place.home, ".claude")
    state = os.path.join(place.env.get("CLAUDE_CONFIG_DIR") or place.home, ".claude.json")
    settings = os.path.join(folder, "settings.json")
    allow = Item(("permissions", "allow"), f"mcp__{SERVER}__*")
    entries: tuple[Item | Hooks, ...] = (allow, *_hooks(programs))
    if place.scope == "project":
        settings = os.path.join(place.project, ".claude", "settings.local.json")
        state = os.path.join(place.project, ".mcp.json")
        entries = (allow, Item(("enabledMcpjsonServers",), SERVER), *_hooks(programs))
    server = {"type": "stdio", "command": programs.server[0], "args": list(programs.server[1:])}
    if place.plugin:
        return _plugin(place.plugin, server, programs)
    return [
        Target(path=state, format="json", entries=(MemberEntry(("mcpServers", SERVER), server),)),
        Target(path=settings, format="json", entries=entries),
    ]


def session(place: RunPlace) -> RunStart:
    """Its own options, which add to the settings of the person; no file is needed."""
    server = {"command": place.programs.server[0], "args": list(place.programs.server[1:])}
    settings = {
        "permissions": {"allow": [f"mcp__{SERVER}__*"]},
        "hooks": {each.event: each.groups for each in _hooks(place.programs)},
    }
    servers = {"mcpServers": {SERVER: {"type": "stdio", **server}}}
    return RunStart(words=("--mcp-config", json.dumps(servers), "--settings", json.dumps(settings)))


def _plugin(folder: str, server: dict[str, Any], programs: Programs) -> list[Target]:
    """The same as a plugin, for `claude --plugin-dir`; only permissions have no place in one."""
    about = {"name": SERVER, "version": VERSION, "description": "Coding agents that talk to each other."}
    author = MemberEntry(("author",), {"name": "tellwire"})
    manifest = os.path.join(folder, ".claude-plugin", "plugin.json")
    return [
        Target(path=manifest, format="json", entries=(author,), trimmings=about),
        Target(
            path=os.path.join(folder, ".mcp.json"),
            format="json",
            entries=(MemberEntry(("mcpServers", SERVER), server),),
        ),
        Target(
            path=os.path.join(folder, "hooks", "hooks.json"),
            format="json",
            entries=tuple(_hooks(programs)),
        ),
    ]


def _hooks(programs: Programs) -> list[Hooks]:
    """Commands, each in a shell of the client's own; and waiters for three of the events."""
    waiter = {
        "type": "command",
        "command": programs.waiter(KIND),
        "asyncRewake": True,
        "timeout": WAITER_S,
    }
    told = [
        (event, _hook(programs.gate(KIND) if event in GATED else programs.hook(KIND))) for event in EVENTS
    ]
    hooks = [Hooks(event, (first, waiter) if event in WAITER_EVENTS else (first,)) for event, first in told]
    return [*hooks, Hooks("PreToolUse", (_hook(programs.guard(KIND)),), {"matcher": WRITERS})]


def _hook(command: str) -> dict[str, Any]:
    return {"type": "command", "command": command, "timeout": HOOK_S}
