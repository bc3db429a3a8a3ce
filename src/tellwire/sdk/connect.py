"""The entry points for programs: `tellwire.connect`, without an event loop `connect_sync`, and `watch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from tellwire.protocol.operations.feed import WatchFeed
from tellwire.sdk.agent import Agent
from tellwire.sdk.autostart import BrokerLaunch
from tellwire.sdk.blocking import BlockingAgent
from tellwire.sdk.broker_client import BrokerAddress
from tellwire.sdk.membership import profile_of
from tellwire.sdk.watching import Watch
from tellwire.settings import Settings, broker_environment, load_settings
from tellwire.version import VERSION


def connect(
    name: str,
    *,
    kind: str = "script",
    capabilities: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
    home: str | os.PathLike[str] | None = None,
    autostart: bool = True,
) -> Agent:
    """Join the mesh as `name`; use the result with `async with`.

    A broker is started if none runs. A name in use by a live agent gets a suffix: see `Agent.name` and
    `Agent.note`. With a `kind` other than `script` this process is the agent, and every process that it
    starts speaks as it.
    """
    address = broker_address(load_settings(home=home), program=f"sdk {VERSION}", autostart=autostart)
    return Agent(address, profile_of(name, kind=kind, capabilities=capabilities, metadata=metadata))


def connect_sync(
    name: str,
    *,
    kind: str = "script",
    capabilities: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
    home: str | os.PathLike[str] | None = None,
    autostart: bool = True,
) -> BlockingAgent:
    """Join the mesh as `name`, for programs without an event loop; use the result with `with`."""
    return BlockingAgent(
        connect(name, kind=kind, capabilities=capabilities, metadata=metadata, home=home, autostart=autostart)
    )


def watch(
    *,
    after: int | None = None,
    agents: Sequence[str] = (),
    types: Sequence[str] = (),
    link: str | None = None,
    chars: int = 200,
    home: str | os.PathLike[str] | None = None,
    autostart: bool = True,
) -> Watch:
    """Watch the mesh: an overview, then every change as it happens; `async with`, then `async for`.

    Without a gap, also through restarts of the broker: where that is not possible, another overview comes.
    With `after` it goes on behind that event, without an overview first. `agents`, `types` and `link` choose
    events; rows of the state come in any case. Not for programs that an agent started.
    """
    address = broker_address(load_settings(home=home), program=f"sdk {VERSION}", autostart=autostart)
    asked = WatchFeed(after=after, agents=list(agents), types=list(types), link=link, chars=chars, live=True)
    return Watch(address, asked)


def broker_address(settings: Settings, *, program: str, autostart: bool) -> BrokerAddress:
    """Where the broker of these settings is, and how to start it if that is wanted."""
    command = (sys.executable, "-I", "-m", "tellwire.cli.launch", "--detach")
    launch = BrokerLaunch(command, broker_environment(settings), settings.start_lock)
    return BrokerAddress(settings.socket, program, launch if autostart else None)
