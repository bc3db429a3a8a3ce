"""The dialect `f2`: an agent registry's ten tools and records, walked through between real sessions."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tellwire.core.mail.framing import MODES
from tests.integration.world import Home, until
from tests.surfaces.mcp_client import FORGED, Enter, Result, Session, broker_home, check_harmless, sessions

AGENT_KEYS = {
    "agent_id",
    "name",
    "type",
    "capabilities",
    "status",
    "connected_at",
    "last_heartbeat",
    "metadata",
}
MESSAGE_KEYS = {"message_id", "from_agent", "to_agent", "mode", "content", "timestamp", "status"}
OURS = {"from_name", "re", "asks", "repeat"}
"""What our record may have besides."""
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def place() -> Iterator[Home]:
    """A home with a broker of its own."""
    with broker_home() as home:
        home.up()
        yield home


@pytest.fixture
async def enter(place: Home) -> AsyncIterator[Enter]:
    """Start sessions of this dialect."""
    async with sessions(place, "f2") as start:
        yield start


async def register(enter: Enter, name: str, kind: str = "codex", *words: str) -> tuple[Session, str]:
    """A new session that registers; and its agent_id."""
    session = await enter()
    told = await call(session, "register_agent", name=name, type=kind, capabilities=list(words))
    assert told.data["name"] == name
    return session, told.data["agent_id"]


async def call(session: Session, tool: str, /, **arguments: Any) -> Result:
    """Call a tool; in this dialect the text is always the same JSON."""
    result = await session.call(tool, **arguments)
    if not result.failed:
        assert json.loads(result.text) == result.data
    return result


async def fetch(session: Session, count: int = 1) -> list[dict[str, Any]]:
    """So many messages, no more."""
    got = (await call(session, "get_messages", wait_s=10)).data["messages"]
    assert len(got) == count
    return got


# -- agents -------------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-1", stage="mcp")
async def test_registering_and_finding_each_other(enter: Enter) -> None:
    main = await enter()
    told = await call(main, "register_agent", name="main", type="claude-code", capabilities=["bash", "mcp"])
    assert told.data["type"] == "claude-code"
    assert told.data["capabilities"] == ["bash", "mcp"]
    assert told.data["status"] == "online"
    assert ISO.fullmatch(told.data["connected_at"])
    helper, helper_id = await register(enter, "helper", "opencode", "gpu_inference")
    (record,) = (await call(main, "list_agents")).data["agents"]
    assert record.keys() >= AGENT_KEYS
    assert record["agent_id"] == helper_id
    assert (record["name"], record["type"], record["status"]) == ("helper", "opencode", "online")
    assert ISO.fullmatch(record["connected_at"])
    assert ISO.fullmatch(record["last_heartbeat"])
    assert isinstance(record["metadata"]["cwd"], str)
    by_id = (await call(main, "get_agent_info", agent_id=helper_id)).data
    by_name = (await call(main, "get_agent_info", agent_id="helper")).data
    assert by_id == by_name
    assert by_id["capabilities"] == ["gpu_inference"]
    able = await call(main, "query_capabilities", capability="gpu_inference")
    assert [each["agent_id"] for each in able.data["agents"]] == [helper_id]
    assert (await call(main, "query_capabilities", capability="none")).data["agents"] == []
    assert (await call(helper, "heartbeat")).data["status"] == "ok"
    unknown = await call(main, "get_agent_info", agent_id="helpr")
    assert unknown.data["error"]["code"] == "unknown_agent"
    assert "helper" in unknown.text


@pytest.mark.requirement("F2-1", stage="mcp")
async def test_a_second_session_of_the_same_name_gets_a_suffix_and_is_told(enter: Enter) -> None:
    _, first = await register(enter, "main")
    second = await enter()
    told = await call(second, "register_agent", name="main", type="codex", capabilities=[])
    assert told.data["name"] == "main-2"
    assert told.data["agent_id"] != first
    assert "'main' is in use" in told.data["note"]
    assert "note" not in (await call(second, "heartbeat")).data


async def test_looking_around_before_registering_changes_nothing_about_it(enter: Enter) -> None:
    _, first = await register(enter, "main", "codex")
    second = await enter()
    assert [each["agent_id"] for each in (await call(second, "list_agents")).data["agents"]] == [first]
    told = await call(second, "register_agent", name="main", type="codex", capabilities=["x"])
    assert (told.data.get("name"), told.data.get("type")) == ("main-2", "codex"), told.text
    assert "in use" in told.data["note"]


async def test_registering_again_changes_name_and_capabilities(enter: Enter) -> None:
    main, main_id = await register(enter, "main", "codex", "a")
    again = await call(main, "register_agent", name="main", type="codex", capabilities=["b"])
    assert (again.data["agent_id"], again.data["capabilities"]) == (main_id, ["b"])
    renamed = await call(main, "register_agent", name="other", type="codex", capabilities=["b"])
    assert (renamed.data["agent_id"], renamed.data["name"]) == (main_id, "other")
    refused = await call(main, "register_agent", name="no name", type="codex", capabilities=[])
    assert refused.data["error"]["code"] == "name_invalid"
    assert (await call(main, "get_agent_info", agent_id="other")).data["agent_id"] == main_id
    await call(main, "unregister_agent")
    new = await call(main, "register_agent", name="third", type="codex", capabilities=[])
    assert new.data["name"] == "third"


@pytest.mark.requirement("F2-1", stage="mcp")
async def test_mail_for_one_that_unregistered_waits_until_it_registers_again(enter: Enter) -> None:
    main, _ = await register(enter, "main")
    helper, helper_id = await register(enter, "helper", "opencode")
    assert (await call(helper, "unregister_agent")).data["status"] == "unregistered"
    assert (await call(main, "list_agents")).data["agents"] == []
    assert (await call(main, "get_agent_info", agent_id="helper")).data["status"] == "offline"
    sent = await call(main, "send_message", agent_id=helper_id, message="later", mode="agree")
    assert (sent.data["status"], sent.data["delivery"]) == ("pending", "queued")
    stranger = await enter()
    told = await call(stranger, "register_agent", name="helper", type="opencode", capabilities=[])
    assert told.data["name"] == "helper-2", "whoever asks for the name does not get its mail"
    back = await call(helper, "register_agent", name="helper", type="opencode", capabilities=[])
    assert back.data["agent_id"] == helper_id
    (message,) = await fetch(helper)
    assert message["message_id"] == sent.data["message_id"]


# -- messages -----------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-1", "F2-3", stage="mcp")
async def test_a_message_has_the_registrys_shape(enter: Enter) -> None:
    main, main_id = await register(enter, "main", "claude-code")
    helper, helper_id = await register(enter, "helper")
    context = {"file": "auth.py", "lines": [1, 2]}
    for to in (helper_id, "helper"):
        sent = await call(
            main, "send_message", agent_id=to, message="Review it", mode="challenge", context=context
        )
        assert sent.data["to_agent"] == helper_id
        assert sent.data["status"] == "pending"
        assert sent.data["delivery"] == "received"
        assert (await call(helper, "heartbeat")).data["waiting"] == 1
        (message,) = await fetch(helper)
        assert MESSAGE_KEYS <= message.keys() <= MESSAGE_KEYS | OURS
        assert message["message_id"] == sent.data["message_id"]
        assert message["from_agent"] == main_id
        assert message["to_agent"] == helper_id
        assert message["mode"] == "challenge"
        assert message["content"].items() >= {
            ("type", "request"),
            ("payload", "Review it"),
        }
        assert message["content"]["context"] == context
        assert ISO.fullmatch(message["timestamp"])
        assert message["status"] == "delivered"
    plain = await call(main, "send_message", agent_id=helper_id, message="so", type="notification")
    assert plain.data["delivery"] == "received"
    (message,) = await fetch(helper)
    assert message["mode"] is None
    assert message["content"] == {"type": "notification", "payload": "so", "context": None}


@pytest.mark.requirement("F2-3", stage="mcp")
async def test_each_mode_frames_the_message_here_too(enter: Enter) -> None:
    main, _ = await register(enter, "main")
    helper, _ = await register(enter, "helper")
    for mode, rule in MODES.items():
        await call(main, "send_message", agent_id="helper", message="text", mode=mode)
        assert rule.framing in (await call(helper, "get_messages")).text
        over = {"x": "y" * rule.context_bytes_max}
        refused = await call(main, "send_message", agent_id="helper", message="x", mode=mode, context=over)
        assert refused.data["error"]["code"] == "body_too_large"
        assert mode in refused.text


async def test_what_cannot_be_sent_is_told_with_what_to_do(enter: Enter) -> None:
    main, main_id = await register(enter, "main")
    await register(enter, "helper")
    denied = await call(main, "send_message", agent_id="helpr", message="x", mode="agree")
    assert (denied.failed, denied.data["status"]) == (True, "denied")
    assert "helper" in denied.data["note"]
    for oneself in (main_id, "main"):
        refused = await call(main, "send_message", agent_id=oneself, message="x", mode="agree")
        assert (refused.failed, refused.data["status"]) == (True, "refused")
    wrong = await call(main, "send_message", agent_id="helper", message="x", mode="fight")
    assert wrong.data["error"]["code"] == "bad_request"
    assert all(mode in wrong.text for mode in MODES)


@pytest.mark.requirement("F2-1", stage="mcp")
async def test_topics_and_broadcasts(enter: Enter) -> None:
    main, main_id = await register(enter, "main")
    helper, _ = await register(enter, "helper")
    other, _ = await register(enter, "other")
    assert (await call(helper, "subscribe", topic="build")).data["topics"] == ["#build"]
    everybody = await call(main, "broadcast", message="Found a bug", mode="collaborate")
    assert everybody.data["to_agent"] == "broadcast"
    assert sorted(everybody.data["reached"]) == ["helper", "other"]
    topic = await call(main, "send_message", agent_id="#build", message="green")
    assert topic.data["reached"] == ["helper"]
    first, second = await fetch(helper, 2)
    assert (first["to_agent"], second["to_agent"]) == ("broadcast", "#build")
    assert {first["from_agent"], second["from_agent"]} == {main_id}
    assert [each["to_agent"] for each in await fetch(other)] == ["broadcast"]
    assert (await call(main, "get_messages")).data["messages"] == []


async def test_a_message_that_is_too_large_for_one_result_can_be_read(enter: Enter) -> None:
    main, _ = await register(enter, "main")
    helper, _ = await register(enter, "helper")
    body = "".join(f"{number:05d} " for number in range(10_000))
    await call(main, "send_message", agent_id="helper", message=body)
    await call(main, "send_message", agent_id="helper", message="behind it")
    announced = await call(helper, "get_messages")
    (large,) = announced.data["large"]
    assert f'get_messages(id="{large["message_id"]}", offset=0)' in announced.data["next"]
    pages, offset = "", 0
    while True:
        page = await call(helper, "get_messages", id=large["message_id"], offset=offset)
        pages += page.data["part"].split(">\n", 1)[1].rpartition("\n</peer-message>")[0]
        offset = page.data.get("next_offset", 0)
        if not offset:
            break
    assert pages == body
    (message,) = await fetch(helper)
    assert message["content"]["payload"] == "behind it"


async def test_the_sender_keeps_its_id_when_it_changes_its_name(enter: Enter) -> None:
    main, main_id = await register(enter, "main")
    helper, _ = await register(enter, "helper")
    await call(main, "send_message", agent_id="helper", message="x")
    await call(main, "register_agent", name="other", type="codex", capabilities=[])
    (message,) = await fetch(helper)
    assert message["from_agent"] == main_id
    sent = await call(helper, "send_message", agent_id=message["from_agent"], message="y")
    assert sent.data["delivery"] == "received"


# -- the three use cases ------------------------------------------------------------------------------


@pytest.mark.requirement("F2-1", stage="mcp")
async def test_review_debugging_and_delegation_between_three_clients(enter: Enter) -> None:
    claude, claude_id = await register(enter, "claude-main", "claude-code", "file_read", "bash")
    codex, codex_id = await register(enter, "codex-main", "codex", "bash")
    opencode, opencode_id = await register(enter, "opencode-main", "opencode", "gpu_inference")

    asked = await call(claude, "send_message", agent_id=codex_id, message="Review auth", mode="challenge")
    (request,) = await fetch(codex)
    assert (request["from_agent"], request["mode"]) == (claude_id, "challenge")
    await call(
        codex,
        "send_message",
        agent_id=request["from_agent"],
        message="Tokens never expire",
        re=request["message_id"],
    )
    (response,) = await fetch(claude)
    assert response["content"]["type"] == "response"
    assert response["re"] == asked.data["message_id"]

    await call(claude, "broadcast", message="A bug in module X: context?", mode="collaborate")
    for helper, words in ((opencode, "It is line 45"), (codex, "I can run the tests")):
        (call_for_help,) = await fetch(helper)
        assert call_for_help["to_agent"] == "broadcast"
        await call(helper, "send_message", agent_id=claude_id, message=words, re=call_for_help["message_id"])
    answers = await fetch(claude, 2)
    assert [each["from_agent"] for each in answers] == [opencode_id, codex_id]

    (able,) = (await call(claude, "query_capabilities", capability="gpu_inference")).data["agents"]
    assert able["name"] == "opencode-main"
    await call(claude, "send_message", agent_id=able["agent_id"], message="Run it", mode="deduce")
    (task,) = await fetch(opencode)
    assert task["content"]["payload"] == "Run it"

    await codex.close()

    async def has_gone() -> bool:
        listed = (await call(claude, "list_agents")).data["agents"]
        return [each["agent_id"] for each in listed] == [opencode_id]

    await until(has_gone)


# -- hostile peers ------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-2", stage="mcp")
async def test_nothing_a_peer_says_can_forge_or_hide(enter: Enter) -> None:
    main, _ = await register(enter, "main")
    mallory, mallory_id = await register(enter, "mallory", FORGED[:100], FORGED[:120])
    bad_name = await call(mallory, "register_agent", name=FORGED[:30], type="x", capabilities=[])
    assert bad_name.data["error"]["code"] == "name_invalid"
    await call(
        mallory,
        "send_message",
        agent_id="main",
        message=FORGED,
        context={FORGED: [FORGED]},
        re=FORGED[:64],
        mode="collaborate",
    )
    for tool, arguments in (
        ("list_agents", {}),
        ("get_agent_info", {"agent_id": mallory_id}),
        ("get_messages", {}),
    ):
        result = await call(main, tool, **arguments)
        check_harmless(result)
        assert "\n" not in result.text, "what tellwire and a peer say is one JSON object, on one line"
    assert "permission" in result.data["about"]
