"""The MCP Inspector, started as anybody would start it, uses the server over stdio."""

from __future__ import annotations

import json

import pytest

from tests.mcp.node import Inspector

# The Inspector's exit code when a tool is unknown to it or answers isError.
TOOL_ERROR = 5

eras = pytest.mark.parametrize("era", ["legacy", "modern"])


@eras
async def test_it_lists_the_tools_and_finds_their_schemas_portable(inspector: Inspector, era: str) -> None:
    ended = await inspector.run("tools/list", "--strict", era=era)
    assert ended.code == 0, ended
    tools = {tool["name"]: tool for tool in json.loads(ended.out)["result"]["tools"]}
    assert {"list_peers", "agent_send", "get_messages"} <= tools.keys()
    assert {"to", "body"} <= set(tools["agent_send"]["inputSchema"]["required"])


@eras
async def test_it_calls_a_tool(inspector: Inspector, era: str) -> None:
    ended = await inspector.call("list_peers", {}, era=era)
    assert ended.code == 0, ended
    result = json.loads(ended.out)["result"]
    assert not result.get("isError", False)
    assert result["content"][0]["type"] == "text"


@eras
async def test_wrong_arguments_come_back_as_an_error_of_the_tool(inspector: Inspector, era: str) -> None:
    ended = await inspector.call("agent_send", {"to": "somebody"}, era=era)
    assert ended.code == TOOL_ERROR, ended
    result = json.loads(ended.out.splitlines()[0])["result"]
    assert result["isError"] is True
    assert "body" in result["content"][0]["text"]


@eras
async def test_it_does_not_find_a_tool_that_is_not_listed(inspector: Inspector, era: str) -> None:
    """It looks into the list and asks no further; what the server answers, test_clients.py asks."""
    ended = await inspector.call("no_such_tool", {}, era=era)
    assert ended.code == TOOL_ERROR, ended
    assert '"tool_not_found"' in ended.err
