"""A sub-agent of Codex: it has an MCP server of its own, and is no agent that others could write to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.mcp_world import Shim, open_shims, statuses, until_state
from tests.integration.world import Home, until

CODEX = "codex-mcp-client"
MAIN, SUB = "01a1e524-2c20-7de1-8465-3abc1b9a6520", "01a1e524-3f23-73a3-b3ad-137d038d5499"


def meta(thread: str) -> dict[str, Any]:
    """What Codex 0.166.0 tells of a call, as far as it matters."""
    turn = {"session_id": MAIN, "thread_id": thread, "turn_id": "t1"}
    if thread != MAIN:
        turn |= {"parent_thread_id": MAIN, "thread_source": "subagent", "subagent_kind": "thread_spawn"}
    return {"threadId": thread, "sessionId": MAIN, "x-codex-turn-metadata": turn}


async def say(shim: Shim, thread: str, tool: str, **arguments: Any) -> str:
    """Call a tool in a conversation; what its model reads."""
    params = {"name": tool, "arguments": arguments}
    answer = await shim.request("tools/call", params, **meta(thread))
    return answer["result"]["content"][0]["text"]


@pytest.mark.requirement("REC-6", stage="clients")
async def test_a_sub_agent_speaks_as_its_main_conversation_and_takes_none_of_its_mail(home: Home) -> None:
    home.up()
    async with open_shims(home) as shims:
        alice = await shims.open("alice")
        main = await shims.open("coder", client=CODEX)
        await say(main, MAIN, "list_peers")
        sub = await shims.open("", "--tools", "all", client=CODEX)
        sent = await alice.send("coder", "for the main conversation")
        told = await say(sub, SUB, "agent_send", to="alice", body="from below")
        assert "sub-agent of 'coder'" in told
        (message,) = (await alice.call("get_messages")).data["messages"]
        assert (message["from"], message["body"]) == ("coder", "from below")
        assert await statuses(alice) == {"coder": "online"}, "nobody can write to the sub-agent"
        for tool in ("get_messages", "leave"):
            refused = await say(sub, SUB, tool)
            assert "main conversation" in refused, refused
            assert "for the main conversation" not in refused
        assert await alice.state(sent) == "pending"
        assert "for the main conversation" in await say(main, MAIN, "get_messages")
        await say(main, MAIN, "list_peers")
        await until_state(alice, sent, "read by next_call")
        await sub.kill()
        assert await statuses(alice) == {"coder": "online"}, "its end is not the end of the main one"


@pytest.mark.requirement("REC-6", stage="clients")
async def test_a_sub_agent_is_one_after_a_restart_of_the_broker_too(home: Home) -> None:
    home.up()
    async with open_shims(home) as shims:
        alice = await shims.open("alice")
        main = await shims.open("coder", client=CODEX)
        sub = await shims.open(client=CODEX)
        await say(sub, SUB, "list_peers")
        home.signal(home.KILL)
        await say(main, MAIN, "list_peers")
        assert "alice" in await say(sub, SUB, "list_peers")

        async def alone() -> bool:
            return await statuses(alice) == {"coder": "online"}

        await until(alone)
