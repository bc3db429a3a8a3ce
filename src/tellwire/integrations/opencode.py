"""OpenCode: sessions of one process, sub-agents in sessions of their own. Seen with 1.18.33.

Mail goes into a tool's result, or into the session as a message: when the model's text is whole, which keeps
the turn going, and when it is idle, which begins one. Not covered: a terminal in which nothing was said yet
has no session to wake; of several main sessions in one process the one that spoke last gets the mail.
"""

from __future__ import annotations

from tellwire.integrations.plugins import PluginClient

CHARS_MAX = 30_000
"""200 kB came whole; more than this at once is too much for a turn."""


def make_opencode() -> PluginClient:
    """SST's OpenCode."""
    return PluginClient("opencode", chars_max=CHARS_MAX)
