"""tellwire: coding agents that talk to each other.

import tellwire

async with tellwire.connect("alice") as me:
    receipt = await me.send("bob", "Could you look at the parser?")
    async for message in me:
        print(message.sender, message.body)
"""

from __future__ import annotations

from tellwire.version import VERSION as __version__  # noqa: N811 - the name packages use

TYPE_CHECKING = False  # importing it from typing would cost the command line four milliseconds

if TYPE_CHECKING:
    from typing import Any

    from tellwire.protocol.errors import TellwireError
    from tellwire.sdk.agent import Agent, Message, Peer, Receipt, Status
    from tellwire.sdk.blocking import BlockingAgent
    from tellwire.sdk.connect import connect, connect_sync, watch

__all__ = [
    "Agent",
    "BlockingAgent",
    "Message",
    "Peer",
    "Receipt",
    "Status",
    "TellwireError",
    "__version__",
    "connect",
    "connect_sync",
    "watch",
]

_HOMES = {
    "Agent": "tellwire.sdk.agent",
    "BlockingAgent": "tellwire.sdk.blocking",
    "Message": "tellwire.sdk.agent",
    "TellwireError": "tellwire.protocol.errors",
    "Peer": "tellwire.sdk.agent",
    "Receipt": "tellwire.sdk.agent",
    "Status": "tellwire.sdk.agent",
    "connect": "tellwire.sdk.connect",
    "connect_sync": "tellwire.sdk.connect",
    "watch": "tellwire.sdk.connect",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tellwire' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - for start-up speed

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
