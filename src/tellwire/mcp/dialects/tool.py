"""What a tool is: an operation under a name, with some of its fields; and a dialect, a set of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from tellwire.protocol.docs import field_docs, summary
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.base import MCP, Operation
from tellwire.protocol.relay import ALL, CORE

ANY_CLIENT = "{clients}"
"""In the text of an argument: all kinds of agent CLIs, as the caller of the table knows them."""
WAIT_S_MAX = 600.0
ONCE_S = 60.0
"""The mesh skill has its agents send again after a timeout; the same within this is sent once."""
TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object"}
TEXT_OR_OBJECT: dict[str, Any] = {"anyOf": [TEXT, OBJECT]}


class Argument(NamedTuple):
    """One argument of a tool: a field of its operation, perhaps under another name."""

    field: str
    doc: str = ""
    name: str = ""
    """Empty: the field's own."""
    needed: bool = False
    """Needed here, although the operation has a default."""
    schema: Mapping[str, Any] | None = None
    """Instead of the field's own type, where clients need it plainer."""

    @property
    def public_name(self) -> str:
        """The name the caller uses."""
        return self.name or self.field


class Tool(NamedTuple):
    """One tool: an operation under a name, with some of its fields."""

    name: str
    operation: type[Operation[Any]]
    doc: str
    arguments: tuple[Argument, ...] = ()
    fixed: Mapping[str, Any] = {}
    """Fields that the tool sets by itself."""
    reads: bool = False
    """It changes nothing."""
    repeatable: bool = False
    """Calling it again with the same arguments changes nothing more."""
    destroys: bool = False
    """It may give something up for good."""
    waits: bool = False
    """It takes `wait_s` and may be held open."""
    at_hand: bool = False
    """For clients that show a model their tools only when it searches: show this one from the start."""
    set: str = CORE
    """`core`, or `all`: only on request."""


PARTS = (
    Argument("id", "Of a large message, to read it in parts."),
    Argument("offset", "With id: where to go on."),
    Argument("after", "The last id you got: it was read."),
)
"""What fetching mail takes, in every dialect."""


class Dialect(NamedTuple):
    """A set of tools, and how much of joining the client does itself."""

    name: str
    tools: tuple[Tool, ...]
    instructions: str
    """The instructions at the start, for a model that does not know tellwire."""
    joins: bool = True
    """The session is an agent from its first moment; else when it registers, or first needs to be one."""
    reply_with: str = "agent_send"
    labels: bool = False
    """Peers' messages end with the session's own label, which the instructions name."""
    whole: bool = False
    """All of its tools are all that MCP offers: those missing in its table are made from the operations."""


def tools_of(dialect: Dialect, wanted: str) -> dict[str, Tool]:
    """The tools of a dialect: the core set, or all."""
    tools = (*dialect.tools, *_rest_of(dialect)) if wanted == ALL else dialect.tools
    return {tool.name: tool for tool in tools if wanted == ALL or tool.set == CORE}


def _rest_of(dialect: Dialect) -> list[Tool]:
    """A tool for each operation that the table of the dialect leaves out, if it is to have them all."""
    known = {tool.operation for tool in dialect.tools}
    wanted = [kind for kind in OPERATIONS.values() if MCP in kind.surfaces and kind not in known]
    return [tool_for(kind) for kind in wanted] if dialect.whole else []


@cache
def tool_for(operation: type[Operation[Any]]) -> Tool:
    """The tool of an operation, in the operation's own words: its name, its documentation, all its fields.

    A request id is not among its arguments: it comes with the call.
    """
    docs = field_docs(operation)
    names = [field.name for field in msgspec.structs.fields(operation)]
    names = [name for name in names if name != "key" or not operation.repeats]
    arguments = tuple(Argument(name, docs.get(name, "")) for name in names)
    return Tool(
        operation.wire_name(), operation, summary(operation), arguments, reads=operation.reads, set=ALL
    )
