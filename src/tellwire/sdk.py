"""The public door for Python programs: `tellwire.connect` and its blocking twin `tellwire.connect_sync`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from tellwire.client.agent import Agent, profile_of
from tellwire.client.autostart import Launch
from tellwire.client.blocking import BlockingAgent
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
    `Agent.note`. With a `kind` other than `script` this process is the agent, and all that runs beneath it
    speaks as it.
    """
    settings = load_settings(home=home)
    options = client_options(settings, program=f"sdk {VERSION}", autostart=autostart)
    return Agent(options, profile_of(name, kind=kind, capabilities=capabilities, metadata=metadata))


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
        lambda: connect(
            name, kind=kind, capabilities=capabilities, metadata=metadata, home=home, autostart=autostart
        )
    )


def client_options(settings: Settings, *, program: str, autostart: bool) -> dict[str, Any]:
    """What a `Client` needs to find, and if wanted start, the broker of these settings."""
    launch = Launch(launch_command(), broker_environment(settings), settings.start_lock)
    return {"path": settings.socket, "program": program, "launch": launch if autostart else None}


def launch_command() -> tuple[str, ...]:
    """The program that starts a broker and returns once it listens."""
    return (sys.executable, "-I", "-m", "tellwire.cli.launch", "--detach")
