"""Codex: an MCP server whose tools need no approval, and hooks. It passes no environment on to servers."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, cast

from tellwire.clients.client import HOOK_S, SERVER, InstallPlace, Programs, RunPlace, RunStart, Target
from tellwire.clients.codex.trust import SHORT_EVENTS, SHORT_S
from tellwire.clients.entries import Hooks, MemberEntry

KIND = "codex"
EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "Interrupt", "SessionEnd")
GATED = ("PostToolUse",)
WRITERS = "^apply_patch$"
"""The tool that is asked about before it runs. The others cost nothing."""
TRUST = 'Codex asks about new and changed hooks: start `codex` and choose "Trust all and continue".'


NOTES = (
    "Codex runs this session outside of its daemon, and asks about tellwire's hooks: choose "
    '"Trust all and continue". `tellwire install codex` avoids both.',
)


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """`config.toml`; Codex reads a project's only if the project is trusted."""
    folder = place.env.get("CODEX_HOME") or os.path.join(place.home, ".codex")
    trust = os.path.join(folder, "config.toml")
    path = os.path.join(place.project, ".codex", "config.toml") if place.scope == "project" else trust
    server = {
        "command": programs.server[0],
        "args": list(programs.server[1:]),
        "default_tools_approval_mode": "approve",
    }
    entries = (MemberEntry(("mcp_servers", SERVER), server), *hooks(programs))
    return [Target(path=path, format="toml", entries=entries, trust=trust)]


def session(place: RunPlace) -> RunStart:
    """Its settings by `-c`, which are a layer of their own; hooks of other layers run as well."""
    server = {
        "command": place.programs.server[0],
        "args": list(place.programs.server[1:]),
        "default_tools_approval_mode": "approve",
    }
    told = [f"mcp_servers.{SERVER}={_toml(server)}"]
    told += [f"hooks.{each.event}={_toml(each.groups)}" for each in hooks(place.programs)]
    return RunStart(words=tuple(word for value in told for word in ("-c", value)), notes=NOTES)


def _toml(value: Any) -> str:
    """On one line: a string or number of JSON is one of TOML too."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return f"{{{', '.join(f'{key} = {_toml(part)}' for key, part in pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[Any]', value)))}]"
    return json.dumps(value)


def hooks(programs: Programs) -> list[Hooks]:
    """Our hooks, by event."""
    guard = {"type": "command", "command": _plain(programs.guard(KIND)), "timeout": HOOK_S}
    told = [
        Hooks(
            event,
            (
                {
                    "type": "command",
                    "command": _plain(programs.gate(KIND)) if event in GATED else programs.hook(KIND),
                    "timeout": SHORT_S if event in SHORT_EVENTS else HOOK_S,
                },
            ),
        )
        for event in EVENTS
    ]
    return [*told, Hooks("PreToolUse", (guard,), {"matcher": WRITERS})]


def _plain(command: str) -> str:
    """For a plain shell: Codex runs hooks with its human's, and not each knows its parent."""
    return f"exec /bin/sh -c {shlex.quote(command)}"
