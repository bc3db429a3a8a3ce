"""How an MCP client starts its shim: the command line that `mcp` becomes and `install` writes down."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHIM = os.path.join(PACKAGE, "relay", "mcp_shim.py")


def shim_command(**options: str | None) -> list[str]:
    """The command line of a shim; an interpreter without its site packages starts in a third of the time."""
    words = [f"--{name}={value}" for name, value in options.items() if value]
    return [sys.executable, "-I", "-S", SHIM, *words]
