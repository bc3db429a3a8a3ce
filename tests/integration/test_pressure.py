"""Many connections, clients that do not read, clients that ask too much: bounded memory, others unharmed."""

import asyncio
import json

import pytest

import tellwire
from tests.integration.world import (
    WITHIN_S,
    Deaf,
    Home,
    Join,
    OpenRaw,
    open_files,
    rss_bytes,
    take,
    until,
)

MIB = 1 << 20


async def talk(alice: tellwire.Agent, bob: tellwire.Agent, body: str) -> None:
    """One message there, read, and its receipt."""
    receipt = await alice.send("bob", body)
    (message,) = await bob.messages(wait_s=10)
    await bob.confirm([message])
    assert (message.body, await alice.status(receipt.id)) == (body, {"bob": "read"})


@pytest.mark.requirement("SEC-3")
async def test_ten_thousand_connections_opened_and_dropped_leave_nothing_behind(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    path = str(home.settings.socket)

    async def open_and_drop(number: int) -> None:
        _, writer = await asyncio.open_unix_connection(path)
        if number % 2:
            writer.write(
                b'{"tellwire":1}\n{"n":1,"do":{"op":"register_agent","name":"gone","session":"s"}}\n'
            )
        writer.transport.abort()

    for _ in range(3):  # what is allocated once is not a leak
        await asyncio.gather(*(open_and_drop(number) for number in range(100)))
    await until(lambda: home.status()["connections"] == 3)
    files, memory = len(open_files(home.pid)), rss_bytes(home.pid)
    for batch in range(50):
        await asyncio.gather(*(open_and_drop(number) for number in range(200)))
        if batch % 10 == 0:
            await talk(alice, bob, f"in the middle of it: {batch}")
    await until(lambda: len(open_files(home.pid)) <= files)
    assert rss_bytes(home.pid) < memory + 8 * MIB
    await talk(alice, bob, "after it")


@pytest.mark.requirement("SEC-3")
async def test_a_client_that_never_reads_costs_bounded_memory_and_harms_nobody(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    with Deaf(home) as stone:
        stone.write(b'{"tellwire":1}\n{"n":1,"do":{"op":"register_agent","name":"stone","session":"s"}}\n')
        await until(lambda: is_known(alice, "stone"))
        memory = rss_bytes(home.pid)
        for start in range(0, 10_000, 100):
            sends = (alice.send("stone", {"number": start + n, "text": "x" * 4_096}) for n in range(100))
            assert {receipt.status for receipt in await asyncio.gather(*sends)} == {"received"}
        with pytest.raises(tellwire.TellwireError) as refused:
            await alice.send("stone", "one too many")
        assert refused.value.code == "mailbox_full"
        assert "has read some of its mail" in refused.value.advice
        assert rss_bytes(home.pid) < memory + 24 * MIB, "40 MB were sent to it"
        await talk(alice, bob, "unharmed")


async def is_known(agent: tellwire.Agent, name: str) -> bool:
    """Whether an agent of that name is listed."""
    return name in {peer.name for peer in await agent.peers(all=True)}


@pytest.mark.requirement("SEC-3", "NET-4")
async def test_a_full_mailbox_among_several_recipients_is_told_and_the_others_are_reached(
    home: Home, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLWIRE_MAILBOX_MESSAGES_MAX", "2")
    alice, bob, full = await join("alice"), await join("bob"), await join("full")
    for number in range(2):
        await alice.send("full", number)
    receipt = await alice.send(["bob", "full"], "to both")
    outcomes = {each.name: each.status for each in receipt.recipients}
    assert (receipt.status, outcomes) == ("sent", {"bob": "received", "full": "denied"})
    assert [message.body for message in await bob.messages(wait_s=5)] == ["to both"]
    await full.confirm(await take(full, 2))
    assert (await alice.send("full", "there is room again")).status == "received"


@pytest.mark.requirement("SEC-3")
async def test_thousands_of_calls_without_reading_the_answers_cost_bounded_memory(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice", metadata={"text": "x" * 8_000}), await join("bob")
    memory = rss_bytes(home.pid)
    calls = b"".join(b'{"n":%d,"do":{"op":"list_agents"}}\n' % number for number in range(1, 50_000))
    with Deaf(home) as greedy:
        rest = b'{"tellwire":1}\n' + calls
        while taken := greedy.write(rest):
            rest = rest[taken:]
            await talk(alice, bob, "meanwhile")
        for number in range(20):
            await talk(alice, bob, f"after it was read no further: {number}")
        assert rest, "the broker takes more than it can answer"
        assert rss_bytes(home.pid) < memory + 16 * MIB, "400 MB of answers were asked for"


@pytest.mark.requirement("SEC-3")
async def test_answers_that_were_not_read_come_when_the_client_reads_again(home: Home, raw: OpenRaw) -> None:
    home.up()
    late = await raw("late")
    wanted = 5_000
    calls = ({"n": n, "do": {"op": "get_agent", "name": "late"}} for n in range(1_000, 1_000 + wanted))
    late.writer.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
    numbers = [(await late.frame())["n"] for _ in range(wanted)]
    assert numbers == list(range(1_000, 1_000 + wanted))


@pytest.mark.requirement("SEC-3")
async def test_a_flood_beyond_the_rate_is_refused_and_the_connection_goes_on(
    home: Home, raw: OpenRaw
) -> None:
    home.up(sends_per_s_max=100)
    await raw("target")
    flood = await raw("flood")
    sends = [{"n": n, "do": {"op": "send_message", "to": "target", "body": "x"}} for n in range(1_000, 1_500)]
    flood.writer.write(b"".join(json.dumps(send).encode() + b"\n" for send in sends))
    frames = [await flood.frame() for _ in sends]
    passed = sum("ok" in frame for frame in frames)
    assert 100 <= passed < 250
    assert {frame["error"]["code"] for frame in frames if "error" in frame} == {"rate_limited"}
    assert "ok" in await flood.call("heartbeat")


@pytest.mark.requirement("SEC-3")
async def test_status_questions_do_not_hold_up_the_others(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    ids: list[str] = []
    for start in range(0, 10_000, 100):
        sent = await asyncio.gather(*(alice.send("bob", start + number) for number in range(100)))
        ids.extend(receipt.id for receipt in sent)
        await bob.confirm(await take(bob, 100))
    async with asyncio.timeout(WITHIN_S):
        asking = asyncio.gather(*(alice.status(message) for message in ids[-1_000:]))
        await bob.peers()
        await asking
