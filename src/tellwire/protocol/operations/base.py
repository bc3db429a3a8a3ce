"""What every operation declares: fields, a reply type, who may call it, and which surfaces offer it.

Tests compare the surfaces (SDK, CLI, MCP) with these declarations; no surface decides anything.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

AGENT = "agent"
"""A caller that acts as one agent: registered on this connection, or started by that agent."""
OPERATOR = "operator"
"""A person at a terminal, with no agent among the parent processes."""
SCRIPT = "script"
"""Any other program of the same user."""
ANYONE = frozenset({AGENT, OPERATOR, SCRIPT})
SPEAKERS = frozenset({AGENT, OPERATOR})
"""Who has a name and an inbox: a person is `operator`, on every connection."""

SDK = "sdk"
CLI = "cli"
MCP = "mcp"
ALL_SURFACES = frozenset({SDK, CLI, MCP})

R = TypeVar("R")


def snake_case(name: str) -> str:
    """Turn a class name into the word used on the wire: `SendMessage` is `send_message`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to an operation that ran."""


class Operation(
    msgspec.Struct,
    Generic[R],
    frozen=True,
    kw_only=True,
    tag_field="op",
    tag=snake_case,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """One thing a caller can ask of the broker."""

    reply: ClassVar[type[Any]]
    callers: ClassVar[frozenset[str]] = ANYONE
    surfaces: ClassVar[frozenset[str]] = ALL_SURFACES
    reads: ClassVar[bool] = False
    """It changes nothing, so it is answered at once, without a commit."""

    @classmethod
    def word(cls) -> str:
        """The operation's name on the wire and in the reference."""
        return snake_case(cls.__name__)
