"""The delivery matrix: a plain MCP client, which has tools and nothing else. Mail comes when asked for."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys

from tests.end_to_end.clients import ROOT
from tests.end_to_end.matrix import cell, impossible
from tests.end_to_end.mesh import until_known, until_status
from tests.end_to_end.plain import open_plain
from tests.end_to_end.stage import LARGE, QUESTION, Stage
from tests.integration.world import take, until

NAME = "worker"
ROW = "mcp"
ANSWER = "The parser is finished since noon."
ASKS = "mail is announced with the result of its next tool call, and enters when the model fetches it"
LINE_S = 30.0
PART = re.compile(r'<peer-message [^>]* part="([^"]+)">\n(.*?)</\w{4}>', re.DOTALL)
PLACE = re.compile(r'get_messages\(id="(\w+)", offset=(\d+)\)')

impossible(ROW, "sub-agent", "MCP does not tell a sub-agent's call from one of the main conversation")
impossible(ROW, "model error", "what the model was asked is not known; the tools' results are all there is")
impossible(ROW, "beyond time-out", "a server cannot start a turn, sooner or later")
impossible(ROW, "final text", "it does not tell when a turn ends, nor what the model says")
impossible(ROW, "headless speed", "it has no runs that could end")
impossible(ROW, "who woke it", "a server cannot start a turn, and shows nothing on the client's screen")
impossible(ROW, "/clear or /new", "MCP does not tell which conversation a call belongs to")
impossible(ROW, "uninstall", "nothing is installed")


async def reads(stage: Stage, message: str, state: str = "read") -> None:
    """The receipt gets so far."""

    async def told() -> bool:
        return (await stage.state(message))[0] == state

    await until(told, what=f"{message} {state}")


async def write(stage: Stage, *texts: str) -> list[str]:
    """Alice writes to it."""
    await until_known(stage.alice, NAME)
    return [(await stage.alice.send(NAME, text)).id for text in texts]


@cell("tool call", ROW)
async def test_a_plain_client_sends_and_lists(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        assert f"You are {NAME}" in await plain.call("list_peers", all=True)
        await plain.call("agent_send", to="alice", body=QUESTION)
        (message,) = await take(stage.alice, 1)
        assert (message.sender, message.body) == (NAME, QUESTION)


@cell("mid-turn", mcp=ASKS)
async def test_mail_is_announced_with_any_result_and_fetched_once(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        (sent,) = await write(stage, QUESTION)
        assert "1 message waits for you" in await plain.call("list_peers")
        await plain.call("get_messages")
        assert await stage.state(sent) == ("delivered", "")
        assert "waits" not in await plain.call("list_peers")
        await reads(stage, sent)
        assert plain.count(QUESTION) == 1


@cell("end of turn", mcp="it does not tell when a turn ends; mail waits for its next call")
async def test_mail_waits_for_the_next_call(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        (sent,) = await write(stage, QUESTION)
        assert await stage.state(sent) == ("pending", "")
        await plain.call("get_messages")
        await plain.call("list_peers")
        await reads(stage, sent)
        assert plain.count(QUESTION) == 1


@cell(
    "idle",
    mcp="a server cannot start a turn; only a call of get_messages that waits is answered at once",
)
async def test_a_held_fetch_gets_mail_at_once(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain, asyncio.TaskGroup() as group:
        await plain.call("list_peers")
        held = group.create_task(plain.call("get_messages", wait_s=25))
        (sent,) = await write(stage, QUESTION)
        assert QUESTION in await held
        await plain.call("list_peers")
        await reads(stage, sent)
        assert plain.count(QUESTION) == 1


@cell("after Esc", mcp="as idle; a fetch that is cancelled takes nothing with it")
async def test_a_cancelled_fetch_takes_nothing_with_it(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        held = asyncio.create_task(plain.call("get_messages", wait_s=25))
        await until_known(stage.alice, NAME)
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        (sent,) = await write(stage, QUESTION)
        await plain.call("get_messages", wait_s=25)
        await plain.call("list_peers")
        await reads(stage, sent)
        assert plain.count(QUESTION) == 1


@cell("offline", ROW)
async def test_mail_for_a_closed_session_is_in_the_next_one(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
    await until_status(stage.home, NAME, "offline")
    sent = await stage.alice.send(NAME, QUESTION)
    assert sent.status == "queued"
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("get_messages")
        await plain.call("list_peers")
        await reads(stage, sent.id)
        assert plain.count(QUESTION) == 1


@cell("burst", ROW)
async def test_a_burst_comes_in_one_fetch_in_order(stage: Stage) -> None:
    texts = [f"Note number {number:02} for the shop." for number in range(20)]
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        ids = await write(stage, *texts)
        got = await plain.call("get_messages")
        assert re.findall(r"Note number .. for the shop\.", got) == texts
        assert "No messages" in await plain.call("get_messages")
        for sent in ids:
            await reads(stage, sent)


@cell("large body", ROW)
async def test_a_large_body_is_fetched_part_by_part(stage: Stage) -> None:
    body = LARGE
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        (sent,) = await write(stage, body)
        told = await plain.call("get_messages")
        while found := PLACE.findall(told):
            told = await plain.call("get_messages", id=found[-1][0], offset=int(found[-1][1]))
        await plain.call("list_peers")
        parts: list[tuple[str, str]] = PART.findall("\n".join(plain.context))
        assert "".join(text for _, text in parts) == body, [part for part, _ in parts]
        await reads(stage, sent)


@cell("parallel calls", ROW)
async def test_two_fetches_at_once_share_what_waits(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        ids = await write(stage, QUESTION, ANSWER)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(plain.call("get_messages"))
        await plain.call("list_peers")
        for sent in ids:
            await reads(stage, sent)
        assert (plain.count(QUESTION), plain.count(ANSWER)) == (1, 1)


@cell("client killed", ROW)
async def test_what_a_killed_client_had_fetched_comes_again_as_a_possible_repeat(stage: Stage) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.end_to_end.plain", str(stage.home.path), NAME),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        (sent,) = await write(stage, QUESTION)
        assert process.stdout is not None
        async with asyncio.timeout(LINE_S):
            await process.stdout.readuntil(QUESTION.encode())
        assert await stage.state(sent) == ("delivered", "")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    await until_status(stage.home, NAME, "offline")
    assert await stage.state(sent) == ("pending", "")
    async with open_plain(str(stage.home.path), NAME) as plain:
        assert "repeat=maybe" in await plain.call("get_messages")
        await plain.call("list_peers")
        await reads(stage, sent)
        assert plain.count(QUESTION) == 1


@cell("broker killed", ROW)
async def test_what_was_fetched_before_the_broker_died_is_read_by_a_later_call(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        (sent,) = await write(stage, QUESTION)
        await plain.call("get_messages")
        stage.home.signal(signal.SIGKILL)  # its shim starts the next one
        for _ in range(2):  # a call that was under way when the broker died proves nothing
            await plain.call("list_peers")
        await reads(stage, sent)
        assert "No messages" in await plain.call("get_messages")
        assert plain.count(QUESTION) == 1


@cell("reply", ROW)
async def test_an_answer_of_a_plain_client_makes_the_receipt_answered(stage: Stage) -> None:
    async with open_plain(str(stage.home.path), NAME) as plain:
        await plain.call("list_peers")
        (sent,) = await write(stage, QUESTION)
        await plain.call("get_messages")
        await plain.call("agent_send", to="alice", body=ANSWER, re=sent)
        (answer,) = await take(stage.alice, 1)
        assert (answer.re, answer.body, plain.count(QUESTION)) == (sent, ANSWER, 1)
        await reads(stage, sent, "answered")
