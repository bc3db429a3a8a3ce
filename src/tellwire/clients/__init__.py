"""The agent CLIs: everything that is known about each, in a folder and a `Client` record of its own.

Owns `CLIENTS`, the only list of them, and what they share: the record (`client`), hook events, transcript
readers and plugins. Runs no session and edits no configuration. Imports `broker.ports`, `core`, `protocol`,
`relay`, `system` and `version`; never `sessions`, `mcp`, `children` or `install`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.client import Client
from tellwire.clients.codex.facts import CODEX
from tellwire.clients.gemini.facts import GEMINI
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.pi.facts import PI
from tellwire.system.processes import cmdline

CLIENTS: tuple[Client, ...] = (CLAUDE, CODEX, GEMINI, OPENCODE, PI)
BY_KIND: Mapping[str, Client] = MappingProxyType({each.kind: each for each in CLIENTS})
BY_NAME: Mapping[str, Client] = MappingProxyType({each.name: each for each in CLIENTS})
"""By the name that `tellwire install` takes."""
BY_WORD: Mapping[str, Client] = MappingProxyType({**BY_KIND, **BY_NAME})
"""By either word: its kind or its name."""
KINDS = ", ".join(BY_KIND)
"""For help texts and the descriptions of tools."""
NAMES = ", ".join(BY_NAME)


def runs_many(pid: int) -> bool:
    """Whether a process is a client that runs the sessions of several terminals."""
    return any(each.runs_many(pid) for each in CLIENTS)


def parent_of(meta: object) -> str:
    """The conversation that started the sub-agent whose call has this metadata; empty for any other call."""
    if not isinstance(meta, dict):
        return ""
    known = cast("dict[str, Any]", meta)
    return next((found for each in CLIENTS if (found := each.mcp.parent_of(known))), "")


def is_headless(pid: int) -> bool:
    """Whether a client does one run and ends."""
    words = cmdline(pid)[1:]
    return any(word in each.launch.once for each in CLIENTS for word in words)
