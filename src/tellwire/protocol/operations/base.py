"""What every operation declares: fields, a reply type, who may call it, how it runs, which surfaces offer it.

The surfaces (SDK, CLI, MCP) are built from these declarations; no surface decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

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

Runs: TypeAlias = Literal["tick", "exclusive", "deferred"]

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
    runs: ClassVar[Runs] = "tick"
    """`tick`: with others in one commit. `exclusive`: in a tick that finds nothing uncommitted.
    `deferred`: it is begun, and answered later, off the event loop.
    """
    repeats: ClassVar[bool] = False
    """It has a `key`, the caller's request id: a repeat with the same key is harmless."""
    path_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a path, an object with a `path`, or a list of these; `cwd` is the working folder."""

    def resolved(self, cwd: str, canonical: Callable[[str, str], str]) -> Self:
        """The same operation, its paths made absolute as seen from `cwd`.

        Rules about paths compare text only, so every surface resolves them before it asks.
        """

        def resolve(value: Any) -> Any:
            if isinstance(value, str):
                return canonical(value, cwd)
            if isinstance(value, msgspec.Struct):
                return msgspec.structs.replace(value, path=canonical(cast("Any", value).path, cwd))
            return [resolve(each) for each in cast("Sequence[Any]", value)]

        values = {name: getattr(self, name) for name in self.path_fields}
        if "cwd" in values:
            values["cwd"] = values["cwd"] or cwd
        changes = {name: resolve(value) for name, value in values.items() if value is not None}
        return msgspec.structs.replace(self, **changes) if changes else self

    @classmethod
    def wire_name(cls) -> str:
        """The operation's name on the wire and in the reference."""
        return snake_case(cls.__name__)
