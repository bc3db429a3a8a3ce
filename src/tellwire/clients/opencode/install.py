"""OpenCode: an MCP server, a rule that allows its tools, and two plugins: of its server and of its screen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from tellwire.clients.client import SERVER, InstallPlace, Programs, RunPlace, RunStart, Target
from tellwire.clients.entries import Item, MemberEntry, Rule
from tellwire.clients.plugin import plugin_target, plugin_text

KIND = "opencode"
ASSET = Path(__file__).with_name("plugin.js")
SCREEN_ASSET = Path(__file__).with_name("screen.js")
NAMES = ("opencode.json", "opencode.jsonc")
SCHEMA = {"$schema": "https://opencode.ai/config.json"}
PLUGIN = f"plugins/{SERVER}.js"
SCREEN_NAMES = ("tui.json", "tui.jsonc")
"""Settings of its screen. We do not make the first: where there is none, it moves older settings there."""
SCREEN_SCHEMA = {"$schema": "https://opencode.ai/tui.json"}
SCREEN = f"{SERVER}/screen.js"
"""Not among the plugins of its server, all of which it loads."""
FETCHED = ("node_modules", "package-lock.json", "bun.lock", "bun.lockb", ".gitignore", "package.json")


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The file that is there, else `opencode.json`; the folder of plugins; and the same for its screen."""
    plugins = _plugins(place)
    folder = place.project if place.scope == "project" else plugins
    path = _first(folder, NAMES) or os.path.join(folder, NAMES[0])
    screen = _first(plugins, SCREEN_NAMES) or os.path.join(plugins, SCREEN_NAMES[1])
    entries = (
        MemberEntry(("mcp", SERVER), {"type": "local", "command": list(programs.server)}),
        Rule(("permission", f"{SERVER}_*"), "allow"),
    )
    return [
        Target(path=path, format="jsonc", entries=entries, trimmings=SCHEMA),
        plugin_target(os.path.join(plugins, PLUGIN), ASSET, programs),
        Target(
            path=screen,
            format="jsonc",
            entries=(Item(("plugin",), f"./{SCREEN}"),),
            trimmings=SCREEN_SCHEMA,
        ),
        plugin_target(os.path.join(plugins, SCREEN), SCREEN_ASSET, programs),
    ]


def downloaded(place: InstallPlace) -> list[str]:
    """What it makes beside its plugins when it fetches their interface."""
    return [os.path.join(_plugins(place), name) for name in FETCHED]


def package(place: InstallPlace) -> str:
    """Where it notes what it has fetched."""
    return os.path.join(_plugins(place), "package.json")


def _plugins(place: InstallPlace) -> str:
    """The folder around its plugins."""
    if place.scope == "project":
        return os.path.join(place.project, ".opencode")
    config = place.env.get("XDG_CONFIG_HOME") or os.path.join(place.home, ".config")
    return os.path.join(config, "opencode")


CONTENT, SCREEN_CONFIG = "OPENCODE_CONFIG_CONTENT", "OPENCODE_TUI_CONFIG"
"""Settings in the environment, and a file of settings of its screen; both are merged with all others."""


def session(place: RunPlace) -> RunStart:
    """Settings in the environment, which name plugins in tellwire's home."""
    plugin, screen, tui = (
        os.path.join(place.folder, name) for name in ("plugin.js", "screen.js", "tui.json")
    )
    known, notes = _known(place.env.get(CONTENT, ""))
    ours: dict[str, Any] = {
        **known,
        "mcp": {**known.get("mcp", {}), SERVER: {"type": "local", "command": list(place.programs.server)}},
        "plugin": [*known.get("plugin", []), f"file://{plugin}"],
    }
    rules = known.get("permission", {})
    if isinstance(rules, dict):
        ours["permission"] = {**cast("dict[str, Any]", rules), f"{SERVER}_*": "allow"}
    env = {CONTENT: json.dumps(ours)}
    files = {
        plugin: plugin_text(ASSET, place.programs),
        screen: plugin_text(SCREEN_ASSET, place.programs),
        tui: json.dumps({**SCREEN_SCHEMA, "plugin": ["./screen.js"]}),
    }
    if place.env.get(SCREEN_CONFIG, tui) == tui:
        env[SCREEN_CONFIG] = tui
    else:
        notes = (*notes, f"{SCREEN_CONFIG} is set: tellwire does not learn which conversation you are in.")
    return RunStart(env=env, files=files, notes=notes)


def _known(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the person has set in the environment, and what to tell of it."""
    try:
        known: Any = json.loads(text or "{}")
    except ValueError:
        known = None
    if isinstance(known, dict):
        return cast("dict[str, Any]", known), ()
    return {}, (f"{CONTENT} is not a JSON object; this session does without it.",)


def _first(folder: str, names: tuple[str, ...]) -> str:
    """The first of some files that is there."""
    paths = (os.path.join(folder, name) for name in names)
    return next(filter(os.path.lexists, paths), "")
