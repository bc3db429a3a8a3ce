"""Names stay with session and terminal: two Claude Code sessions in one folder, closed and opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.mesh import until_known, until_status
from tests.end_to_end.script import say
from tests.end_to_end.stage import QUESTION, Stage, once, open_stage
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY
from tests.integration.world import until

FIRST, SECOND = "shop-claude", "shop-claude-2"
pytestmark = pytest.mark.timeout(300)


async def begin(stage: Stage, terminal: Terminal, name: str) -> None:
    """A first turn, after which the session is known."""
    await terminal.shows(stage.client.ready_mark)
    await until_known(stage.alice, name)
    stage.play(say(READY))
    await terminal.type(f"Get ready, {name}.")
    await terminal.shows(READY)
    await terminal.idle()


async def close(stage: Stage, terminal: Terminal, name: str) -> None:
    """The human leaves."""
    await terminal.type("/exit")
    await terminal.ended()
    await until_status(stage.home, name, "offline")


async def wakes(stage: Stage, name: str, terminal: Terminal, other: Terminal, answer: str) -> None:
    """Mail for a name enters the session in that terminal, and not the other."""
    stage.play(say(answer))
    (message,) = [(await stage.alice.send(name, f"{QUESTION} {answer}")).id]
    once(await stage.request(f"{QUESTION} {answer}"), f"{QUESTION} {answer}")
    await terminal.shows(answer)
    await stage.until_read(message)
    assert answer not in await other.screen()


def conversation_of(stage: Stage, word: str) -> str:
    """The client's id of the session in which a word was typed."""
    files = (stage.client.home / ".claude/projects").glob("*/*.jsonl")
    (found,) = [path.stem for path in files if word in path.read_text("utf-8", errors="replace")]
    return found


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_names_stay_with_panes_and_a_resumed_session_has_its_own(tmp_path: Path) -> None:
    async with open_stage("claude", tmp_path) as stage, Terminal.open(stage.client) as one:
        await begin(stage, one, FIRST)
        async with Terminal.open(stage.client) as two:
            await begin(stage, two, SECOND)
            await close(stage, one, FIRST)
            await close(stage, two, SECOND)

            await two.again()
            await until_known(stage.alice, SECOND)
            assert await online(stage) == {SECOND}
            await one.again()
            await until_known(stage.alice, FIRST)
            await two.shows(stage.client.ready_mark)
            await one.shows(stage.client.ready_mark)
            await wakes(stage, SECOND, two, one, "Second is awake.")
            await wakes(stage, FIRST, one, two, "First is awake.")

            resumed = conversation_of(stage, "First is awake.")
            await close(stage, one, FIRST)
            await close(stage, two, SECOND)
            await two.again("--resume", resumed)
            await until(lambda: is_online(stage, {FIRST}), what="its own name")


async def online(stage: Stage) -> set[str]:
    """The sessions of the client that are there."""
    peers = await stage.alice.peers(all=True)
    return {each.name for each in peers if each.kind == "claude-code" and each.status == "online"}


async def is_online(stage: Stage, names: set[str]) -> bool:
    """Whether these are there, and no others."""
    return await online(stage) == names
