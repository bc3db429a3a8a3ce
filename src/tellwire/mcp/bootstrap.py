"""The first answers of a broker that has not loaded the MCP SDK yet.

Loading takes half a second, more on a busy machine, and some clients wait no longer than one for a server's
tools: their first turn would go without. A session begins with the same few questions, and their answers are
known: the handshake, the list of tools, a ping. They are given here, exactly as the SDK gives them (a test
compares); the SDK gets the handshake when it is loaded. Anything else, or unusual, waits for it.

The same answers are left in the home for shims that get none from a broker (`relay/alone` reads them). Those
name no agent and no label: a session that joins later gets them with its next result.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, cast

import msgspec

from tellwire.mcp.dialects import DIALECTS
from tellwire.mcp.dialects.tool import Tool, tools_of
from tellwire.mcp.forms import form_of
from tellwire.mcp.instructions import instructions
from tellwire.mcp.membership import SessionMembership
from tellwire.mcp.session import ShimSession
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.relay import ALL, CORE, ShimLine
from tellwire.relay.alone import FILE
from tellwire.system.files import write_atomically
from tellwire.system.tasks import alongside
from tellwire.version import VERSION

log = logging.getLogger("tellwire.shims")

SERVER = {"name": "tellwire", "version": VERSION}
CAPABILITIES = {"tools": {"listChanged": False}}
HANDSHAKES = ("2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
INTEGER_MAX = 2**63 - 1
"""An id beyond it is for the SDK to repeat."""
META = "io.modelcontextprotocol/"
ENVELOPE = {f"{META}protocolVersion", f"{META}clientInfo", f"{META}clientCapabilities"}
STAMP = {
    "cacheScope": "private",
    "resultType": "complete",
    "ttlMs": 0,
    "_meta": {f"{META}serverInfo": SERVER},
}


class HandshakeResponder:
    """What one session hears before the SDK is loaded."""

    def __init__(self, session: ShimSession, membership: SessionMembership) -> None:
        self._session = session
        self._membership = membership
        self._dialect = DIALECTS[session.hello.dialect]
        self._is_open = False
        """The handshake is done."""
        self.handshake: list[ShimLine] = []
        """Lines that the SDK has to get later."""

    async def run(self, loading: asyncio.Task[Any]) -> None:
        """Answer what can be answered, in order, until the SDK is loaded or something else comes."""
        session = self._session
        while not loading.done() and not session.connection.leaving:
            if not session.connection.lines:
                session.connection.arrived.clear()
                with alongside(session.connection.arrived.wait()) as arrived:
                    await asyncio.wait((arrived, loading), return_when=asyncio.FIRST_COMPLETED)
            elif not await self._take(session.connection.lines[0]):
                return

    async def _take(self, line: ShimLine) -> bool:
        """Deal with the next line; False if it has to wait."""
        try:
            message = msgspec.json.decode(line.text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if line.again or line.cut or message.get("jsonrpc") != "2.0":
            return False
        method, asked = message.get("method"), message.get("id")
        if method == "notifications/initialized" and asked is None and self._is_open:
            await self._session.next_line()
            self.handshake.append(line)
            self._session.say(line.number, keep=True)
            return True
        if not isinstance(asked, int | str) or isinstance(asked, bool) or not isinstance(method, str):
            return False
        if isinstance(asked, int) and abs(asked) > INTEGER_MAX:
            return False
        result = await self._answer(method, message.get("params"))
        if result is None:
            return False
        await self._session.next_line()
        keep = method == "initialize"
        if keep:
            self.handshake.append(line)
        text = msgspec.json.encode({"jsonrpc": "2.0", "id": asked, "result": result})
        self._session.say(line.number, text, keep=keep)
        return True

    async def _answer(self, method: str, params: Any) -> dict[str, Any] | None:
        given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        if method == "initialize" and not self._is_open:
            return await self._shake_hands(given)
        meta = given.get("_meta")
        modern = _is_modern(meta) and set(given) == {"_meta"}
        if not modern and (not self._is_open or given):
            return None
        if method == "ping" and not modern:
            return {}
        if modern and not self._is_open:
            await self._join(cast("dict[str, Any]", meta)[f"{META}clientInfo"])
        if method == "tools/list":
            tools = [describe(tool) for tool in tools_of(self._dialect, self._session.hello.tools).values()]
            return {"tools": tools, **(STAMP if modern else {})}
        if method == "server/discover" and modern:
            text = self._instructions()
            return {
                "capabilities": CAPABILITIES,
                "instructions": text,
                "supportedVersions": [MODERN],
                **STAMP,
            }
        return None

    async def _shake_hands(self, given: dict[str, Any]) -> dict[str, Any] | None:
        info, version = given.get("clientInfo"), given.get("protocolVersion")
        if not _is_info(info) or not isinstance(given.get("capabilities"), dict) or version not in HANDSHAKES:
            return None
        await self._join(cast("dict[str, Any]", info))
        self._is_open = True
        return {
            "capabilities": CAPABILITIES,
            "instructions": self._instructions(),
            "protocolVersion": version,
            "serverInfo": SERVER,
        }

    async def _join(self, info: dict[str, Any]) -> None:
        self._membership.meet(info)
        if self._dialect.joins or self._session.hello.name:
            try:
                await self._membership.ensure()
            except TellwireError:
                return  # its first call tells why

    def _instructions(self) -> str:
        agent = self._session.agent
        name = "" if agent is None else agent.name
        label = self._membership.label_for_instructions(
            shown=self._membership.client.shows and self._dialect.labels
        )
        return instructions(self._dialect, name, self._membership.note if name else "", label)


def describe(tool: Tool) -> dict[str, Any]:
    """A tool as a client lists it."""
    data: dict[str, Any] = {
        "name": tool.name,
        "description": tool.doc,
        "inputSchema": form_of(tool).schema(),
        "annotations": {
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.destroys,
            "idempotentHint": tool.reads or tool.repeatable,
            "openWorldHint": False,
        },
    }
    return {**data, "_meta": {"anthropic/alwaysLoad": True}} if tool.at_hand else data


def save_first_answers(home: Path) -> None:
    """Leave them there, unless they are."""
    data = msgspec.json.encode(first_answers())
    path = home / FILE
    try:
        if path.exists() and path.read_bytes() == data:
            return
        write_atomically(path, data)
    except OSError as error:
        log.warning("the first answers could not be left for shims: %s", error)


def first_answers() -> dict[str, Any]:
    """For each dialect and choice of tools, what a client hears first."""
    found: dict[str, Any] = {"versions": HANDSHAKES}
    for name, dialect in DIALECTS.items():
        for tools in (CORE, ALL):
            found[f"{name} {tools}"] = {
                "initialize": {
                    "capabilities": CAPABILITIES,
                    "instructions": instructions(dialect, ""),
                    "serverInfo": SERVER,
                },
                "tools": [describe(tool) for tool in tools_of(dialect, tools).values()],
            }
    return found


def _is_info(info: Any) -> bool:
    if not isinstance(info, dict):
        return False
    words = cast("dict[str, Any]", info)
    return isinstance(words.get("name"), str) and isinstance(words.get("version"), str)


def _is_modern(meta: Any) -> bool:
    if not isinstance(meta, dict):
        return False
    words = cast("dict[str, Any]", meta)
    known = words.keys() >= ENVELOPE and words[f"{META}protocolVersion"] == MODERN
    return (
        known
        and _is_info(words[f"{META}clientInfo"])
        and isinstance(words[f"{META}clientCapabilities"], dict)
    )
