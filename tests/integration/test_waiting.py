"""Mail for the absent, times to live, and what outlives a restart of the broker."""

import asyncio
import sqlite3

import pytest

import tellwire
from tellwire.protocol.ids import parse_message_id
from tests.integration.program import StartProgram
from tests.integration.world import Home, Join, take, until


async def is_status(agent: tellwire.Agent, message: str, wanted: dict[str, str]) -> bool:
    """Whether a message has got so far."""
    return await agent.status(message) == wanted


@pytest.mark.requirement("F2-5", "REC-1", "AUD-6")
async def test_an_expired_message_is_told_to_its_sender_once_and_never_delivered(
    quick: Home, join: Join
) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=quick.path):
        pass
    receipt = await alice.send("bob", "only now", ttl_s=0.3)
    kept = await alice.send("bob", "any time")
    (told,) = await alice.messages(wait_s=5)
    assert (told.sender, told.kind, told.re) == ("tellwire", "notification", receipt.id)
    assert receipt.id in told.body
    assert "bob" in told.body
    await alice.confirm([told])
    assert await alice.status(receipt.id) == {"bob": "expired"}
    assert await alice.status(kept.id) == {"bob": "pending"}
    bob = await join("bob")
    assert [message.body for message in await bob.messages(wait_s=5)] == ["any time"]
    assert await alice.messages(wait_s=0.3) == []


@pytest.mark.requirement("F2-5")
async def test_the_time_to_live_stands_still_while_a_client_holds_the_message(
    quick: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    receipt = await alice.send("bob", "in good hands", ttl_s=0.2)
    assert await alice.messages(wait_s=1.0) == []
    assert await alice.status(receipt.id) == {"bob": "delivered"}
    assert [message.body for message in await bob.messages()] == ["in good hands"]


@pytest.mark.requirement("F2-5", "NET-3", "NET-6")
async def test_mail_for_an_absent_agent_waits_through_a_restart_and_comes_in_order(
    home: Home, join: Join
) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        pass
    for number in range(50):
        assert (await alice.send("bob", number)).status == "queued"
        if number == 25:
            home.signal(home.KILL)
    bob = await join("bob")
    got = await take(bob, 50)
    assert [message.body for message in got] == list(range(50))
    assert not any(message.repeat for message in got)


@pytest.mark.requirement("F2-6", "F2-2", "NET-9")
async def test_a_restart_keeps_subscriptions_groups_capabilities_and_metadata(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect(
        "absent", home=home.path, capabilities=["sleep"], metadata={"model": "m"}
    ) as gone:
        await gone.subscribe("#build")
    bob = await join("bob", capabilities=["parse"], metadata={"cwd": "here"})
    await bob.subscribe("#build")
    await bob.update(capabilities=["parse", "lint"], metadata={"cwd": "there"})
    before = {peer.name: peer for peer in await alice.peers(all=True)}
    home.signal(home.KILL)
    await alice.peers()
    await until(lambda: is_back(alice, "bob"))
    after = {peer.name: peer for peer in await alice.peers(all=True)}
    for name in ("absent", "bob"):
        assert after[name].id == before[name].id
        assert after[name].group == before[name].group != ""
        assert (after[name].capabilities, after[name].metadata) == (
            before[name].capabilities,
            before[name].metadata,
        )
    assert after["bob"].capabilities == ["parse", "lint"]
    reached = {each.name: each.status for each in (await alice.send("#build", "green")).recipients}
    assert reached == {"bob": "received", "absent": "queued"}
    assert [message.body for message in await bob.messages(wait_s=5)] == ["green"]
    later = await join("absent")
    assert [message.body for message in await later.messages(wait_s=5)] == ["green"]


async def is_back(agent: tellwire.Agent, name: str) -> bool:
    """Whether `name` is online."""
    return (await agent.peer(name)).status == "online"


@pytest.mark.requirement("AUD-6", "NET-9")
async def test_what_an_application_sees_is_already_on_disk(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")

    def stored(message: tellwire.Message) -> str:
        with sqlite3.connect(f"file:{home.settings.database}?mode=ro", uri=True) as database:
            query = "select body from messages where seq = ?"
            row = database.execute(query, (parse_message_id(message.id),)).fetchone()
        database.close()
        return row[0] if row else "nothing"

    for number in range(20):
        sending = asyncio.ensure_future(alice.send("bob", f"text {number}"))
        (message,) = await bob.messages(wait_s=5)
        assert stored(message) == message.body
        await sending
        await bob.confirm([message])


@pytest.mark.requirement("NET-9", "REC-2")
async def test_a_claimed_message_is_not_shown_again_to_the_same_session_after_a_kill(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    receipt = await alice.send("bob", "once")
    (message,) = await bob.messages(wait_s=5)
    home.signal(home.KILL)
    assert await bob.messages(wait_s=1.0) == []
    assert await alice.status(receipt.id) == {"bob": "delivered"}
    assert await bob.confirm([message]) == 1
    assert await alice.status(receipt.id) == {"bob": "read"}
    home.signal(home.KILL)
    assert await bob.messages(wait_s=0.5) == []


@pytest.mark.requirement("NET-9")
async def test_a_name_belongs_to_its_live_session_also_while_the_broker_restarts(
    home: Home, join: Join, program: StartProgram
) -> None:
    slow, bob = await program("alice"), await join("bob")
    slow.freeze()
    home.signal(home.KILL)
    rival = await join("alice")
    assert (rival.name, "alice" in rival.note) == ("alice-2", True)
    slow.thaw()
    assert (await slow.call("send", "bob", "still me"))["status"] in ("received", "queued")
    assert (await slow.call("describe"))["name"] == "alice"
    assert [message.sender for message in await bob.messages(wait_s=5)] == ["alice"]
