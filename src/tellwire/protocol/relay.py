"""The lines between a shim and the broker, on the broker's side: numbered lines in, answers by number out.

`relay/shim.py` is the other side and tells the whole story; it shares no code with this one, because it
runs inside an agent's session and may be older than the broker.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tellwire.protocol.errors import TellwireError

RELAY_VERSION = 1
LINE_BYTES_MAX = (1 << 20) + 4_096
"""The longest line of a client that a shim passes on, and its header."""

DIALECT_NAMES = ("tellwire", "f2", "agent-network")
"""The sets of tool names that a shim can ask for; their tables are in `mcp/dialects`."""
CORE = "core"
ALL = "all"
"""How many of a dialect's tools: the few that most need, or every one."""

DONE = b"."
KEEP = b"+"
END = b"x"
"""Say this and end; a shim of an earlier version takes it for `DONE`."""
STOPPING = b"0 ! \n"


class ShimHello(msgspec.Struct, frozen=True, kw_only=True):
    """What a shim says of itself; who it runs for, the broker finds out."""

    version: int
    instance: str
    """A random word that identifies one run of a shim, whatever happens to its connections."""
    name: str = ""
    dialect: str = "tellwire"
    tools: str = "core"
    cwd: str = ""
    open: list[int] = []
    """Lines it had sent before and got no answer to; it sends them again."""
    unwritten: list[int] = []
    """Lines whose answers it has, but could not write to the client yet."""
    alone: bool = False
    """The client had the answer to its handshake from the shim, without the agent's name and label."""


class HookHello(msgspec.Struct, frozen=True, kw_only=True):
    """What a client's hook says of itself; the payload follows."""

    version: int
    client: str
    bytes: int
    cut: bool = False
    """Only the beginning of a payload that was too long."""
    listens: bool = True
    """It waits for an answer."""
    until: float = 0.0
    """When it gives up waiting, on the machine's monotonic clock; 0 if it does not report it."""


class WaiterHello(msgspec.Struct, frozen=True, kw_only=True):
    """A program that waits for mail while its client is idle; the payload it was started with may follow."""

    version: int
    client: str
    bytes: int = 0
    cut: bool = False
    """Only the beginning of a payload that was too long."""


class WireHello(msgspec.Struct, frozen=True, kw_only=True):
    """The far end of an ssh carrier; frames of `federation/carriers/frames` follow, in both directions."""

    version: int


class ShimLine(NamedTuple):
    """A line that an MCP client sent to its shim, with the shim's number for it."""

    number: int
    birth_us: int
    written: list[int]
    """Numbers whose answers the client has had in its pipe since the line before."""
    text: bytes
    again: bool = False
    """A part of the handshake that the client already had the answer to."""
    cut: bool = False
    """Only the beginning of a line that was too long."""


def check_shim(hello: ShimHello) -> None:
    """Refuse a shim that speaks another version.

    Raises:
        TellwireError: `wrong_version` or `bad_frame`.
    """
    if hello.version != RELAY_VERSION:
        raise TellwireError("wrong_version", f"The shim speaks version {hello.version}, not {RELAY_VERSION}.")
    if hello.dialect not in DIALECT_NAMES or hello.tools not in (CORE, ALL):
        raise TellwireError("bad_request", f"The shim asks for tools {hello.dialect!r}, {hello.tools!r}.")
    if (
        not 8 <= len(hello.instance) <= 64
        or len(hello.cwd) > 4_096
        or len(hello.open) + len(hello.unwritten) > 10_000
    ):
        raise TellwireError("bad_frame", "The shim's greeting makes no sense.")


def check_relay(hello: HookHello | WaiterHello) -> None:
    """Refuse a hook or waiter that speaks another version.

    Raises:
        TellwireError: `wrong_version` or `bad_frame`.
    """
    if hello.version != RELAY_VERSION:
        raise TellwireError("wrong_version", f"The hook speaks version {hello.version}, not {RELAY_VERSION}.")
    if len(hello.client) > 64 or not 0 <= hello.bytes <= LINE_BYTES_MAX:
        raise TellwireError("bad_frame", "The hook's greeting makes no sense.")


def check_wire(hello: WireHello) -> None:
    """Refuse the far end of a carrier that speaks another version.

    Raises:
        TellwireError: `wrong_version`.
    """
    if hello.version != RELAY_VERSION:
        raise TellwireError("wrong_version", f"The wire speaks version {hello.version}, not {RELAY_VERSION}.")


def parse_shim_line(line: bytes) -> ShimLine:
    """Read one line of a shim.

    Raises:
        TellwireError: `bad_frame`; the connection cannot go on.
    """
    try:
        head, birth, written, text = line.split(b" ", 3)
        again, cut = head[:1] == b"~", head[:1] == b"!"
        number = int(head[1:] if again or cut else head)
        numbers = [] if written == b"-" else [int(word) for word in written.split(b",")]
        return ShimLine(number, int(birth, 16), numbers, text, again, cut)
    except ValueError as error:
        raise TellwireError("bad_frame", "The shim sent a line without its header.") from error


def format_shim_welcome(awake: float) -> bytes:
    """The broker's greeting: its version, and its clock in microseconds."""
    return b"shim %d %d\n" % (RELAY_VERSION, int(awake * 1_000_000))


def format_shim_answer(number: int, text: bytes = b"", flag: bytes = DONE) -> bytes:
    """Say `text` to the client if there is any, and that line `number` is dealt with."""
    return b"%d %b %b\n" % (number, flag, text)
