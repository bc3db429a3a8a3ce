"""One question to a fresh agent: it is started, answers, ends, and nothing of it is left (F2-9)."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tests.integration.test_spawning import end_children, none_left, processes_of
from tests.integration.world import ROOT, WITHIN_S, Home, Join, read_proc, take, tellwire_command, until

SLEEP = ("sleep", "300")
REPLYING = """
import asyncio, tellwire
async def main():
    async with tellwire.connect("whoever") as me:
        (question,) = await me.messages(wait_s=30)
        await me.confirm([question])
        await me.send(question.sender, f"{question.body} Forty-two.", re=question.id)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
async def boss(home: Home, join: Join) -> AsyncIterator[tellwire.Agent]:
    """An agent that asks; whatever it started ends with the test."""
    try:
        yield await join("boss")
    finally:
        end_children(home)


async def ask(boss: tellwire.Agent, *words: str, **options: Any) -> Any:
    return await boss.children.ask("command", "What is it?", command=words, **options)


async def refused(boss: tellwire.Agent, *words: str, **options: Any) -> tellwire.TellwireError:
    with pytest.raises(tellwire.TellwireError) as caught:
        await ask(boss, *words, **options)
    return caught.value


async def nothing_left(home: Home, boss: tellwire.Agent) -> None:
    """No process, no folder, no child, no name, no scope, no mail."""
    await none_left(home)
    assert await boss.children.all() == []
    assert [each.name for each in await boss.peers(all=True) if each.name.startswith("ask-")] == []
    assert await boss.scopes.all() == []
    assert await boss.messages(wait_s=0) == []


# -- answers ------------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_what_a_program_writes_until_it_ends_well_is_its_answer(
    home: Home, boss: tellwire.Agent
) -> None:
    answer = await ask(boss, "sh", "-c", "echo forty-two")
    assert (answer.client, answer.text) == ("command", "forty-two")
    assert await boss.children.all() == [], "it is gone when the answer is there"
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", "AUD-6", stage="lineage")
async def test_a_message_to_its_asker_is_its_answer_and_comes_once(home: Home, boss: tellwire.Agent) -> None:
    answer = await ask(boss, sys.executable, "-c", REPLYING, cwd=str(ROOT))
    assert answer.text == "What is it? Forty-two."
    await nothing_left(home, boss)
    (found,) = (await boss.past.history(limit=1)).messages
    assert (found.id, found.body) == (answer.message, answer.text), "it was on record before it was told"
    (receipt,) = (await boss.status(answer.message)).recipients
    assert (receipt.state, receipt.evidence) == ("read", "answer")


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_a_long_answer_comes_whole_or_says_that_it_is_cut(home: Home, boss: tellwire.Agent) -> None:
    for size, whole in ((50_000, True), (3_000_000, False)):
        answer = await ask(boss, sys.executable, "-c", f"print('B' + 'x' * {size - 2} + 'E')")
        assert answer.text.startswith("Bx"), "from its beginning"
        assert answer.text.endswith("xE") is whole
        assert ("[cut: the whole had 3000001 bytes]" in answer.text) is not whole
    assert (await ask(boss, "sh", "-c", "printf '\\377\\000ok'")).text.endswith("ok"), (
        "whatever its bytes are"
    )
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_several_questions_at_once_get_their_own_answers(home: Home, boss: tellwire.Agent) -> None:
    asked = [ask(boss, "sh", "-c", f"sleep 0.{number}; echo {number}") for number in range(4)]
    assert [each.text for each in await asyncio.gather(*asked)] == ["0", "1", "2", "3"]
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", "CHILD-5", stage="lineage")
async def test_one_that_is_asked_may_write_nowhere(home: Home, boss: tellwire.Agent, tmp_path: Path) -> None:
    words = shlex.join(tellwire_command("who-owns", str(tmp_path / "file")))
    answer = await ask(boss, "sh", "-c", f"sleep 1.2; {words} || true", cwd=str(ROOT))
    assert "You may not write anywhere" in answer.text, answer.text
    await nothing_left(home, boss)


# -- no answer ----------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", stage="lineage")
@pytest.mark.parametrize("after_s", ["0", "1.3"], ids=["at-once", "when-up"])
async def test_one_that_fails_is_told_with_its_own_words(
    home: Home, boss: tellwire.Agent, after_s: str
) -> None:
    told = await refused(boss, "sh", "-c", f"sleep {after_s}; echo no key found >&2; exit 3")
    assert told.code == "child_failed"
    assert told.message == "command did not answer: It ended with code 3.\nno key found"
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_bad_questions_are_refused_and_start_nothing(home: Home, boss: tellwire.Agent) -> None:
    async def code(client: str, question: str = "q", **options: Any) -> str:
        with pytest.raises(tellwire.TellwireError) as caught:
            await boss.children.ask(client, question, **options)
        return caught.value.code

    assert await code("command", " ") == "bad_request"
    assert await code("command", command=SLEEP, timeout_s=0) == "bad_request"
    assert await code("command", command=SLEEP, timeout_s=9e9) == "bad_request"
    assert await code("command", "x" * 70_000, command=SLEEP) == "body_too_large"
    assert await code("") == "bad_request"
    assert await code("no-such-client") == "child_failed"
    assert await code("command", command=["no-such-program-anywhere"]) == "child_failed"
    assert await code("command", command=SLEEP, cwd="/no/such/folder") == "child_failed"
    for words in (("true",), ("sh", "-c", "echo a complaint >&2")):
        told = (await refused(boss, *words)).message
        assert told.startswith("command did not answer: It ended without an answer."), "complaints are none"
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_the_time_is_bounded_and_what_it_said_until_then_is_told(
    home: Home, boss: tellwire.Agent
) -> None:
    told = await refused(boss, "sh", "-c", "echo still thinking; exec sleep 300", timeout_s=1.5)
    assert told.code == "child_failed"
    assert told.message == "command did not answer within 1.5 s and was stopped.\nstill thinking"
    await nothing_left(home, boss)


def command_that_asks(home: Home) -> subprocess.Popen[bytes]:
    """`tellwire ask`, which will not have its answer."""
    words = tellwire_command("ask", "command", "What?", "--as", "mia", "--", *SLEEP)
    # A suite that runs in the background of a shell has Ctrl-C ignored, and who is started inherits that.
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(words, env=home.environment(), cwd=ROOT, stdin=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, earlier)


# -- who asks is gone ---------------------------------------------------------------------------------


async def begun(home: Home) -> int:
    (pid,) = await until(lambda: processes_of(home), what="it runs")
    await until(lambda: read_proc(pid, "cmdline").endswith(b"sleep\x00300\0"), what="it has begun")
    return pid


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_a_question_that_is_cancelled_ends_the_agent(home: Home, boss: tellwire.Agent) -> None:
    asked = asyncio.ensure_future(ask(boss, *SLEEP))
    await begun(home)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await none_left(home)
    await until(lambda: is_childless(boss), what="it is forgotten")
    await nothing_left(home, boss)


async def is_childless(boss: tellwire.Agent) -> bool:
    return await boss.children.all() == []


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_an_asker_that_is_killed_takes_the_agent_along(home: Home, boss: tellwire.Agent) -> None:
    asker = command_that_asks(home)
    await begun(home)
    asker.kill()
    asker.wait()
    await none_left(home)
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_ctrl_c_ends_the_agent(home: Home, boss: tellwire.Agent) -> None:
    asker = command_that_asks(home)
    await begun(home)
    asker.send_signal(signal.SIGINT)
    await none_left(home)
    asker.wait()
    await nothing_left(home, boss)


# -- the broker dies ----------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", "CHILD-6", stage="lineage")
async def test_a_broker_killed_in_the_middle_leaves_no_orphan_and_a_clear_word(
    home: Home, boss: tellwire.Agent
) -> None:
    asked = asyncio.ensure_future(ask(boss, *SLEEP))
    await begun(home)
    home.signal(Home.KILL)
    with pytest.raises(tellwire.TellwireError) as caught:
        await asked
    assert caught.value.code == "child_failed"
    assert caught.value.message.startswith("The answer is lost: the broker stopped")
    await none_left(home)
    await until(lambda: is_childless(boss), what="it is forgotten")
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.2, 0.4, 0.8, 1.1, 1.3])
async def test_a_kill_at_any_moment_leaves_the_answer_or_a_refusal_and_nothing_else(
    home: Home, boss: tellwire.Agent, moment: float
) -> None:
    asked = asyncio.ensure_future(ask(boss, "sh", "-c", "sleep 0.6; echo 42"))
    began = asyncio.get_running_loop().time()
    await until(lambda: asyncio.get_running_loop().time() - began > moment)
    home.signal(Home.KILL)
    (outcome,) = await asyncio.gather(asked, return_exceptions=True)
    if isinstance(outcome, BaseException):
        assert getattr(outcome, "code", "") == "child_failed", outcome
    else:
        assert outcome.text == "42"
    await none_left(home)
    await until(lambda: is_childless(boss), what="it is forgotten")
    await nothing_left(home, boss)


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_a_broker_that_is_told_to_stop_ends_what_it_asked(home: Home, boss: tellwire.Agent) -> None:
    asked = asyncio.ensure_future(ask(boss, *SLEEP))
    pid = await begun(home)
    await asyncio.to_thread(home.tellwire, "down")
    assert read_proc(pid, "cmdline") == b"", "it runs without a broker"
    (outcome,) = await asyncio.gather(asked, return_exceptions=True)
    assert isinstance(outcome, tellwire.TellwireError)


# -- those around -------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_who_wrote_to_it_is_told_and_the_asker_is_not(
    home: Home, boss: tellwire.Agent, join: Join
) -> None:
    alice = await join("alice")
    asked = asyncio.ensure_future(ask(boss, "sh", "-c", "sleep 1.5; echo 42"))
    await begun_any(home)
    name = await until(lambda: name_of_asked(alice), what="it is up")
    await alice.send(name, "Are you the one?")
    assert (await asked).text == "42"
    (lost,) = await take(alice, 1)
    assert str(lost.body).startswith(f"Not delivered to {name}:")
    await nothing_left(home, boss)


async def begun_any(home: Home) -> None:
    await until(lambda: processes_of(home), what="it runs", within_s=WITHIN_S)


async def name_of_asked(asker: tellwire.Agent) -> str:
    peers = await asker.peers(all=True)
    return next((each.name for each in peers if each.name.startswith("ask-")), "")
