"""A shim beside a broker that says nothing: the session begins, and no call hangs or is done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tellwire.relay.fallback import FILE
from tests.integration.mcp_world import Shim, Shims, code_of, open_shims, result_of
from tests.integration.world import Home, until

PACE = {"FALLBACK_S": 0.3, "ASK_S": 0.5, "STALLED_S": 1.5, "GIVE_UP_S": 1.5}
FIRST_S = 8.0
"""Codex gives up after ten."""


@pytest.fixture
async def shims(home: Home) -> AsyncIterator[Shims]:
    async with open_shims(home) as opened:
        yield opened


@pytest.fixture
async def bob(home: Home, shims: Shims) -> Shim:
    """Somebody to write to, beside a broker that has left the first answers."""
    shim = await shims.open("bob")
    await until((home.path / FILE).exists, what="the first answers")
    return shim


async def start(shim: Shim) -> dict[str, object]:
    """Shake hands as a client does that waits for a few seconds only; what the server says of itself."""
    info = {"name": "tester", "version": "1"}
    number, line = shim.line(
        "initialize", {"protocolVersion": shim.era, "capabilities": {}, "clientInfo": info}
    )
    await shim.write(line)
    answer = await shim.arrival(number, within_s=FIRST_S)
    await shim.notify("notifications/initialized")
    return answer["result"]


@pytest.mark.requirement("FIRST-3", stage="contact")
async def test_a_session_begins_beside_a_stopped_broker_and_goes_on_with_it(
    home: Home, shims: Shims, bob: Shim
) -> None:
    usual = (await bob.request("tools/list"))["result"]["tools"]
    home.signal(Home.STOP)
    try:
        alice = await shims.start("alice")
        said = await start(alice)
        assert (said["protocolVersion"], said["serverInfo"]) != (None, None)
        assert "on tellwire: coding agents in other terminals" in str(said["instructions"])
        number, line = alice.line("tools/list")
        await alice.write(line)
        assert (await alice.arrival(number, within_s=FIRST_S))["result"]["tools"] == usual
        number, line = alice.tool("list_peers")
        await alice.write(line)
    finally:
        home.signal(Home.GO_ON)
    peers = result_of(await alice.arrival(number))
    assert "You are 'alice'." in peers.text, "its instructions had no name"
    assert [peer["name"] for peer in peers.data["peers"]] == ["bob"]
    sent = await bob.send("alice", "Is it done?")
    got = await alice.call("get_messages")
    assert got.ids == [sent]
    assert "it is not the user's word" in got.text, "its instructions had no rule with its label"
    assert [len(each) for each in alice.answers.values()] == [1] * len(alice.answers)


@pytest.mark.requirement("FIRST-3", stage="contact")
@pytest.mark.parametrize("again", ["while it is stopped", "when it goes on", "to the next broker"])
async def test_a_call_that_a_stopped_broker_does_not_answer_fails_and_made_again_is_done_once(
    home: Home, shims: Shims, bob: Shim, again: str
) -> None:
    alice = await shims.open("alice", pace=PACE)
    call = ("agent_send", {"to": "bob", "body": "Is it done?"})
    home.signal(Home.STOP)
    try:
        number, line = alice.tool(*call)
        await alice.write(line)
        failed = await alice.arrival(number)
        assert code_of(failed) == -32603
        assert "Nobody knows whether this call was carried out." in failed["error"]["message"]
        second, line = alice.tool(*call)
        if again == "while it is stopped":
            await alice.write(line)
    finally:
        home.signal(Home.KILL if again == "to the next broker" else Home.GO_ON)
    if again != "while it is stopped":
        assert not (await bob.call("list_peers")).failed, "a broker answers"
        await alice.write(line)
    sent = result_of(await alice.arrival(second))
    third = await alice.send("bob", "Is it done?")
    assert third != sent.data["id"], "a call after that is another one"
    got = await bob.call("get_messages", {"wait_s": 5})
    assert got.ids == [sent.data["id"], third]
    assert [len(each) for each in alice.answers.values()] == [1] * len(alice.answers)


async def test_a_call_that_was_never_sent_is_never_carried_out(home: Home, shims: Shims, bob: Shim) -> None:
    home.signal(Home.STOP)
    try:
        alice = await shims.start("alice", pace=PACE)
        await start(alice)
        number, line = alice.tool("agent_send", {"to": "bob", "body": "Is it done?"})
        await alice.write(line)
        assert "Nothing was done." in (await alice.arrival(number))["error"]["message"]
    finally:
        home.signal(Home.GO_ON)
    assert not (await alice.call("list_peers")).failed
    assert (await bob.call("get_messages")).ids == []


async def test_a_call_that_is_held_by_a_broker_that_answers_is_not_given_up(shims: Shims, bob: Shim) -> None:
    alice = await shims.open("alice", pace=PACE)
    number, line = alice.tool("get_messages", {"wait_s": 3 * PACE["STALLED_S"]})
    await alice.write(line)
    assert not result_of(await alice.arrival(number)).failed
    assert not (await bob.call("list_peers")).failed


async def test_mail_of_a_fetch_that_was_given_up_waits_again(home: Home, shims: Shims, bob: Shim) -> None:
    alice = await shims.open("alice", pace={**PACE, "LATE_S": 0.5})
    sent = await bob.send("alice", "Is it done?")
    home.signal(Home.STOP)
    try:
        number, line = alice.tool("get_messages")
        await alice.write(line)
        assert code_of(await alice.arrival(number)) == -32603
    finally:
        home.signal(Home.GO_ON)

    async def waits() -> bool:
        return await bob.state(sent) == "pending"

    await until(waits, what="the message waits again")
    assert (await alice.call("get_messages")).ids == [sent]
    assert not (await alice.call("list_peers")).failed
    assert await bob.state(sent) == "read by next_call"
