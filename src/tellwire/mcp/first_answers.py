"""The first answers of every session, left in the home for shims that get none from a broker.

`relay/alone` reads them. They name no agent and no label: who joins later is told by its next result.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from tellwire.mcp.bootstrap import CAPABILITIES, HANDSHAKES, SERVER, describe
from tellwire.mcp.dialects import DIALECTS
from tellwire.mcp.dialects.tool import tools_of
from tellwire.mcp.instructions import instructions
from tellwire.protocol.relay import ALL, CORE
from tellwire.relay.alone import FILE
from tellwire.system.files import write_atomically

log = logging.getLogger("tellwire.shims")


def save_first_answers(home: Path) -> None:
    """Leave them there, unless they are."""
    data = msgspec.json.encode(first_answers())
    path = home / FILE
    try:
        if path.exists() and path.read_bytes() == data:
            return
        write_atomically(path, data)
    except OSError as error:
        log.warning("the first answers could not be left for shims: %s", error)


def first_answers() -> dict[str, Any]:
    """For each dialect and choice of tools, what a client hears first."""
    found: dict[str, Any] = {"versions": HANDSHAKES}
    for name, dialect in DIALECTS.items():
        for tools in (CORE, ALL):
            found[f"{name} {tools}"] = {
                "initialize": {
                    "capabilities": CAPABILITIES,
                    "instructions": instructions(dialect, ""),
                    "serverInfo": SERVER,
                },
                "tools": [describe(tool) for tool in tools_of(dialect, tools).values()],
            }
    return found
