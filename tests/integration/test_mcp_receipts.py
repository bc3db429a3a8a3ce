"""Receipts of sessions that fetch their mail: a later call of the model is the evidence, nothing else is."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from tests.integration.mcp_world import (
    ERAS,
    HANDSHAKE,
    MODERN,
    Shim,
    Shims,
    cancellation,
    open_shims,
    own_home,
    result_of,
    until_state,
    until_status,
)
from tests.integration.world import Home, until

BEAT_S = 5.0
NUMBERS = itertools.count(1)
PAGE = re.compile(r"^<peer-message [^\n]*\n|</\w{4}>$")
"""What surrounds a part of a large body."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with own_home() as here:
        yield here


@pytest.fixture
async def shims(home: Home) -> AsyncIterator[Shims]:
    async with open_shims(home) as opened:
        yield opened


@pytest.fixture
async def pair(shims: Shims) -> tuple[Shim, Shim]:
    return await open_pair(shims)


async def open_pair(shims: Shims, era: str = HANDSHAKE) -> tuple[Shim, Shim]:
    """Two sessions, under names that no test before them had."""
    number = next(NUMBERS)
    return await shims.open(f"alice{number}", era=era), await shims.open(f"bob{number}", era=era)


# -- evidence -----------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-1", "REC-2", stage="mcp")
@pytest.mark.parametrize("era", ERAS)
async def test_a_message_is_pending_then_delivered_then_read_by_the_next_call_then_answered(
    shims: Shims, era: str
) -> None:
    alice, bob = await open_pair(shims, era)
    sent = await alice.send(bob, "hello")
    assert await alice.state(sent) == "pending"
    assert (await bob.call("get_messages")).bodies == ["hello"]
    assert await alice.state(sent) == "delivered"
    await bob.request("tools/list")
    if era != MODERN:
        await bob.request("ping")
    assert await alice.state(sent) == "delivered", "only a tool call shows what the model has seen"
    await bob.call("list_peers")
    assert await alice.state(sent) == "read by next_call"
    await bob.send(alice, "hello to you", re=sent)
    assert (await alice.state(sent)).startswith("answered")


@pytest.mark.requirement("REC-1", "REC-2", stage="mcp")
async def test_a_reply_to_what_was_just_fetched_is_evidence_and_answer_at_once(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    sent = await alice.send(bob, "hello")
    await bob.call("get_messages")
    await bob.send(alice, "hello to you", re=sent)
    assert (await alice.state(sent)).startswith("answered")
    reply = await alice.call("get_messages")
    assert [(each["re"], each["body"]) for each in reply.data["messages"]] == [(sent, "hello to you")]


@pytest.mark.requirement("REC-2", stage="mcp")
async def test_a_call_that_was_under_way_together_with_the_fetch_is_no_evidence(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    for _ in range(20):
        sent = await alice.send(bob, "hello")
        fetch, first = bob.tool("get_messages")
        beside, second = bob.tool("list_peers")
        await bob.write(first + second)
        assert result_of(await bob.arrival(fetch)).bodies == ["hello"]
        await bob.arrival(beside)
        assert await alice.state(sent) == "delivered"
        await bob.call("list_peers")
        assert await alice.state(sent) == "read by next_call"


@pytest.mark.requirement("REC-2", stage="mcp")
async def test_a_call_of_another_conversation_is_no_evidence(pair: tuple[Shim, Shim]) -> None:
    alice, bob = pair
    sent = await alice.send(bob, "hello")
    assert (await bob.call("get_messages", threadId="one")).bodies == ["hello"]
    await bob.call("list_peers", threadId="two")
    await bob.call("list_peers")
    assert await alice.state(sent) == "delivered"
    await bob.call("list_peers", threadId="one")
    assert await alice.state(sent) == "read by next_call"


# -- what comes back ----------------------------------------------------------------------------------


@pytest.mark.requirement("REC-2", stage="mcp")
@pytest.mark.parametrize("era", [HANDSHAKE, MODERN])
async def test_a_cancelled_wait_takes_nothing_and_gets_no_answer(shims: Shims, era: str) -> None:
    alice, bob = await open_pair(shims, era)
    held, line = bob.tool("get_messages", {"wait_s": 60})
    await bob.write(line)
    await bob.request("tools/list")
    await bob.write(cancellation(held))
    await bob.request("tools/list")
    sent = await alice.send(bob, "hello")
    assert await alice.state(sent) == "pending"
    assert (await bob.call("get_messages")).bodies == ["hello"]
    assert [answer for answer in bob.answers[held] if "result" in answer] == []


@pytest.mark.requirement("REC-2", stage="mcp")
async def test_a_fetch_cancelled_after_its_answer_was_written_is_handed_out_again_once(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    sent = [await alice.send(bob, body) for body in ("one", "two")]
    fetch, line = bob.tool("get_messages")
    await bob.write(line)
    assert result_of(await bob.arrival(fetch)).ids == sent
    await bob.write(cancellation(fetch))
    await until_state(alice, sent[0], "pending")
    again = await bob.call("get_messages")
    assert (again.ids, again.bodies) == (sent, ["one", "two"])
    assert (await bob.call("get_messages")).ids == []
    assert await alice.state(sent[1]) == "read by next_call"
    await bob.write(cancellation(fetch))
    assert (await bob.call("get_messages")).ids == [], "a cancellation that came twice gives nothing back"


async def ids_of(shim: Shim) -> list[str]:
    """What a fetch brings now."""
    return (await shim.call("get_messages")).ids


@pytest.mark.requirement("REC-2", "REC-3", stage="mcp")
async def test_a_cancellation_that_crosses_the_mail_loses_and_doubles_nothing(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    seen: list[str] = []
    sent: list[str] = []
    for number in range(60):
        held, line = bob.tool("get_messages", {"wait_s": 60})
        await bob.write(line)
        asked, mail = alice.tool("agent_send", {"to": bob.name, "body": str(number)})
        alice.begin(mail)
        bob.begin(cancellation(held))
        sent.append(result_of(await alice.arrival(asked)).data["id"])
        seen += await until(partial(ids_of, bob), what="the mail, given back on disk")
    assert seen == sent


@pytest.mark.requirement("REC-2", stage="mcp")
async def test_a_call_in_the_same_breath_as_a_cancellation_is_no_evidence_for_what_it_cancelled(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    for _ in range(10):
        sent = await alice.send(bob, "hello")
        fetch, first = bob.tool("get_messages")
        await bob.write(first)
        assert result_of(await bob.arrival(fetch)).ids == [sent]
        await bob.request("tools/list")
        again, second = bob.tool("get_messages")
        await bob.write(cancellation(fetch) + second)
        assert result_of(await bob.arrival(again)).ids == [sent]


@pytest.mark.requirement("REC-2", stage="mcp")
async def test_what_a_session_that_died_had_fetched_comes_again_and_is_marked(
    shims: Shims, pair: tuple[Shim, Shim]
) -> None:
    alice, bob = pair
    sent = [await alice.send(bob, "seen perhaps")]
    await bob.call("get_messages")
    sent.append(await alice.send(bob, "never seen"))
    await bob.kill()
    await until_status(alice, bob.name, "offline")
    assert [await alice.state(each) for each in sent] == ["pending", "pending"]
    again = await (await shims.open(bob.name)).call("get_messages")
    assert again.ids == sent
    assert [message.get("repeat", False) for message in again.data["messages"]] == [True, False]


@pytest.mark.requirement("REC-2", stage="mcp")
@pytest.mark.parametrize("era", ERAS)
async def test_after_the_brokers_death_what_was_delivered_stays_so_and_the_next_call_is_the_evidence(
    home: Home, shims: Shims, era: str
) -> None:
    alice, bob = await open_pair(shims, era)
    sent = await alice.send(bob, "hello")
    assert (await bob.call("get_messages")).bodies == ["hello"]
    home.signal(home.KILL)
    assert await alice.state(sent) == "delivered"
    assert (await bob.call("get_messages")).ids == []
    assert await alice.state(sent) == "read by next_call"


# -- several at once ----------------------------------------------------------------------------------


@pytest.mark.requirement("REC-3", stage="mcp")
async def test_fetches_under_way_together_share_the_mail_and_keep_the_order(pair: tuple[Shim, Shim]) -> None:
    alice, bob = pair
    sent: list[str] = []
    seen: list[str] = []
    for _ in range(15):
        sent += [await alice.send(bob, "x") for _ in range(3)]
        lines = [bob.tool("get_messages") for _ in range(3)]
        await bob.write(b"".join(line for _, line in lines))
        parts = [result_of(await bob.arrival(number)).ids for number, _ in lines]
        assert sum(1 for part in parts if part) == 1, "later ones of a sender wait behind what is on the way"
        seen += [each for part in parts for each in part]
    assert seen == sent


@pytest.mark.requirement("REC-3", "NET-8", stage="mcp")
async def test_of_several_waits_one_gets_the_message_and_no_other_gets_it_too(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    lines = [bob.tool("get_messages", {"wait_s": 2}) for _ in range(3)]
    await bob.write(b"".join(line for _, line in lines))
    await bob.request("tools/list")
    sent = await alice.send(bob, "only once")
    results = [result_of(await bob.arrival(number)) for number, _ in lines]
    assert [each for result in results for each in result.ids] == [sent]


# -- how much, and how long ---------------------------------------------------------------------------


@pytest.mark.requirement("NET-8", stage="mcp")
@pytest.mark.parametrize("era", ERAS)
async def test_a_wait_ends_at_once_when_a_message_comes(shims: Shims, era: str) -> None:
    alice, bob = await open_pair(shims, era)
    held, line = bob.tool("get_messages", {"wait_s": 60})
    await bob.write(line)
    await bob.request("tools/list")
    began = time.monotonic()
    await alice.send(bob, "now")
    assert result_of(await bob.arrival(held)).bodies == ["now"]
    assert time.monotonic() - began < 1.0


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_message_that_comes_just_as_a_wait_begins_is_not_overlooked(pair: tuple[Shim, Shim]) -> None:
    alice, bob = pair
    slow: list[float] = []
    for number in range(150):
        held, line = bob.tool("get_messages", {"wait_s": 30})
        asked, mail = alice.tool("agent_send", {"to": bob.name, "body": str(number)})
        began = time.monotonic()
        bob.begin(line)
        await until(lambda began=began, number=number: time.monotonic() - began >= number * 2e-5)
        alice.begin(mail)
        await alice.arrival(asked)
        assert result_of(await bob.arrival(held)).bodies == [str(number)]
        slow += [took for took in [time.monotonic() - began] if took > 2]
    assert slow == []


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_wait_ends_empty_when_its_time_is_up_and_refuses_more_than_it_may(
    pair: tuple[Shim, Shim],
) -> None:
    _, bob = pair
    began = time.monotonic()
    assert (await bob.call("get_messages", {"wait_s": 0.4})).text == "No messages."
    assert 0.4 <= time.monotonic() - began < 2
    for wait_s in (601, -1, "long", True):
        refused = await bob.call("get_messages", {"wait_s": wait_s})
        assert refused.failed
        assert "wait_s" in refused.text


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_held_call_shows_progress_and_blocks_no_other(shims: Shims) -> None:
    opened = [(await shims.open(f"bob{era[:4]}", era=era)) for era in (HANDSHAKE, MODERN)]
    held: list[int] = []
    for bob in opened:
        number, line = bob.tool("get_messages", {"wait_s": BEAT_S + 1}, progressToken="p1")
        await bob.write(line)
        held.append(number)
        assert "You are" in (await bob.call("list_peers")).text
    for bob, number in zip(opened, held, strict=True):
        note = await bob.note("notifications/progress", within_s=BEAT_S + 5)
        assert (note["params"]["progressToken"], note["params"]["progress"]) == ("p1", BEAT_S)
        assert result_of(await bob.arrival(number)).text == "No messages."
        told = [each["params"]["progress"] for each in bob.notes]
        assert told == sorted(set(told)), "it only grows"
        await bob.request("tools/list")
        assert len(bob.notes) == len(told), "and none comes after the answer"


@pytest.mark.requirement("REC-4", "NET-8", stage="mcp")
async def test_every_other_result_tells_how_many_messages_wait(pair: tuple[Shim, Shim]) -> None:
    alice, bob = pair
    for count in (1, 2):
        await alice.send(bob, "hello")
        told = await bob.call("list_peers")
        assert told.data["waiting"] == count
        assert "call get_messages" in told.text
    refused = await bob.call("agent_send", {"to": bob.name})
    assert (refused.failed, refused.data["waiting"]) == (True, 2)
    assert len((await bob.call("get_messages")).ids) == 2
    assert "waiting" not in (await bob.call("list_peers")).data


@pytest.mark.requirement("REC-4", stage="mcp")
async def test_what_waits_comes_together_up_to_a_limit_and_the_rest_is_announced(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    sent = [await alice.send(bob, f"{number} " + "x" * 3_000) for number in range(20)]
    seen: list[str] = []
    while len(seen) < len(sent):
        part = await bob.call("get_messages")
        assert part.ids
        assert len(part.text) < 26_000
        seen += part.ids
        assert part.data.get("waiting", 0) == len(sent) - len(seen)
    assert seen == sent


@pytest.mark.requirement("REC-2", "REC-4", stage="mcp")
async def test_a_large_body_comes_part_by_part_and_is_read_only_after_the_last(
    pair: tuple[Shim, Shim],
) -> None:
    alice, bob = pair
    body = "".join(f"{number:06d}\n" for number in range(60 * 1024 // 7))
    sent = await alice.send(bob, body)
    behind = await alice.send(bob, "behind it")
    announced = await bob.call("get_messages")
    assert (announced.ids, [each["id"] for each in announced.data["large"]]) == ([], [sent])
    text, offset, parts = "", 0, 0
    while True:
        part = await bob.call("get_messages", {"id": sent, "offset": offset} if offset else {"id": sent})
        _frame, page, _end = PAGE.split(part.data["part"])
        text, parts = text + page, parts + 1
        if "next_offset" not in part.data:
            break
        assert await alice.state(sent) == "pending"
        offset = part.data["next_offset"]
    assert parts >= 3
    assert text == body
    assert await alice.state(sent) == "delivered"
    assert (await bob.call("get_messages")).ids == [behind]
    assert await alice.state(sent) == "read by next_call"


@pytest.mark.requirement("REC-5", stage="mcp")
async def test_peeking_consumes_nothing(shims: Shims) -> None:
    alice, bob = await shims.open("peeked"), await shims.open("peeker", "--tools", "all")
    sent = [await alice.send(bob, body) for body in ("one", "two")]
    for _ in range(3):
        assert (await bob.call("peek_messages")).ids == sent
        assert await alice.state(sent[0]) == "pending"
    assert (await bob.call("get_messages")).ids == sent
    assert (await bob.call("peek_messages")).ids == []
    assert await alice.state(sent[0]) == "read by next_call"


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_send_to_an_agent_in_mid_wait_or_away_returns_at_once(shims: Shims) -> None:
    alice, bob = await open_pair(shims)
    bob.close()
    assert await bob.ended() == 0
    await until_status(alice, bob.name, "offline")
    async with asyncio.timeout(2):
        sent = await alice.call("agent_send", {"to": bob.name, "body": "later"})
    assert (sent.data["status"], sent.failed) == ("queued", False)


@pytest.mark.requirement("WAKE-2", stage="clients")
async def test_when_a_client_last_read_by_fetching_is_told(home: Home, pair: tuple[Shim, Shim]) -> None:
    alice, bob = pair
    shown = json.loads(home.tellwire("info", bob.name, "--json").stdout)
    assert [(path["name"], path.get("last_at")) for path in shown["paths"]] == [("get_messages", None)]
    await alice.send(bob, "hello")
    await bob.call("get_messages")
    await bob.call("list_peers")
    shown = json.loads(home.tellwire("info", bob.name, "--json").stdout)
    assert [path["last_at"] > 1_700_000_000 for path in shown["paths"]] == [True]
