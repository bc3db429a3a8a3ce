"""Pi: an extension, which brings the tools along; Pi speaks no MCP."""

from __future__ import annotations

import os

from tellwire.integrations.install.spec import SERVER, ClientSpec, Place, Programs, Target
from tellwire.integrations.install.whole_file import plugin_target

KIND = "pi"
EXTENSION = f"extensions/{SERVER}.ts"


def targets(place: Place, programs: Programs) -> list[Target]:
    """The folder of extensions."""
    folder = place.env.get("PI_CODING_AGENT_DIR") or os.path.join(place.home, ".pi", "agent")
    if place.scope == "project":
        folder = os.path.join(place.project, ".pi")
    return [plugin_target(os.path.join(folder, EXTENSION), "pi.ts", programs)]


PI = ClientSpec(
    word="pi",
    kind=KIND,
    title="Pi",
    program="pi",
    needed=(0, 87),
    targets=targets,
    scratch=("PI_CODING_AGENT_DIR",),
)
