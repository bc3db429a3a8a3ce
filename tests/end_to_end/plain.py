"""A plain MCP client: the official SDK over stdio, without hooks. What its tools say is its context.

As a program, `python -m tests.end_to_end.plain HOME NAME`, it fetches its mail once, says it, and waits to be
killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from tellwire.cli.commands.setup.mcp import shim_command

CALL_S = 40.0
FETCH_S = 20


class Plain:
    """One session, and the texts of all its tools' results: the context of a model that it would have."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.context: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool; its words."""
        async with asyncio.timeout(CALL_S):
            result = await self._client.call_tool(tool, arguments)
        text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
        assert not result.is_error, text
        self.context.append(text)
        return text

    def count(self, text: str) -> int:
        """How often a text came."""
        return "\n".join(self.context).count(text)


@asynccontextmanager
async def open_plain(home: str, name: str) -> AsyncGenerator[Plain]:
    """A session under a name."""
    command = shim_command(home=home, name=name)
    transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with Client(transport, mode="legacy") as client:
        yield Plain(client)


async def main(home: str, name: str) -> None:
    """Fetch, say it, and wait."""
    async with open_plain(home, name) as plain:
        print(await plain.call("get_messages", wait_s=FETCH_S), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
