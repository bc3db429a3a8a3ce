"""Pi: one session at a time, and no MCP: the extension starts tellwire's server itself. Seen with 0.87.1.

Mail is written into the session at the end of each answer, before the next request; an Esc does not lose it.
A terminal is woken when it is idle; `-p` and `--mode json` end with their turn.
"""

from __future__ import annotations

from tellwire.integrations.plugins import PluginClient

CHARS_MAX = 30_000
"""No limit was found; more than this at once is too much for a turn."""


def make_pi() -> PluginClient:
    """Earendil's Pi."""
    return PluginClient("pi", chars_max=CHARS_MAX)
