"""The agent CLIs that tests run, by their short names."""

from __future__ import annotations

from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client
from tests.end_to_end.codex import Codex
from tests.end_to_end.gemini import Gemini
from tests.end_to_end.opencode import OpenCode
from tests.end_to_end.pi import Pi

PROGRAMS: dict[str, type[Client]] = {each.short: each for each in (Claude, Codex, Gemini, OpenCode, Pi)}
REAL = tuple(PROGRAMS)
WITH_MCP = tuple(short for short in REAL if short != "pi")
"""Pi has no MCP in this version: its extension brings the tools."""
