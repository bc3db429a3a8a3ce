"""Pi: an extension, which brings the tools along; Pi speaks no MCP."""

from __future__ import annotations

import os
from pathlib import Path

from tellwire.clients.client import SERVER, InstallPlace, Programs, Target
from tellwire.clients.plugin import plugin_target

KIND = "pi"
ASSET = Path(__file__).with_name("plugin.ts")
EXTENSION = f"extensions/{SERVER}.ts"


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """The plugin in its folder of extensions."""
    folder = place.env.get("PI_CODING_AGENT_DIR") or os.path.join(place.home, ".pi", "agent")
    if place.scope == "project":
        folder = os.path.join(place.project, ".pi")
    return [plugin_target(os.path.join(folder, EXTENSION), ASSET, programs)]
