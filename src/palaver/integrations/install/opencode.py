"""OpenCode: an MCP server, and a rule that allows its tools."""

from __future__ import annotations

import os

from palaver.integrations.install.entries import Member, Rule
from palaver.integrations.install.spec import JSONC, SERVER, ClientSpec, Place, Programs, Target

KIND = "opencode"
NAMES = ("opencode.json", "opencode.jsonc")
SCHEMA = {"$schema": "https://opencode.ai/config.json"}


def targets(place: Place, programs: Programs) -> list[Target]:
    """The file that is there, else `opencode.json`."""
    config = place.env.get("XDG_CONFIG_HOME") or os.path.join(place.home, ".config")
    folder = place.project if place.scope == "project" else os.path.join(config, "opencode")
    paths = [os.path.join(folder, name) for name in NAMES]
    path = next((each for each in paths if os.path.lexists(each)), paths[0])
    entries = (
        Member(("mcp", SERVER), {"type": "local", "command": list(programs.server)}),
        Rule(("permission", f"{SERVER}_*"), "allow"),
    )
    return [Target(path=path, dialect=JSONC, entries=entries, trimmings=SCHEMA)]


OPENCODE = ClientSpec(
    word="opencode",
    kind=KIND,
    title="OpenCode",
    program="opencode",
    needed=(1, 18),
    targets=targets,
    scratch=("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
