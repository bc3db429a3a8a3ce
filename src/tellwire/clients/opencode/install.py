"""OpenCode: an MCP server, a rule that allows its tools, and a plugin."""

from __future__ import annotations

import os
from pathlib import Path

from tellwire.clients.client import SERVER, Place, Programs, Target
from tellwire.clients.entries import Member, Rule
from tellwire.clients.plugin import plugin_target

KIND = "opencode"
ASSET = Path(__file__).with_name("plugin.js")
NAMES = ("opencode.json", "opencode.jsonc")
SCHEMA = {"$schema": "https://opencode.ai/config.json"}
PLUGIN = f"plugins/{SERVER}.js"


def targets(place: Place, programs: Programs) -> list[Target]:
    """The file that is there, else `opencode.json`; and the folder of plugins."""
    config = place.env.get("XDG_CONFIG_HOME") or os.path.join(place.home, ".config")
    folder = plugins = os.path.join(config, "opencode")
    if place.scope == "project":
        folder, plugins = place.project, os.path.join(place.project, ".opencode")
    paths = [os.path.join(folder, name) for name in NAMES]
    path = next((each for each in paths if os.path.lexists(each)), paths[0])
    entries = (
        Member(("mcp", SERVER), {"type": "local", "command": list(programs.server)}),
        Rule(("permission", f"{SERVER}_*"), "allow"),
    )
    return [
        Target(path=path, format="jsonc", entries=entries, trimmings=SCHEMA),
        plugin_target(os.path.join(plugins, PLUGIN), ASSET, programs),
    ]
