"""The MCP server most of us would write first: the official SDK in the agent's own process, on stdio.

It keeps the promise that `agent_send` makes: the answer comes after the commit (WAL, synchronous=FULL). It
knows no other agents and hands nothing over; what tellwire does beyond that is tellwire's cost. In its favour
it opens the database at the first call only, and goes without the SDK's tracing, as tellwire does.
Run: `mcp_sdk_server.py DATABASE`.
"""

import asyncio
import sqlite3
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TEXT = {"type": "string"}
TOOLS = [
    types.Tool(
        name="list_peers",
        description="Other agents you can message.",
        input_schema={"type": "object", "properties": {}},
    ),
    types.Tool(
        name="agent_send",
        description="Send a message to another agent. It is stored at once and never lost.",
        input_schema={
            "type": "object",
            "properties": {"to": TEXT, "body": TEXT, "re": TEXT},
            "required": ["to", "body"],
        },
    ),
    types.Tool(
        name="get_messages",
        description="Fetch messages waiting for you.",
        input_schema={"type": "object", "properties": {}},
    ),
]
SCHEMA = """
create table if not exists messages (
    id integer primary key, recipient text, body text, re text, sent_at real default (julianday('now')))
"""


class Store:
    """The messages, in one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def send(self, arguments: dict[str, Any]) -> int | None:
        """Store one message; its id."""
        database = self._open()
        inserted = database.execute(
            "insert into messages (recipient, body, re) values (?, ?, ?)",
            (arguments["to"], arguments["body"], arguments.get("re")),
        )
        database.commit()
        return inserted.lastrowid

    def messages(self) -> list[str]:
        """The oldest few."""
        rows = self._open().execute("select body from messages order by id limit 20")
        return [body for (body,) in rows]

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = sqlite3.connect(self._path)
            self._database.execute("pragma journal_mode=wal")
            self._database.execute("pragma synchronous=full")
            self._database.execute(SCHEMA)
        return self._database


def call(store: Store, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Carry a tool call out."""
    match name:
        case "agent_send":
            return {"id": str(store.send(arguments)), "status": "received"}
        case "get_messages":
            return {"messages": store.messages()}
        case "list_peers":
            return {"agents": []}
        case _:
            raise ValueError(f"unknown tool {name}")


async def main(path: str) -> None:
    """Serve until the client closes its end."""
    store = Store(path)

    async def list_tools(_ctx: Any, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        data = call(store, params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(text=f"{params.name}: {data}")], structured_content=data
        )

    server: Server[Any] = Server("sdk", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.clear()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
