"""The default tools through a real stdio server: what they list, say and do, seen by the official client."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.core.limits import Limits
from tellwire.core.mail.framing import MODES
from tellwire.mcp.dialects import DIALECTS
from tellwire.mcp.dialects.tellwire import TELLWIRE
from tellwire.mcp.dialects.tool import tools_of
from tellwire.protocol.relay import ALL, CORE
from tests.integration.world import Home
from tests.surfaces.cli_world import run_at_terminal
from tests.surfaces.mcp_client import (
    AUTO,
    FORGED,
    HANDSHAKE,
    Enter,
    broker_home,
    check_harmless,
    goes_offline,
    sessions,
)


@pytest.fixture
def place() -> Iterator[Home]:
    """A home with a broker of its own."""
    with broker_home() as home:
        home.up()
        yield home


@pytest.fixture
async def enter(place: Home) -> AsyncIterator[Enter]:
    """Start sessions of our own dialect."""
    async with sessions(place) as start:
        yield start


# -- the list -----------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-12", "F2-1", stage="mcp")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_both_eras_of_the_protocol_list_the_same_tools(enter: Enter, dialect: str) -> None:
    old = await enter("alice", dialect=dialect, tools=ALL)
    new = await enter("bob", dialect=dialect, tools=ALL, era=AUTO)
    assert old.client.protocol_version == "2025-11-25"
    assert new.client.protocol_version == "2026-07-28"
    assert await old.tools() == await new.tools()
    assert list(await old.tools()) == list(tools_of(DIALECTS[dialect], ALL))
    assert "alice" in old.instructions
    assert "bob" in new.instructions
    assert len(old.instructions.split()) < 400


async def test_the_usual_list_is_small(enter: Enter) -> None:
    alice = await enter("alice")
    tools = (await alice.client.list_tools()).tools
    listed = json.dumps([tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools])
    assert [tool.name for tool in tools] == list(tools_of(TELLWIRE, CORE))
    assert len(tools) <= 12
    assert len(listed.encode()) <= 10_000


@pytest.mark.parametrize("era", [HANDSHAKE, AUTO])
async def test_without_a_name_the_folder_and_the_client_give_one(
    enter: Enter, tmp_path: Path, era: str
) -> None:
    folder = tmp_path / "my shop"
    folder.mkdir()
    session = await enter(cwd=folder, client="Some Editor", era=era)
    assert "`my-shop-some-editor`" in session.instructions
    second = await enter(cwd=folder, client="Some Editor", era=era)
    assert "`my-shop-some-editor-2`" in second.instructions
    assert "\nmy-shop-some-editor-2 (some-editor, not wakeable)" in (await session.call("list_peers")).text


# -- sending and reading ------------------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
async def test_a_model_asks_the_human_and_offers_answers(place: Home, enter: Enter) -> None:
    alice = await enter("alice")
    sent = await alice.call("agent_send", to="operator", body="Go on?", choices=["yes", "no"])
    assert sent.data["status"] == "received"
    wrong = await alice.call("agent_send", to="operator", body="Go on?", choices=["yes", "yes"])
    assert (wrong.failed, "choices" in wrong.text) == (True, True)
    assert run_at_terminal(place, "answer", sent.data["id"], "YES").code == 0
    (message,) = (await alice.call("get_messages")).data["messages"]
    assert (message["from"], message["body"], message["re"]) == ("operator", "yes", sent.data["id"])


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_question_and_its_answer(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob", era=AUTO)
    sent = await alice.call("agent_send", to="bob", body="What is the port?")
    asked = sent.data["id"]
    assert sent.data == {"id": asked, "status": "received", "note": "read when it next asks"}
    assert "later" in sent.text
    assert "get_messages" in sent.text
    nudged = await bob.call("list_peers")
    assert nudged.data["waiting"] == 1
    assert "1 message waits" in nudged.text
    got = await bob.call("get_messages")
    (message,) = got.data["messages"]
    assert (message["id"], message["from"], message["body"]) == (asked, "alice", "What is the port?")
    assert f"<peer-message id={asked} from=alice" in got.text
    assert re.search(r"What is the port\?</\w{4}>", got.text)
    assert "agent_send(to=<from>, body, re=<id>)" in got.text
    assert "waiting" not in got.data
    replied = await bob.call("agent_send", to=message["from"], body="8080", re=message["id"])
    assert "waiting" not in replied.data
    answer = await alice.call("get_messages", wait_s=10)
    assert answer.data["messages"][0]["re"] == asked
    assert f"re={asked}" in answer.text
    assert (await alice.call("message_status", id=asked)).data["recipients"][0]["state"] == "answered"
    unknown = await alice.call("message_status", id="m999")
    assert unknown.data["error"]["code"] == "unknown_message"
    assert "fetched" not in unknown.text, "that is about the inbox"
    empty = await alice.call("get_messages")
    assert empty.text == "No messages."
    assert empty.data == {"messages": []}


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_fetch_may_wait_for_a_while_and_then_says_that_nothing_came(enter: Enter) -> None:
    alice = await enter("alice")
    result = await alice.call("get_messages", wait_s=0.2)
    assert result.text == "No messages."
    assert not result.failed


@pytest.mark.requirement("NET-8", "REC-4", stage="mcp")
async def test_a_fetch_is_bounded_and_says_what_is_left(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    for number in range(3):
        await alice.call("agent_send", to="bob", body=f"{number} " + "x" * 10_000)
    first = await bob.call("get_messages")
    assert len(first.data["messages"]) == 2
    assert first.data["waiting"] == 1
    assert '1 more message waits; call get_messages(after="' in first.text
    assert len(first.text) < Limits().take_chars_max + 1_000
    second = await bob.call("get_messages")
    assert [each["body"][0] for each in second.data["messages"]] == ["2"]


@pytest.mark.requirement("NET-8", stage="mcp")
async def test_a_large_message_is_announced_and_read_part_by_part(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    body = "".join(f"{number:05d} " for number in range(10_000))
    sent = await alice.call("agent_send", to="bob", body=body)
    announced = await bob.call("get_messages")
    (large,) = announced.data["large"]
    assert large["id"] == sent.data["id"]
    assert f'get_messages(id="{large["id"]}", offset=0)' in announced.text
    got, offset = "", 0
    while True:
        page = await bob.call("get_messages", id=large["id"], offset=offset)
        got += re.split(r"</\w{4}>", page.text.split(">\n", 1)[1])[0]
        offset = page.data.get("next_offset", 0)
        if not offset:
            break
        assert f"offset={offset}" in page.text
    assert got == body
    state = await alice.call("message_status", id=large["id"])
    assert state.data["recipients"][0]["state"] == "delivered"


async def test_every_result_tells_that_messages_wait(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob", tools=ALL)
    sent = (await alice.call("agent_send", to="bob", body="x")).data["id"]
    arguments: dict[str, dict[str, Any]] = {
        "agent_send": {"to": "nobody", "body": "x"},
        "message_status": {"id": sent},
        "announce": {"capabilities": ["x"]},
        "subscribe": {"topic": "x"},
        "unsubscribe": {"topic": "x"},
        "get_agent": {"name": "alice"},
        "search_messages": {"query": "x", "limit": 0},
    }
    for tool in sorted(set(tools_of(TELLWIRE, ALL)) - {"get_messages", "leave"}):
        result = await bob.call(tool, **arguments.get(tool, {}))
        assert result.data.get("waiting") == 1, tool
        assert "1 message waits for you" in result.text, tool


async def test_a_misspelt_name_is_denied_with_the_nearest_ones_and_oneself_refused(enter: Enter) -> None:
    alice = await enter("alice")
    await enter("bob")
    one = await alice.call("agent_send", to="bobb", body="x")
    assert (one.failed, one.data["status"]) == (True, "denied")
    assert one.data["suggestions"] == ["bob"]
    assert "Did you mean bob?" in one.text
    several = await alice.call("agent_send", to=["bob", "bobb"], body="x")
    assert several.data["status"] == "sent"
    assert "sent to 1: bob" in several.text
    assert "bobb (denied" in several.text
    assert "Did you mean bob?" in several.text
    oneself = await alice.call("agent_send", to="Alice", body="x")
    assert (oneself.failed, oneself.data["status"]) == (True, "refused")
    assert "That is you" in oneself.text


async def test_mail_for_one_who_is_away_is_queued_and_comes_later(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    await bob.close()
    await goes_offline(alice, "bob")
    sent = await alice.call("agent_send", to="bob", body="x")
    assert sent.data["status"] == "queued"
    assert "offline" in sent.text
    assert "Do not resend" in sent.text
    assert (await alice.call("message_status", id=sent.data["id"])).text.startswith(
        f"{sent.data['id']} to bob: pending: offline"
    )
    back = await enter("bob")
    assert (await back.call("subscribe", topic="#x")).data["waiting"] == 1
    assert [each["id"] for each in (await back.call("get_messages")).data["messages"]] == [sent.data["id"]]


async def test_several_a_topic_and_everybody(enter: Enter, tmp_path: Path) -> None:
    alice, bob, carol = await enter("alice"), await enter("bob"), await enter("carol")
    await enter("stranger", cwd=tmp_path)
    topics = await bob.call("subscribe", topic="#build")
    assert topics.text == "Your topics: #build."
    listed = await alice.call("agent_send", to=["bob", "carol"], body="list")
    topic = await alice.call("agent_send", to="#build", body="topic")
    everybody = await alice.call("agent_send", to="broadcast", body="all")
    assert [each.data["status"] for each in (listed, topic, everybody)] == ["sent"] * 3
    assert "sent to 2: bob, carol" in listed.text
    assert "sent to 1: bob" in topic.text
    assert "sent to 2: bob, carol" in everybody.text
    got = (await bob.call("get_messages")).data["messages"]
    assert [each["body"] for each in got] == ["list", "topic", "all"]
    heard = await carol.call("get_messages")
    assert "to=bob,carol" in heard.text
    assert "to=broadcast" in heard.text
    nobody = await carol.call("agent_send", to="#nothing", body="x")
    assert not nobody.data.get("id")
    assert nobody.text.startswith("Nobody")
    assert "#nothing" in nobody.text


async def test_the_list_says_who_one_is_and_how_many_are_hidden(enter: Enter, tmp_path: Path) -> None:
    alice = await enter("alice")
    alone = await alice.call("list_peers")
    assert alone.text == "You are alice. Nobody else is online here."
    bob = await enter("bob")
    await bob.call("announce", capabilities=["rust", "review"])
    await enter("stranger", cwd=tmp_path)
    near = await alice.call("list_peers")
    head, peer, hidden = near.text.splitlines()
    assert (head, peer) == ("You are alice. 1 peer:", "bob (mcp, not wakeable): rust, review")
    assert hidden.startswith("1 more is")
    assert "list_peers(all=true)" in hidden
    assert near.data["hidden"] == 1
    everybody = await alice.call("list_peers", all=True)
    assert [peer["name"] for peer in everybody.data["peers"]] == ["bob", "stranger"]
    able = await alice.call("list_peers", capability="review")
    assert [peer["name"] for peer in able.data["peers"]] == ["bob"]
    unable = await alice.call("list_peers", capability="gpu")
    assert "Nobody else is online" not in unable.text, "bob is; he only cannot do that"


# -- names --------------------------------------------------------------------------------------------


async def test_announce_gives_a_new_name_and_says_what_one_can_do(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    told = await alice.call("announce", name="reviewer", capabilities=["review"], metadata={"model": "x"})
    assert told.text == "You are reviewer; capabilities: review."
    assert told.data["metadata"] == {"model": "x"}
    assert (await bob.call("agent_send", to="reviewer", body="x")).data["status"] == "received"
    taken = await alice.call("announce", name="bob")
    assert taken.data["error"]["code"] == "conflict"
    assert "taken" in taken.text
    assert "Choose another name;" in taken.text
    assert taken.data["waiting"] == 1


async def test_who_was_renamed_can_be_answered_as_the_message_says(enter: Enter) -> None:
    alice, bob, carol = await enter("alice"), await enter("bob"), await enter("carol")
    await alice.call("agent_send", to="bob", body="x")
    await alice.call("announce", name="reviewer")
    await carol.call("announce", name="alice")
    (message,) = (await bob.call("get_messages")).data["messages"]
    replied = await bob.call("agent_send", to=message["from"], body="y", re=message["id"])
    assert replied.data["status"] == "received", replied.text
    assert [each["body"] for each in (await alice.call("get_messages")).data["messages"]] == ["y"]
    assert (await carol.call("get_messages")).data["messages"] == [], "she asked nothing"


async def test_announce_does_not_take_over_the_name_of_one_who_is_away(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    await bob.close()
    await goes_offline(alice, "bob")
    sent = await alice.call("agent_send", to="bob", body="for bob alone")
    fresh = await enter("fresh")
    refused = await fresh.call("announce", name="bob")
    assert refused.data["error"]["code"] == "conflict"
    assert "only the operator can give away" in refused.text
    assert (await fresh.call("get_messages")).data["messages"] == []
    names = [peer["name"] for peer in (await alice.call("list_peers", all=True)).data["peers"]]
    assert sorted(names) == ["bob", "fresh"]
    status = await alice.call("message_status", id=sent.data["id"])
    assert status.data["recipients"][0]["state"] == "pending"


async def test_a_name_that_nobody_may_bear_does_not_lock_a_session_out(enter: Enter) -> None:
    session = await enter("tellwire", client="some-editor")
    told = await session.call("list_peers")
    assert not told.failed, told.text
    assert "reserved" in session.instructions + told.text


# -- the rest of the tools ----------------------------------------------------------------------------


async def test_history_and_search(enter: Enter) -> None:
    alice, bob = await enter("alice", tools=ALL), await enter("bob", tools=ALL)
    first = (await alice.call("agent_send", to="bob", body="the parser leaks memory")).data["id"]
    second = (await bob.call("agent_send", to="alice", body="which parser", re=first)).data["id"]
    history = await alice.call("read_history", peer="bob")
    assert [each["id"] for each in history.data["messages"]] == [second, first]
    assert "Answer with" not in history.text, "nobody is asked to answer the past again"
    opening = next(line for line in history.text.splitlines() if f"id={first}" in line)
    assert "to=bob" in opening, "whom one's own message went to"
    found = await alice.call("search_messages", query='"leaks memory"')
    assert [each["id"] for each in found.data["messages"]] == [first]
    page = await alice.call("read_history", limit=1)
    assert f'before="{page.data["next"]}"' in page.text
    rest = await alice.call("read_history", limit=1, before=page.data["next"])
    assert [each["id"] for each in rest.data["messages"]] == [first]
    assert (await alice.call("search_messages", query="nothing")).text.startswith("Nothing found.")


async def test_peeking_takes_nothing(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob", tools=ALL)
    sent = (await alice.call("agent_send", to="bob", body="x")).data["id"]
    for _ in range(2):
        seen = await bob.call("peek_messages")
        assert [each["id"] for each in seen.data["messages"]] == [sent]
        assert seen.data["waiting"] == 1
    assert (
        await alice.call("message_status", id=sent)
    ).text == f"{sent} to bob: pending: read when it next asks"
    await bob.call("get_messages")
    assert (await alice.call("message_status", id=sent)).text == f"{sent} to bob: delivered"
    await bob.call("heartbeat")
    assert (await alice.call("message_status", id=sent)).text.startswith(f"{sent} to bob: read")


async def test_leaving_and_topics(enter: Enter) -> None:
    alice, bob = await enter("alice", tools=ALL), await enter("bob", tools=ALL)
    assert (await bob.call("subscribe", topic="a")).text == "Your topics: #a."
    assert (await bob.call("unsubscribe", topic="#a")).text == "Your topics: none."
    assert (await alice.call("get_agent", name="bob")).data["status"] == "online"
    assert "left" in (await bob.call("leave")).text
    assert (await alice.call("get_agent", name="bob")).data["status"] == "offline"
    unknown = await alice.call("get_agent", name="bbo")
    assert unknown.data["error"]["code"] == "unknown_agent"
    assert "Did you mean bob?" in unknown.text
    await bob.call("leave", forget=True)
    assert (await alice.call("get_agent", name="bob")).data["error"]["code"] == "unknown_agent"


# -- modes --------------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-3", stage="mcp")
async def test_each_mode_frames_the_message_and_bounds_its_context(enter: Enter) -> None:
    alice, bob = await enter("alice"), await enter("bob")
    for mode, rule in MODES.items():
        fits: dict[str, Any] = {"x": "y" * (rule.context_bytes_max - len('{"x":""}'))}
        sent = await alice.call("agent_send", to="bob", body="text", mode=mode, context=fits)
        assert sent.data["status"] == "received"
        got = await bob.call("get_messages")
        assert got.data["messages"][0]["mode"] == mode
        assert got.data["messages"][0]["context"] == fits
        assert f" mode={mode}>\n({rule.framing})\ntext\n<peer-context>" in got.text
        over = await alice.call("agent_send", to="bob", body="text", mode=mode, context={"xx": fits["x"]})
        assert over.data["error"]["code"] == "body_too_large"
        assert mode in over.text
        assert str(rule.context_bytes_max) in over.text


# -- hostile peers ------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-2", stage="mcp")
async def test_nothing_a_peer_says_can_leave_its_frame_or_hide(enter: Enter) -> None:
    alice, mallory = await enter("alice", tools=ALL), await enter("mallory", client=FORGED[:60], tools=ALL)
    assert (await mallory.call("announce", name=FORGED[:40])).failed
    await mallory.call("announce", capabilities=[FORGED[:120]], metadata={FORGED: FORGED})
    sent = await mallory.call("agent_send", to="alice", body=FORGED, context={FORGED: FORGED}, re=FORGED[:64])
    assert sent.data["status"] == "received"
    await mallory.call("agent_send", to="alice", body={FORGED: [FORGED]})
    for tool, arguments in (
        ("list_peers", {}),
        ("get_agent", {"name": "mallory"}),
        ("peek_messages", {}),
        ("get_messages", {}),
        ("read_history", {}),
        ("search_messages", {"query": "operator"}),
    ):
        result = await alice.call(tool, **arguments)
        check_harmless(result)
        lines = result.text.splitlines()
        opened = sum(line.startswith("<peer-message ") for line in lines)
        closed = sum(re.search(r"</\w{4}>$", line) is not None for line in lines)
        assert opened == closed == len(result.data.get("messages", []))
    told = await alice.call("list_peers")
    assert len(told.text.splitlines()) == 2, "a capability cannot begin a line of its own"
