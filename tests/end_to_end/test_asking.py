"""One question to a real agent CLI: it is started, answers, ends, and nothing of it is left (F2-9)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.end_to_end.family import OWN_WORDS, Family, open_family
from tests.end_to_end.programs import PROGRAMS, REAL
from tests.end_to_end.script import call, message_id, say
from tests.integration.test_spawning import none_left, processes_of
from tests.integration.world import until

QUESTION = "How many lines has the parser?"
ANSWER = "It has 42 lines."
FETCH = call("get_messages", wait_s=60)


def words(short: str, *options: str) -> tuple[str, ...]:
    """The command that asks a client."""
    own = OWN_WORDS.get(short, ())
    return ("ask", PROGRAMS[short].kind, QUESTION, "--as", "boss", "--json", *options, "--", *own)


async def nothing_left(family: Family) -> None:
    """No process, no folder, no child, no name, and no mail for the asker."""
    await none_left(family.home)
    assert await family.children() == []
    assert [each.name for each in await family.alice.peers(all=True)] == ["boss"]
    await family.nothing_more()


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.parametrize("short", REAL)
@pytest.mark.timeout(300)
async def test_each_client_answers_one_question_and_is_gone(tmp_path: Path, short: str) -> None:
    async with open_family(tmp_path, short) as family:
        family.play(short, say(ANSWER)._replace(when=QUESTION), FETCH)
        done = await family.run(*words(short))
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["client"], told["text"]) == (family.clients[short].kind, ANSWER)
        assert len((await family.request(short, QUESTION)).where(QUESTION)) == 1
        await nothing_left(family)


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_client_whose_model_replies_with_a_tool_has_answered(tmp_path: Path) -> None:
    async with open_family(tmp_path, "claude") as family:
        reply = call("agent_send", to="boss", body=ANSWER, re=message_id)
        rest = say("I have answered.")._replace(hold=asyncio.Event())
        family.play("claude", reply._replace(when=QUESTION), FETCH, rest)
        done = await family.run(*words("claude"))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["text"] == ANSWER, "the first that it says to its asker"
        await nothing_left(family)


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_client_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    async with open_family(tmp_path, "codex") as family:
        family.play("codex", say(ANSWER)._replace(when=QUESTION, hold=asyncio.Event()), FETCH)
        asked = asyncio.ensure_future(family.run(*words("codex", "--timeout", "20s")))
        await until(lambda: processes_of(family.home), what="it runs")
        done = await asked
        assert done.returncode == 75
        assert "codex did not answer within 20 s and was stopped." in done.stderr
        await nothing_left(family)
