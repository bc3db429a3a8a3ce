"""Real agent CLIs with tellwire's tools, headless: they send, fetch, and are believed only by evidence."""

import asyncio
import os
import signal

import pytest

from tests.end_to_end.clients import client_pid, run, started
from tests.end_to_end.conftest import Install
from tests.end_to_end.mesh import statuses, until_known, until_status
from tests.end_to_end.model import Model
from tests.end_to_end.programs import WITH_MCP
from tests.end_to_end.script import call, say
from tests.integration.world import Home, Join, take

QUESTION = "Is the parser finished?"
ANSWER = "The parser is finished since noon."
FINAL = "Alice says that it is finished."

every_client = pytest.mark.parametrize("short", WITH_MCP)


@every_client
async def test_a_reply_enters_the_context_once_and_its_sender_sees_that_it_was_read(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short)
    release = asyncio.Event()
    model.play(
        short,
        call("list_peers", all=True),
        call("agent_send", to="alice", body=QUESTION),
        call("get_messages", wait_s=25),
        call("list_peers"),
        say(FINAL)._replace(hold=release),
        unlisted=client.unlisted,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Ask alice whether the parser is finished."))
        (question,) = await take(alice, 1)
        assert (question.sender, question.body) == (f"shop-{short}", QUESTION), "named by folder and client"
        reply = await alice.send(question.sender, ANSWER, re=question.id)
        last = await model.request(short, index=4)
        assert statuses(home)[question.sender] == "online"
        release.set()
    assert (running.result().code, running.result().text) == (0, FINAL), running.result()
    assert "alice" in model.requests(short)[1].text
    assert len(last.where(ANSWER)) == 1, last.where(ANSWER)
    (seen,) = (await alice.status(reply.id)).recipients
    assert (seen.state, seen.evidence) == ("read", "next_call")
    await until_status(home, question.sender, "offline")


@every_client
async def test_the_model_is_told_who_it_is_and_how_to_answer(
    model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, name="worker")
    model.play(
        short,
        call("list_peers", all=True),
        call("get_messages", wait_s=25),
        say(FINAL),
        unlisted=client.unlisted,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Wait for work."))
        await model.request(short, index=1)
        await alice.send("worker", QUESTION)
        last = await model.request(short, QUESTION)
    assert running.result().code == 0, running.result()
    assert "You are worker" in last.text
    assert "<peer-message id=" in last.text
    assert "Answer with agent_send" in last.text


@every_client
async def test_what_was_fetched_right_before_the_end_is_not_called_read(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, name="worker")
    model.play(short, call("get_messages", wait_s=25), say(FINAL), unlisted=client.unlisted)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Wait for work."))
        await model.request(short)
        await until_known(alice, "worker")
        sent = await alice.send("worker", QUESTION)
    assert running.result().code == 0, running.result()
    await until_status(home, "worker", "offline")
    (seen,) = (await alice.status(sent.id)).recipients
    assert seen.state == "pending", "no call came after it: there is no evidence"


@every_client
async def test_a_client_killed_with_a_message_in_its_hands_loses_nothing(
    home: Home, model: Model, join: Join, install: Install, short: str
) -> None:
    alice = await join("alice")
    client = install(short, name="worker")
    model.play(
        short,
        call("get_messages", wait_s=25),
        say("never said")._replace(hold=asyncio.Event()),
        unlisted=client.unlisted,
    )
    async with started(client, "Wait for work.") as process:
        await until_known(alice, "worker")
        sent = await alice.send("worker", QUESTION)
        await model.request(short, QUESTION)
        pid = await client_pid(client, process.pid)
        os.kill(pid, signal.SIGKILL)
        await until_status(home, "worker", "offline")
    assert (await alice.status(sent.id))["worker"] == "pending"
    model.play(
        short, call("get_messages", wait_s=25), call("list_peers"), say(FINAL), unlisted=client.unlisted
    )
    ran = await run(client, "Wait for work again.")
    assert (ran.code, ran.text) == (0, FINAL), ran
    assert len(model.requests(short)[-1].where(QUESTION)) == 1
    assert (await alice.status(sent.id))["worker"] == "read"
