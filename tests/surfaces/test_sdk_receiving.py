"""The SDK: taking messages, each once, and what remains when something goes wrong in between."""

import asyncio
from contextlib import suppress

import pytest

import tellwire
from tests.integration.world import WITHIN_S, Home, Join, take, until


async def collect(agent: tellwire.Agent, count: int) -> list[tellwire.Message]:
    """Take and confirm until so many have come."""
    got: list[tellwire.Message] = []
    while len(got) < count:
        part = await agent.messages(wait_s=5)
        assert part, f"only {len(got)} of {count} came"
        got += part
        await agent.confirm(part)
    return got


@pytest.mark.requirement("REC-3", "NET-8")
async def test_messages_returns_each_message_once_and_nothing_when_nothing_waits(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    assert await bob.messages() == []
    assert await bob.messages(wait_s=0.1) == []
    await alice.send("bob", 1)
    assert [message.body for message in await bob.messages(wait_s=5)] == [1]
    assert await bob.messages(wait_s=0.2) == []
    await alice.send("bob", 2)
    assert [message.body for message in await bob.messages(wait_s=5)] == [2]


@pytest.mark.requirement("NET-8")
async def test_a_waiting_call_returns_as_soon_as_something_comes(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    waiting = asyncio.ensure_future(bob.messages(wait_s=60))
    await alice.send("bob", "wake up")
    async with asyncio.timeout(5):
        assert [message.body for message in await waiting] == ["wake up"]


@pytest.mark.requirement("REC-5")
async def test_peek_does_not_consume(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    sent = [await alice.send("bob", number) for number in range(3)]
    for _ in range(2):
        assert [message.body for message in await bob.peek()] == [0, 1, 2]
    assert [message.body for message in await bob.peek(limit=2)] == [0, 1]
    assert await alice.status(sent[0].id) == {"bob": "delivered"}
    got = await take(bob, 3)
    assert [message.body for message in got] == [0, 1, 2]
    assert [message.body for message in await bob.peek()] == [0, 1, 2]
    await bob.confirm(got[:2])
    assert [message.body for message in await bob.peek()] == [2]


@pytest.mark.requirement("REC-4", "NET-8")
async def test_many_waiting_messages_come_together_within_the_window_and_the_rest_is_announced(
    home: Home, join: Join
) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        pass
    await asyncio.gather(*(alice.send("bob", number) for number in range(300)))
    bob = await join("bob")
    first = await bob.messages(wait_s=5)
    assert [message.body for message in first] == list(range(128))
    assert bob.waiting == 300 - 128
    assert await bob.messages(wait_s=0.2) == [], "a client that confirms nothing gets no more than its window"
    await bob.confirm(first)
    rest = await collect(bob, 172)
    assert [message.body for message in rest] == list(range(128, 300))
    assert bob.waiting == 0


async def test_who_asks_again_and_again_without_waiting_gets_its_mail(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    sending = asyncio.create_task(alice.send("bob", "hello"))
    got: list[tellwire.Message] = []
    end = asyncio.get_running_loop().time() + 10.0
    while not got and asyncio.get_running_loop().time() < end:
        got = await bob.messages()
    assert [message.body for message in got] == ["hello"]
    assert (await sending).status == "received"


@pytest.mark.requirement("REC-4", "SEC-3")
async def test_large_messages_come_within_the_window_of_bytes(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    for number in range(20):
        await alice.send("bob", f"{number:02}" + "x" * 60_000)
    first = await take(bob, 8)
    assert len(first) == 512 * 1024 // 60_000
    await until(lambda: bob.waiting == 20 - len(first))
    await bob.confirm(first)
    rest = await collect(bob, 20 - len(first))
    assert [message.body[:2] for message in first + rest] == [f"{number:02}" for number in range(20)]


@pytest.mark.requirement("REC-3", "NET-6")
async def test_two_calls_that_take_at_once_never_double_lose_or_reorder(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    seen: list[list[int]] = [[], []]

    async def take(mine: list[int]) -> None:
        while sum(map(len, seen)) < 500:
            part = await bob.messages(wait_s=0.2, limit=7)
            mine += [message.body for message in part]
            await bob.confirm(part)

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        for mine in seen:
            tasks.create_task(take(mine))
        for start in range(0, 500, 50):
            await asyncio.gather(*(alice.send("bob", start + number) for number in range(50)))
    assert sorted(seen[0] + seen[1]) == list(range(500))
    assert seen[0] == sorted(seen[0])
    assert seen[1] == sorted(seen[1])


@pytest.mark.requirement("REC-3")
async def test_a_cancelled_call_loses_nothing(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    got: list[int] = []
    for number in range(100):
        taking = asyncio.ensure_future(bob.messages(wait_s=5))
        sending = asyncio.ensure_future(alice.send("bob", number))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        taking.cancel()
        with suppress(asyncio.CancelledError):
            got += [message.body for message in await taking]
        await sending
    got += [message.body for message in await take(bob, 100 - len(got))]
    assert got == list(range(100))


@pytest.mark.requirement("REC-1", "REC-2")
async def test_iterating_confirms_a_message_when_the_next_is_asked_for(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    ids = [(await alice.send("bob", number)).id for number in range(3)]
    async with asyncio.timeout(WITHIN_S):
        async for message in bob:
            assert await alice.status(message.id) == {"bob": "delivered"}
            for earlier in ids[: message.body]:
                assert await alice.status(earlier) == {"bob": "read"}
            if message.body == 2:
                break
    assert await alice.status(ids[2]) == {"bob": "delivered"}


@pytest.mark.requirement("REC-2")
async def test_iterating_does_not_confirm_a_message_whose_treatment_raised(home: Home, join: Join) -> None:
    alice = await join("alice")

    async def treat() -> None:
        async with tellwire.connect("bob", home=home.path) as bob:
            await alice.send("bob", "zero")
            async for message in bob:
                raise ZeroDivisionError(message.id)

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(ZeroDivisionError) as raised:
            await treat()
    sent = raised.value.args[0]
    assert await alice.status(sent) == {"bob": "pending"}
    again = await join("bob")
    (message,) = await again.messages(wait_s=5)
    assert (message.body, message.repeat) == ("zero", True)


@pytest.mark.requirement("REC-3", "NET-9")
async def test_iterating_goes_on_through_a_kill_without_a_repeat(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    got: list[int] = []

    async def read() -> None:
        async for message in bob:
            got.append(message.body)
            if len(got) == 60:
                return

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(read())
        for number in range(60):
            await alice.send("bob", number)
            if number % 20 == 10:
                home.signal(home.KILL)
    assert got == list(range(60))


async def test_a_handle_that_is_not_entered_says_so(home: Home) -> None:
    agent = tellwire.connect("alice", home=home.path)
    with pytest.raises(tellwire.TellwireError) as refused:
        await agent.peers()
    assert refused.value.code == "not_registered"
    assert not home.starters()


@pytest.mark.requirement("F2-8")
async def test_a_handle_that_was_left_refuses_calls(home: Home) -> None:
    async with tellwire.connect("alice", home=home.path) as alice:
        pass
    with pytest.raises(tellwire.TellwireError):
        await alice.peers()
    with pytest.raises(tellwire.TellwireError):
        await alice.messages(wait_s=1)
    with pytest.raises(tellwire.TellwireError):
        await alice.send("bob", "too late")


@pytest.mark.requirement("SEC-3")
async def test_bad_calls_raise_a_coded_error_and_the_session_goes_on(home: Home, join: Join) -> None:
    alice = await join("alice")
    for call, code in (
        (lambda: alice.send("no such address!", "x"), "address_invalid"),
        (lambda: alice.send([], "x"), "address_invalid"),
        (lambda: alice.send("bob", "x" * 70_000), "body_too_large"),
        (lambda: alice.send("bob", "x", ttl_s=-1), "bad_request"),
        (lambda: alice.status("nonsense"), "unknown_message"),
        (lambda: alice.peer("nobody"), "unknown_agent"),
        (lambda: alice.subscribe("# #"), "address_invalid"),
        (lambda: alice.peek(limit=0), "limit_exceeded"),
        (lambda: alice.confirm(["x"]), "unknown_message"),
    ):
        with pytest.raises(tellwire.TellwireError) as refused:
            await call()
        assert (refused.value.code, bool(refused.value.advice)) == (code, True)
    assert await alice.peers() == []
    for name in ("", "no name", "broadcast", "x" * 65):
        with pytest.raises(tellwire.TellwireError) as refused:
            await tellwire.connect(name, home=home.path).__aenter__()
        assert refused.value.code == "name_invalid"


# -- leaving in good order --------------------------------------------------------------------------------


@pytest.mark.requirement("REC-3")
async def test_what_was_returned_counts_as_read_when_the_program_leaves_in_good_order(
    home: Home, join: Join
) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path) as bob:
        sent = await alice.send("bob", "yesterday's")
        assert [message.body for message in await bob.messages(wait_s=5)] == ["yesterday's"]
    assert (await alice.status(sent.id))["bob"] == "read"
    async with tellwire.connect("bob", home=home.path) as bob:
        assert await bob.messages(wait_s=0.2) == []


async def test_what_was_returned_comes_again_after_an_exception(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        pass
    sent = await alice.send("bob", "once more")
    with suppress(ZeroDivisionError):
        async with tellwire.connect("bob", home=home.path) as bob:
            assert await bob.messages(wait_s=5)
            raise ZeroDivisionError
    assert (await alice.status(sent.id))["bob"] == "pending"
    async with tellwire.connect("bob", home=home.path) as bob:
        (message,) = await bob.messages(wait_s=5)
        assert (message.body, message.repeat) == ("once more", True)


async def test_what_was_offered_and_never_asked_for_is_not_confirmed(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path) as bob:
        sent = [await alice.send("bob", number) for number in range(3)]
        assert len(await bob.messages(wait_s=5, limit=1)) == 1
    states = [(await alice.status(each.id))["bob"] for each in sent]
    assert states == ["read", "pending", "pending"]


async def test_what_was_answered_is_not_kept_in_mind(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    for number in range(50):
        await alice.send("bob", number)
        (message,) = await bob.messages(wait_s=5)
        await bob.send("Alice", "answer", re=message.id)
    assert not bob._inbox.shown  # pyright: ignore[reportPrivateUsage]
    await alice.send("bob", "to be answered to somebody else")
    (message,) = await bob.messages(wait_s=5)
    await join("carol")
    await bob.send("carol", "no answer to alice", re=message.id)
    assert list(bob._inbox.shown) == [message.id]  # pyright: ignore[reportPrivateUsage]
