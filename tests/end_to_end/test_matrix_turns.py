"""The delivery matrix: tools, and mail into running turns."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.end_to_end.clients import run
from tests.end_to_end.matrix import cell
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import Call, Request, Step, call, fail, say
from tests.end_to_end.stage import END, FINAL, LARGE, LOOK, PROMPT, QUESTION, Stage, last_words, once
from tests.integration.world import take

ANSWER = "The parser is finished since noon."
BURST = [f"Note number {number:02} for the shop." for number in range(20)]
LOOKS = [LOOK, call("list_peers", all=True)] * 3
"""Not the same call again and again: Gemini takes that for a loop and ends the turn."""
PARTS_MAX = 30
PASSING_ON_529 = ("gemini", "pi")
"""They take it for an error that will not pass."""
PLACE = re.compile(r'get_messages\(id="(\w+)", offset=(\d+)\)')
PART = re.compile(r'<peer-message [^>]* part="([^"]+)">\n(.*?)</\w{4}>', re.DOTALL)


@pytest.mark.requirement("F2-7", stage="clients")
@cell("tool call", *REAL)
async def test_a_client_calls_tools_and_a_peer_gets_what_it_sends(stage: Stage) -> None:
    stage.play(LOOK, call("agent_send", to="alice", body=QUESTION), END)
    ran = await run(stage.client, PROMPT)
    assert (ran.code, ran.text) == (0, FINAL), last_words(ran)
    (message,) = await take(stage.alice, 1)
    assert (message.sender, message.body) == (stage.agent, QUESTION)
    last = stage.requests[-1]
    assert f"You are {stage.agent}" in last.text
    assert f"{message.id} received" in last.text or f'"{message.id}"' in last.text


@pytest.mark.requirement("WAKE-1", "REC-1", stage="clients")
@cell("mid-turn", *REAL)
async def test_mail_enters_a_running_turn_once(stage: Stage) -> None:
    _, ids = await stage.during_turn([QUESTION], LOOK, LOOK, END)
    assert len(stage.requests) == 3
    for request in stage.requests[1:]:
        once(request)
    await stage.until_read(*ids)


@pytest.mark.requirement("WAKE-1", stage="clients")
@cell("end of turn", *REAL)
async def test_mail_enters_at_the_end_of_a_turn_once(stage: Stage) -> None:
    _, ids = await stage.during_turn([QUESTION], say("First."), END)
    assert len(stage.requests) == 2
    once(stage.requests[-1])
    await stage.until_read(*ids)


@pytest.mark.requirement("REC-4", stage="clients")
@cell("burst", *REAL)
async def test_a_burst_enters_in_order_each_message_once(stage: Stage) -> None:
    _, ids = await stage.during_turn(BURST, *LOOKS, *[END] * 8)
    last = stage.requests[-1]
    for text in BURST:
        once(last, text)
    places = [last.text.index(text) for text in BURST]
    assert places == sorted(places), "out of order"
    await stage.until_read(*ids)


async def read_on(stage: Stage, part: Step) -> None:
    """Have the model fetch what the context tells it to, part by part, until nothing more is told."""
    before = ("", "")
    for index in range(1, PARTS_MAX):
        found: list[tuple[str, str]] = PLACE.findall((await stage.request(index=index)).text)
        assert found, "nothing was announced"
        following, (arguments,), hold = reading(), [each.arguments for each in part.calls], part.hold
        assert isinstance(arguments, dict)
        assert hold is not None
        if found[-1] == before:
            stage.play(END)
            return hold.set()
        before = found[-1]
        arguments.update(id=before[0], offset=int(before[1]))
        stage.play(following)
        hold.set()
        part = following
    raise AssertionError(f"more than {PARTS_MAX} parts")


def reading() -> Step:
    """Fetch a part; which one is put in while the step is held."""
    return Step(calls=(Call("get_messages", {}),), hold=asyncio.Event())


@pytest.mark.requirement("REC-4", stage="clients")
@cell("large body", *REAL)
async def test_a_large_body_is_announced_and_fetched_whole(stage: Stage) -> None:
    first = reading()
    async with asyncio.TaskGroup() as group:
        turn = group.create_task(stage.during_turn([LARGE], LOOK, first))
        await read_on(stage, first)
    _, ids = turn.result()
    parts: list[tuple[str, str]] = PART.findall(stage.requests[-1].text)
    whole = "".join(text for _, text in parts)
    assert whole == LARGE, f"{len(whole)} of {len(LARGE)} characters, in parts {[part for part, _ in parts]}"
    await stage.until_read(*ids)


@pytest.mark.requirement("REC-3", stage="clients")
@cell("parallel calls", *REAL)
async def test_mail_enters_once_while_two_tool_calls_run(stage: Stage) -> None:
    both = Step(calls=(Call("list_peers", {}), Call("list_peers", {"all": True})))
    texts = [QUESTION, ANSWER]
    _, ids = await stage.during_turn(texts, both, both, END)
    for request in stage.requests[1:]:
        for text in texts:
            once(request, text)
    await stage.until_read(*ids)


@pytest.mark.requirement("REC-2", stage="clients")
@cell("model error", *REAL)
async def test_mail_is_there_once_when_the_model_fails_and_is_asked_again(stage: Stage) -> None:
    second = fail(503 if stage.row in PASSING_ON_529 else 529)
    _, ids = await stage.during_turn([QUESTION], LOOK, fail(500), second, LOOK, END)
    assert len(stage.requests) == 5
    for request in stage.requests[1:]:
        once(request)
    await stage.until_read(*ids)


def of_mail(request: Request) -> str:
    """As an argument: the id of the mail that a hook has brought; Gemini writes its frame with entities."""
    return re.findall(r"peer-message id=(\w+) from=alice", request.text)[-1]


@pytest.mark.requirement("REC-1", stage="clients")
@cell("reply", *REAL)
async def test_an_answer_makes_the_receipt_answered(stage: Stage) -> None:
    reply = call("agent_send", to="alice", body=ANSWER, re=of_mail)
    _, (sent,) = await stage.during_turn([QUESTION], LOOK, reply, END)
    (answer,) = await take(stage.alice, 1)
    assert (answer.sender, answer.re, answer.body) == (stage.agent, sent, ANSWER)
    once(stage.requests[-1])
    assert (await stage.state(sent))[0] == "answered"
