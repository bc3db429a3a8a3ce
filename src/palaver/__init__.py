"""palaver: coding agents that talk to each other.

import palaver

async with palaver.connect("alice") as me:
    receipt = await me.send("bob", "Could you look at the parser?")
    async for message in me:
        print(message.sender, message.body)
"""

from __future__ import annotations

from palaver.version import VERSION as __version__  # noqa: N811 - the name packages use

TYPE_CHECKING = False  # importing it from typing would cost the command line four milliseconds

if TYPE_CHECKING:
    from typing import Any

    from palaver.client.agent import Agent, Message, Peer, Receipt, Status
    from palaver.client.blocking import BlockingAgent
    from palaver.protocol.errors import PalaverError
    from palaver.sdk import connect, connect_sync

__all__ = [
    "Agent",
    "BlockingAgent",
    "Message",
    "PalaverError",
    "Peer",
    "Receipt",
    "Status",
    "__version__",
    "connect",
    "connect_sync",
]

_HOMES = {
    "Agent": "palaver.client.agent",
    "BlockingAgent": "palaver.client.blocking",
    "Message": "palaver.client.agent",
    "PalaverError": "palaver.protocol.errors",
    "Peer": "palaver.client.agent",
    "Receipt": "palaver.client.agent",
    "Status": "palaver.client.agent",
    "connect": "palaver.sdk",
    "connect_sync": "palaver.sdk",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'palaver' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - for start-up speed

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
