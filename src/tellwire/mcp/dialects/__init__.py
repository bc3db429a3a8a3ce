"""Dialects: sets of tool names for the same operations, each with its tools, words and answers in one file.

`tellwire` is our own; `f2` and `agent_network` speak as other programs do, for agents and prompts that know
them. `tool` and `answer` are what all are made of. Nothing is decided here: a tool is one operation. Imports
what `mcp` may, and of `mcp` itself only `session`.
"""

from __future__ import annotations

from tellwire.mcp.dialects.agent_network import AGENT_NETWORK
from tellwire.mcp.dialects.f2 import F2
from tellwire.mcp.dialects.tellwire import TELLWIRE
from tellwire.mcp.dialects.tool import Dialect

DIALECTS: dict[str, Dialect] = {each.name: each for each in (TELLWIRE, F2, AGENT_NETWORK)}
