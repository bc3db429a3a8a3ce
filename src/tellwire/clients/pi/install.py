"""Pi: an extension, which brings the tools along; Pi speaks no MCP."""

from __future__ import annotations

import os
from pathlib import Path

from tellwire.clients.client import SERVER, InstallPlace, Programs, RunPlace, RunStart, Target
from tellwire.clients.plugin import plugin_target, plugin_text

KIND = "pi"
ASSET = Path(__file__).with_name("plugin.ts")
EXTENSION = f"extensions/{SERVER}.ts"


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The plugin in its folder of extensions."""
    folder = place.env.get("PI_CODING_AGENT_DIR") or os.path.join(place.home, ".pi", "agent")
    if place.scope == "project":
        folder = os.path.join(place.project, ".pi")
    return [plugin_target(os.path.join(folder, EXTENSION), ASSET, programs)]


def session(place: RunPlace) -> RunStart:
    """The extension by name, from tellwire's home."""
    path = os.path.join(place.folder, f"{SERVER}.ts")
    return RunStart(words=("-e", path), files={path: plugin_text(ASSET, place.programs)})
