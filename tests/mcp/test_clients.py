"""The official Python SDK as a client: of every era over stdio, and through the bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from mcp import MCPError, StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.mcp.bridge import bridged

WAIT_S = 60.0
LEGACY = "legacy"
MODERN = "2026-07-28"


@asynccontextmanager
async def connected(command: tuple[str, ...], way: str) -> AsyncGenerator[Client]:
    """A client of the server: over stdio in the era named, or over HTTP through the bridge."""
    async with asyncio.timeout(WAIT_S):
        if way == "bridge":
            async with bridged(command) as bridge, Client(bridge.url, mode=LEGACY) as client:
                yield client
            assert not bridge.faults
        else:
            transport = stdio_client(StdioServerParameters(command=command[0], args=list(command[1:])))
            async with Client(transport, mode=way) as client:
                yield client


ways = pytest.mark.parametrize("way", [LEGACY, MODERN, "bridge"])


@ways
async def test_it_lists_and_calls_tools(server_command: tuple[str, ...], way: str) -> None:
    async with connected(server_command, way) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"list_peers", "agent_send", "get_messages"} <= names
        called = await client.call_tool("list_peers", {})
        assert not called.is_error
        waited = await client.call_tool("get_messages", {"wait_s": 0})
        assert not waited.is_error


@ways
async def test_wrong_arguments_are_an_error_of_the_tool(server_command: tuple[str, ...], way: str) -> None:
    async with connected(server_command, way) as client:
        refused = await client.call_tool("agent_send", {"to": "somebody"})
        assert refused.is_error
        assert "body" in str(refused.content)


@ways
async def test_an_unknown_tool_is_an_error_of_the_protocol(server_command: tuple[str, ...], way: str) -> None:
    async with connected(server_command, way) as client:
        with pytest.raises(MCPError, match="no_such_tool") as refused:
            await client.call_tool("no_such_tool", {})
        assert refused.value.error.code == -32602
        assert (await client.list_tools()).tools
