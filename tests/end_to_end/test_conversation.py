"""Agents of four vendors in one conversation: each asks the next one, the last the first; answers go back."""

import asyncio

from tests.end_to_end.clients import Ran, run
from tests.end_to_end.conftest import Install
from tests.end_to_end.mesh import sent_id, until_known
from tests.end_to_end.model import Model
from tests.end_to_end.script import Request, Step, call, say
from tests.integration.world import Home, Join

RING = ("claude", "codex", "gemini", "opencode")
WAIT_S = 25


def following(short: str) -> str:
    """The agent that is asked."""
    return RING[(RING.index(short) + 1) % len(RING)]


def question(short: str) -> str:
    """What an agent asks the following one."""
    return f"Question of {short}: which version is deployed?"


def answer(short: str) -> str:
    """What an agent answers."""
    return f"Answer of {short}: the one from noon."


def first_id(request: Request) -> str:
    """The id of the message that came first."""
    return request.message_id(0)


def asking(short: str) -> Step:
    """Ask the following agent."""
    return call("agent_send", to=f"shop-{following(short)}", body=question(short))


def answering(short: str, asker: str) -> Step:
    """Answer the one who asked, with what had to be found out first."""
    return call("agent_send", to=f"shop-{asker}", body=answer(short), re=first_id)._replace(
        when=question(asker)
    )


def fetching() -> Step:
    """Wait for mail."""
    return call("get_messages", wait_s=WAIT_S)


def ending(short: str) -> tuple[Step, ...]:
    """Look what became of the own question, and be done."""
    return call("message_status", id=sent_id)._replace(when=answer(following(short))), say(f"end of {short}")


def part(short: str) -> tuple[Step, ...]:
    """What one of them does: the first begins, the others ask before they answer."""
    asker = RING[RING.index(short) - 1]
    if short == RING[0]:
        return asking(short), fetching(), answering(short, asker), fetching(), *ending(short)
    return fetching(), asking(short), fetching(), answering(short, asker), *ending(short)


async def test_four_clients_ask_each_other_in_a_ring_and_every_word_arrives_once(
    home: Home, model: Model, join: Join, install: Install
) -> None:
    observer = await join("observer")
    runs: dict[str, asyncio.Task[Ran]] = {}
    async with asyncio.TaskGroup() as group:
        for short in reversed(RING):
            client = install(short)
            model.play(short, *part(short), unlisted=client.unlisted)
            runs[short] = group.create_task(run(client, "Take part."))
            if short != RING[0]:
                await until_known(observer, f"shop-{short}")
    for short, running in runs.items():
        assert (running.result().code, running.result().text) == (0, f"end of {short}"), running.result()
        last = model.requests(short)[-1]
        assert len(last.where(question(RING[RING.index(short) - 1]))) == 1
        assert len(last.where(answer(following(short)))) == 1
        assert f"to shop-{following(short)}: answered" in last.text
