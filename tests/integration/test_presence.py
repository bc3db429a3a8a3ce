"""Who is there: frozen, killed, silent and leaving clients, and what becomes of their mail."""

import asyncio
from typing import Any

import pytest

import tellwire
from tests.integration.program import Program, StartProgram
from tests.integration.world import Home, Join, OpenRaw, pass_time, take, until


async def is_offline(agent: tellwire.Agent, name: str, reason: str) -> bool:
    """Whether the listing says that `name` is away, and why."""
    peer = await agent.peer(name)
    return (peer.status, peer.offline_reason) == ("offline", reason)


async def fetch(program: Program, count: int) -> list[dict[str, Any]]:
    """What an agent in another process gets, until it is so much."""
    got: list[dict[str, Any]] = []

    async def enough() -> bool:
        got.extend(await program.call("messages", 0.5))
        return len(got) >= count

    await until(enough)
    return got


@pytest.mark.requirement("F2-4", "F2-5", "NET-3")
async def test_a_frozen_client_is_shown_offline_and_gets_each_message_once_when_it_goes_on(
    quick: Home, join: Join, program: StartProgram
) -> None:
    alice, worker = await join("alice"), await program("worker")
    for number in range(3):
        assert (await alice.send("worker", number)).status == "received"
    worker.freeze()
    await until(lambda: is_offline(alice, "worker", "silent"))
    for number in range(3, 8):
        assert (await alice.send("worker", number)).status == "queued"
    worker.thaw()
    got = await fetch(worker, 8)
    assert [message["body"] for message in got] == list(range(8))
    assert await worker.call("confirm", [message["id"] for message in got]) == 8
    assert await worker.call("messages", 0.5) == []
    assert (await alice.peer("worker")).status == "online"


@pytest.mark.requirement("F2-4", "REC-3")
async def test_a_frozen_client_whose_name_was_taken_over_sees_nothing_of_what_the_other_got(
    quick: Home, join: Join, program: StartProgram
) -> None:
    alice, first = await join("alice"), await program("worker")
    await alice.send("worker", "offered before")
    await until(lambda: is_delivered(alice, "worker"))
    first.freeze()
    await until(lambda: is_offline(alice, "worker", "silent"))
    second = await join("worker")
    assert second.name == "worker"
    await alice.send("worker", "after")
    got = await take(second, 2)
    assert [message.body for message in got] == ["offered before", "after"]
    await second.confirm(got)
    first.ask("messages", 60.0)
    first.thaw()
    answer = await first.answer()
    assert answer["error"] == "session_replaced"
    assert (await first.call("send", "alice", "a ghost speaks"))["error"] == "session_replaced"
    assert (await alice.peer("worker")).status == "online"


async def is_delivered(agent: tellwire.Agent, name: str) -> bool:
    """Whether all that waits for `name` has been handed to its client."""
    return (await agent.peer(name)).pending == 1


@pytest.mark.requirement("F2-8", "REC-1", "REC-2")
async def test_a_killed_client_is_noticed_and_what_it_may_have_shown_is_offered_again_as_a_repeat(
    home: Home, join: Join, program: StartProgram
) -> None:
    alice, worker = await join("alice"), await program("worker")
    shown = (await alice.send("worker", "shown")).id
    assert [message["body"] for message in await fetch(worker, 1)] == ["shown"]
    unseen = (await alice.send("worker", "unseen")).id
    assert await alice.status(unseen) == {"worker": "delivered"}
    await worker.kill()
    await until(lambda: is_offline(alice, "worker", "disconnected"))
    assert [await alice.status(shown), await alice.status(unseen)] == [{"worker": "pending"}] * 2
    again = await join("worker")
    assert again.name == "worker"
    got = await take(again, 2)
    # It was granted both, and nobody can ask it which it showed.
    assert [(message.body, message.repeat) for message in got] == [("shown", True), ("unseen", True)]
    await again.confirm(got)
    assert await alice.status(shown) == {"worker": "read"}


@pytest.mark.requirement("REC-1", "REC-2")
async def test_a_client_that_takes_its_leave_says_what_it_has_shown(
    home: Home, join: Join, program: StartProgram
) -> None:
    alice, worker = await join("alice"), await program("worker")
    shown = (await alice.send("worker", "shown")).id
    assert [message["body"] for message in await fetch(worker, 1)] == ["shown"]
    unseen = (await alice.send("worker", "unseen")).id
    assert await alice.status(unseen) == {"worker": "delivered"}
    await worker.call("leave")
    await until(lambda: is_offline(alice, "worker", "left"))
    again = await join("worker")
    got = await take(again, 1)
    assert [(message.body, message.repeat) for message in got] == [("unseen", False)]
    assert await alice.status(shown) == {"worker": "read"}


@pytest.mark.requirement("F2-4")
async def test_silence_makes_offline_and_any_sign_of_life_makes_online_again(
    quick: Home, join: Join, raw: OpenRaw
) -> None:
    alice = await join("alice")
    quiet = await raw("quiet")
    for sign in ("heartbeat", "list_agents"):
        await until(lambda: is_offline(alice, "quiet", "silent"))
        assert "quiet" not in [peer.name for peer in await alice.peers()]
        await quiet.call(sign)
        await until(lambda: is_online(alice, "quiet"))
    peer = await alice.peer("alice")
    assert peer.last_heartbeat >= peer.connected_at > 0


async def is_online(agent: tellwire.Agent, name: str) -> bool:
    """Whether the listing says that `name` is there."""
    return (await agent.peer(name)).status == "online"


@pytest.mark.requirement("F2-4")
async def test_an_idle_client_shows_by_itself_that_it_lives(quick: Home, join: Join) -> None:
    alice, _idle = await join("alice"), await join("idle")
    loop = asyncio.get_running_loop()
    end = loop.time() + 2.5  # two and a half times as long as a silence may last

    async def looked() -> bool:
        assert await is_online(alice, "idle")
        return loop.time() > end

    await until(looked)


@pytest.mark.requirement("F2-8")
async def test_leaving_is_shown_with_its_reason_and_the_mailbox_stays(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        assert await is_online(alice, "bob")
    assert await is_offline(alice, "bob", "left")
    receipt = await alice.send("bob", "for later")
    assert (receipt.status, await alice.status(receipt.id)) == ("queued", {"bob": "pending"})
    bob = await join("bob")
    assert [message.body for message in await bob.messages(wait_s=5)] == ["for later"]


@pytest.mark.requirement("NET-7", "F2-8")
async def test_coming_and_going_wakes_nobody(
    home: Home, join: Join, raw: OpenRaw, program: StartProgram
) -> None:
    home.up()
    watcher = await raw("watcher")
    for _ in range(3):
        async with tellwire.connect("visitor", home=home.path) as visitor:
            await visitor.update(capabilities=["visiting"])
    killed = await program("killed")
    await killed.kill()
    alice = await join("alice")
    await until(lambda: is_offline(alice, "killed", "disconnected"))
    await alice.send("watcher", "the first thing it hears")
    frame = await watcher.frame()
    assert [message["body"] for message in frame["offer"]["messages"]] == ["the first thing it hears"]


@pytest.mark.requirement("F2-5", "F2-4")
async def test_a_suspended_broker_expires_nothing_and_marks_nobody_offline(
    home: Home, join: Join, program: StartProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HEARTBEAT_S": "0.5", "OFFLINE_AFTER_S": "2", "BEAT_S": "0.05"}.items():
        monkeypatch.setenv(f"TELLWIRE_{name}", value)
    async with tellwire.connect("absent", home=home.path):
        pass
    alice, _bob = await join("alice"), await program("bob")
    receipt = await alice.send("absent", "keep it", ttl_s=4)
    home.signal(home.STOP)
    await pass_time(6.0)
    home.signal(home.GO_ON)
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.5

    async def looked() -> bool:
        assert [peer.name for peer in await alice.peers()] == ["bob"]
        assert await alice.status(receipt.id) == {"absent": "pending"}
        return loop.time() > end

    await until(looked)
    absent = await join("absent")
    assert [message.body for message in await absent.messages(wait_s=5)] == ["keep it"]
