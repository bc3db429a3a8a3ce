"""The dialect `agent-network`: a mesh skill's tools, status words and texts, between real sessions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.core.mail.framing import MODES
from tellwire.mcp.dialects import DIALECTS
from tests.integration.world import Home, until
from tests.surfaces.mcp_client import FORGED, Enter, Session, broker_home, check_harmless, sessions

HEAD = re.compile(r"""^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] from=(\S+) re=(\S+|"[^"\n]*")$""", re.MULTILINE)


@pytest.fixture
def place() -> Iterator[Home]:
    """A home with a broker of its own."""
    with broker_home() as home:
        home.up()
        yield home


@pytest.fixture
async def enter(place: Home) -> AsyncIterator[Enter]:
    """Start sessions of this dialect."""
    async with sessions(place, "agent-network") as start:
        yield start


async def goes(session: Session, watcher: Session) -> None:
    """End a session, and wait until the broker has noticed."""
    before = len((await watcher.call("list_peers")).data["peers"])
    await session.close()

    async def is_gone() -> bool:
        return len((await watcher.call("list_peers")).data["peers"]) < before

    await until(is_gone)


# -- the walk-through ---------------------------------------------------------------------------------


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_peers_are_listed_one_name_a_line_without_oneself(enter: Enter) -> None:
    front = await enter("frontend")
    assert (await front.call("list_peers")).data == {"peers": []}
    back = await enter("backend")
    await enter("worker")
    listed = await front.call("list_peers")
    assert listed.text == "backend\nworker"
    assert listed.data == {"peers": ["backend", "worker"]}
    await back.call("agent_send", to="frontend", body="x")
    nudged = await front.call("list_peers")
    assert nudged.data["waiting"] == 1
    *names, last = nudged.text.splitlines()
    assert names == ["backend", "worker"]
    assert re.match(r"\[tellwire: 1 message waits", last), "cannot be taken for a peer"


@pytest.mark.requirement("NET-12", "NET-8", stage="mcp")
async def test_a_question_with_json_and_its_reply(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    sent = await front.call("agent_send", to="backend", body={"q": "JWT shape?"})
    asked = sent.data["id"]
    assert sent.data["status"] == "received"
    assert f"status=received id={asked}" in sent.text
    got = await back.call("get_messages")
    assert HEAD.findall(got.text) == [("frontend", "null")]
    assert f'\n id={asked}\n {{"q":"JWT shape?"}}' in got.text
    (message,) = got.data["messages"]
    assert message["body"] == {"q": "JWT shape?"}
    reply = await back.call(
        "agent_send", to=message["from"], body={"shape": {"sub": "string"}}, re=message["id"]
    )
    assert reply.data["status"] == "received"
    answer = await front.call("get_messages")
    assert HEAD.findall(answer.text) == [("backend", asked)]
    assert answer.data["messages"][0]["re"] == asked
    assert json.loads(answer.text.splitlines()[-1]) == {"shape": {"sub": "string"}}
    empty = await front.call("get_messages")
    assert empty.text == "(no messages)"
    assert empty.data == {"messages": []}


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_an_unknown_peer_is_denied_and_oneself_refused(enter: Enter) -> None:
    front = await enter("frontend")
    await enter("backend")
    denied = await front.call("agent_send", to="backnd", body="x")
    assert denied.data["status"] == "denied"
    assert denied.text.startswith("status=denied")
    assert "backend" in denied.text
    assert "id" not in denied.data
    for wrong in ({"to": "casa:agent-1", "body": "x"}, {"to": "backend", "body": "x" * 70_000}):
        malformed = await front.call("agent_send", **wrong)
        assert malformed.data["status"] == "denied", "whoever knows the skill looks at the status"
        assert malformed.text.startswith("status=denied")
    refused = await front.call("agent_send", to="frontend", body="x")
    assert refused.data["status"] == "refused"
    assert refused.text.startswith("status=refused")
    assert (await front.call("get_messages")).text == "(no messages)"


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_a_broadcast_and_a_list_are_sent_to_the_others(enter: Enter) -> None:
    front, back, worker = await enter("frontend"), await enter("backend"), await enter("worker")
    broadcast = await front.call("agent_send", to="broadcast", body="wave 2 started")
    several = await front.call("agent_send", to=["backend", "worker"], body="to you two")
    assert broadcast.data["status"] == several.data["status"] == "sent"
    assert broadcast.text.startswith("status=sent")
    for peer in (back, worker):
        got = (await peer.call("get_messages")).data["messages"]
        assert [(each["from"], each["to"]) for each in got] == [
            ("frontend", "broadcast"),
            ("frontend", "backend,worker"),
        ]
    assert (await front.call("get_messages")).data["messages"] == []
    partly = await front.call("agent_send", to=["backend", "nobody"], body="x")
    assert partly.data["status"] == "sent"
    assert "nobody" in partly.text, "whom it did not reach"


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_a_peer_that_is_away_is_a_timeout_and_nothing_is_to_be_resent(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    await goes(back, front)
    sent = await front.call("agent_send", to="backend", body="x")
    assert sent.data["status"] == "timeout"
    assert "Do not resend" in sent.text
    assert not sent.failed
    again = await front.call("agent_send", to="backend", body="x")
    assert again.data["id"] == sent.data["id"]
    assert again.data["status"] == "timeout"
    assert "Do not resend" in again.text
    returned = await enter("backend")
    assert [each["id"] for each in (await returned.call("get_messages")).data["messages"]] == [
        sent.data["id"]
    ]


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_the_same_again_within_a_minute_arrives_once(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    first = await front.call("agent_send", to="backend", body={"q": 1})
    second = await front.call("agent_send", to="backend", body={"q": 1})
    assert second.data["id"] == first.data["id"]
    assert second.data["status"] == "received"
    assert "once" in second.text
    await front.call("agent_send", to="backend", body={"q": 2})
    got = (await back.call("get_messages")).data["messages"]
    assert [each["body"] for each in got] == [{"q": 1}, {"q": 2}]


async def test_the_same_words_in_reply_to_two_messages_are_two_messages(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    asked = [(await front.call("agent_send", to="backend", body=f"{n}?")).data["id"] for n in (1, 2)]
    await back.call("get_messages")
    sent = [(await back.call("agent_send", to="frontend", body="yes", re=each)).data["id"] for each in asked]
    assert len(set(sent)) == 2
    got = (await front.call("get_messages")).data["messages"]
    assert [each["re"] for each in got] == asked


# -- the deprecated request ---------------------------------------------------------------------------


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_a_blocking_request_returns_the_reply_and_a_warning(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    request = asyncio.create_task(front.call("agent_request", to="backend", body="ETA?", wait_s=10))
    (message,) = await arrives(back)
    await back.call("agent_send", to="frontend", body="five minutes", re=message["id"])
    result = await request
    assert "deprecated" in result.text
    assert "deprecated" in result.data["warning"]
    assert result.data["status"] == "received"
    assert HEAD.findall(result.text) == [("backend", message["id"])]
    assert result.data["messages"][-1]["body"] == "five minutes"
    assert (await front.call("get_messages")).text == "(no messages)"


async def arrives(session: Session) -> list[dict[str, str]]:
    """The messages, once there are any; this dialect's fetch does not wait."""

    async def look() -> list[dict[str, str]]:
        return (await session.call("get_messages")).data["messages"]

    return await until(look)


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_a_blocking_request_times_out_with_a_status(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    result = await front.call("agent_request", to="backend", body="ETA?", wait_s=0.2)
    assert result.data["status"] == "timeout"
    assert "status=timeout" in result.text
    assert "deprecated" in result.text
    (message,) = await arrives(back)
    assert message["id"] == result.data["id"]
    await back.call("agent_send", to="frontend", body="late", re=message["id"])
    assert (await front.call("get_messages")).data["messages"][0]["body"] == "late"


@pytest.mark.requirement("NET-12", stage="mcp")
async def test_a_blocking_request_that_cannot_succeed_does_not_block(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    denied = await front.call("agent_request", to="nobody", body="x", wait_s=600)
    assert denied.data["status"] == "denied"
    assert "deprecated" in denied.text
    await goes(back, front)
    away = await front.call("agent_request", to="backend", body="x", wait_s=600)
    assert away.data["status"] == "timeout"
    assert "deprecated" in away.text
    assert "Do not resend" in away.text


async def test_a_blocking_request_lets_nothing_overtake(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    await back.call("agent_send", to="frontend", body="before")
    request = asyncio.create_task(front.call("agent_request", to="backend", body="ETA?", wait_s=10))
    (message,) = await arrives(back)
    await back.call("agent_send", to="frontend", body="answer", re=message["id"])
    result = await request
    assert [each["body"] for each in result.data["messages"]] == ["before", "answer"]


# -- what other dialects send -------------------------------------------------------------------------


@pytest.mark.requirement("F2-3", stage="mcp")
async def test_mode_and_context_of_a_peer_with_other_tools_are_in_the_text(enter: Enter) -> None:
    front, other = await enter("frontend"), await enter("other", dialect="tellwire")
    for mode, rule in MODES.items():
        await other.call("agent_send", to="frontend", body="text", mode=mode, context={"file": "a.py"})
        got = await front.call("get_messages")
        assert rule.framing in got.text
        assert "a.py" in got.text
        assert got.data["messages"][0]["mode"] == mode


async def test_no_body_can_spoil_an_inbox_in_any_dialect(enter: Enter) -> None:
    sender = await enter("sender", dialect="tellwire")
    readers = {f"reader-{dialect}": await enter(f"reader-{dialect}", dialect=dialect) for dialect in DIALECTS}
    bodies: list[Any] = [
        1e308,
        2**70,
        -(2**70),
        True,
        0,
        {"": ""},
        [[[]]],
        "\x00",
        "a\r\nb",
        "𝔘" * 99,
    ]
    for body in bodies:
        await sender.call("agent_send", to=list(readers), body=body)
    for reader in readers.values():
        got = await reader.call("get_messages")
        assert not got.failed
        assert len(got.data["messages"]) == len(bodies)


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_message_that_is_too_large_for_one_result_can_be_read(enter: Enter) -> None:
    front, back = await enter("frontend"), await enter("backend")
    body = "".join(f"{number:05d} " for number in range(10_000))
    sent = await front.call("agent_send", to="backend", body=body)
    await front.call("agent_send", to="backend", body="behind it")
    announced = await back.call("get_messages")
    assert f'get_messages(id="{sent.data["id"]}", offset=0)' in announced.text
    assert "(no messages)" not in announced.text
    pages, offset = "", 0
    while True:
        page = await back.call("get_messages", id=sent.data["id"], offset=offset)
        pages += page.text.split(">\n", 1)[1].rpartition("\n</peer-message>")[0]
        offset = page.data.get("next_offset", 0)
        if not offset:
            break
        assert f"offset={offset}" in page.text
    assert pages == body
    assert (await back.call("get_messages")).data["messages"][0]["body"] == "behind it"


# -- hostile peers ------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-2", stage="mcp")
async def test_nothing_a_peer_says_can_forge_another_message_or_hide(enter: Enter, tmp_path: Path) -> None:
    front = await enter("frontend")
    mallory = await enter("mallory", dialect="tellwire", client=FORGED[:60])
    await mallory.call("announce", capabilities=[FORGED[:120]], metadata={FORGED: FORGED})
    assert (await front.call("list_peers")).text.splitlines()[0] == "mallory"
    await mallory.call("agent_send", to="frontend", body=FORGED, re=FORGED[:64], context={FORGED: FORGED})
    await mallory.call("agent_send", to="frontend", body={FORGED: [FORGED]}, mode="agree")
    got = await front.call("get_messages")
    check_harmless(got)
    assert len(HEAD.findall(got.text)) == 2
    assert "operator" not in [sender for sender, _ in HEAD.findall(got.text)]
    own = re.compile(r"\[tellwire: \d+ messages from other agents")
    for line in got.text.splitlines():
        assert line.startswith(" ") or HEAD.match(line) or own.match(line), line
    ids = [line for line in got.text.splitlines() if re.fullmatch(r" id=\w+", line)]
    assert len(ids) == 2
