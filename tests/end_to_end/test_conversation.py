"""Agents of all vendors in one conversation: each asks the next one, the last the first; answers go back.

Once by tools alone, in headless runs that fetch their mail; once in terminals, where mail wakes them.
"""

import asyncio
from pathlib import Path

import pytest

from tests.end_to_end.clients import Ran, run
from tests.end_to_end.company import REQUEST_S, open_company
from tests.end_to_end.conftest import Install
from tests.end_to_end.mesh import sent_id, until_known
from tests.end_to_end.model import Model
from tests.end_to_end.programs import REAL, WITH_MCP
from tests.end_to_end.script import Request, Step, call, say
from tests.end_to_end.stage import once
from tests.integration.world import Home, Join

WAIT_S = 25
BEGIN = "Ask your neighbour."


def following(short: str, ring: tuple[str, ...]) -> str:
    """The agent that is asked."""
    return ring[(ring.index(short) + 1) % len(ring)]


def question(short: str) -> str:
    """What an agent asks the following one."""
    return f"Question of {short}: which version is deployed?"


def answer(short: str) -> str:
    """What an agent answers."""
    return f"Answer of {short}: the one from noon."


def first_id(request: Request) -> str:
    """The id of the message that came first."""
    return request.message_id(0)


def asking(short: str, other: str) -> Step:
    """Ask another one."""
    return call("agent_send", to=f"shop-{other}", body=question(short))


def answering(short: str, asker: str) -> Step:
    """Answer the one who asked first."""
    return call("agent_send", to=f"shop-{asker}", body=answer(short), re=first_id)


def fetching() -> Step:
    """Wait for mail."""
    return call("get_messages", wait_s=WAIT_S)


def when(text: str, *steps: Step) -> tuple[Step, ...]:
    """Steps for when a text has come."""
    return tuple(step._replace(when=text) for step in steps)


def ending(short: str, other: str) -> tuple[Step, ...]:
    """Look what became of the own question, and be done."""
    return when(answer(other), call("message_status", id=sent_id), say(f"end of {short}"))


def headless_part(short: str) -> tuple[Step, ...]:
    """What one of them does: the first begins, the others ask before they answer."""
    asker, other = WITH_MCP[WITH_MCP.index(short) - 1], following(short, WITH_MCP)
    reply = when(question(asker), answering(short, asker))
    if short == WITH_MCP[0]:
        return asking(short, other), fetching(), *reply, fetching(), *ending(short, other)
    return fetching(), asking(short, other), fetching(), *reply, *ending(short, other)


def woken_part(short: str) -> tuple[Step, ...]:
    """The same without fetching. What can be said last stands first: a step waits until its text has come."""
    asker, other = REAL[REAL.index(short) - 1], following(short, REAL)
    if short == REAL[0]:
        reply = when(question(asker), answering(short, asker))
        return *ending(short, other), *reply, *when(BEGIN, asking(short, other))
    reply = when(answer(other), answering(short, asker))
    return *reply, *ending(short, other), *when(question(asker), asking(short, other))


def check(short: str, last: Request, ring: tuple[str, ...]) -> None:
    """Every word has come once, and the own question is known to be answered."""
    once(last, question(ring[ring.index(short) - 1]))
    once(last, answer(following(short, ring)))
    assert f"to shop-{following(short, ring)}: answered" in last.text


async def test_four_clients_ask_each_other_in_a_ring_and_every_word_arrives_once(
    home: Home, model: Model, join: Join, install: Install
) -> None:
    observer = await join("observer")
    runs: dict[str, asyncio.Task[Ran]] = {}
    async with asyncio.TaskGroup() as group:
        for short in reversed(WITH_MCP):
            client = install(short)
            model.play(short, *headless_part(short), unlisted=client.unlisted)
            runs[short] = group.create_task(run(client, "Take part."))
            if short != WITH_MCP[0]:
                await until_known(observer, f"shop-{short}")
    for short, running in runs.items():
        assert (running.result().code, running.result().text) == (0, f"end of {short}"), running.result()
        check(short, model.requests(short)[-1], WITH_MCP)


@pytest.mark.requirement("F2-7", "WAKE-1", stage="clients")
@pytest.mark.timeout(400)
async def test_five_idle_clients_wake_each_other_in_a_ring_and_each_word_arrives_once(
    tmp_path: Path,
) -> None:
    async with open_company(tmp_path, *REAL) as company:
        for short in REAL:
            company.play(short, *woken_part(short))
        await company.terminals[REAL[0]].type(BEGIN)
        for short in reversed(REAL):
            await company.terminals[short].shows(f"end of {short}", within_s=REQUEST_S)
        for short in REAL:
            assert not company.model.left(short), "all was said"
            check(short, company.model.requests(short)[-1], REAL)
