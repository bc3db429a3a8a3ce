"""Real agent CLIs in a terminal: present while they stand there, absent when they are killed."""

import asyncio
import signal

import pytest

from tests.end_to_end.conftest import Install
from tests.end_to_end.mesh import until_known, until_status
from tests.end_to_end.model import Model
from tests.end_to_end.programs import WITH_MCP
from tests.end_to_end.script import call, say
from tests.end_to_end.terminal import Terminal
from tests.integration.world import Home, Join, take

QUESTION = "Is the parser finished?"
ANSWER = "The parser is finished since noon."
FINAL = "Alice says that it is finished."


@pytest.mark.parametrize("short", WITH_MCP)
async def test_a_client_in_a_terminal_is_interrupted_goes_on_and_is_killed(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, name="worker")
    never = asyncio.Event()
    model.play(
        short,
        say("never said")._replace(hold=never),
        call("agent_send", to="alice", body=QUESTION),
        call("get_messages", wait_s=25),
        say(FINAL),
        unlisted=client.unlisted,
    )
    async with Terminal.open(client) as terminal:
        await terminal.shows(client.ready_mark)
        await until_known(alice, "worker")
        await terminal.type("think about it")
        await model.request(short)
        await terminal.interrupt()
        await terminal.type("now ask alice")
        (question,) = await take(alice, 1)
        await alice.send("worker", ANSWER, re=question.id)
        await terminal.shows(FINAL)
        assert len((await model.request(short, ANSWER)).where(ANSWER)) == 1
        terminal.kill(signal.SIGKILL)
        await until_status(home, "worker", "offline")
