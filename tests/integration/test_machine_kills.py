"""Brokers of two machines are killed while their agents talk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tellwire
from tests.integration import redis_server
from tests.integration.machines_world import computers, pair_over_redis
from tests.integration.redis_server import RedisServer
from tests.integration.world import take, until

ROUNDS = 6
EACH = 5


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A real Redis."""
    if reason := redis_server.missing():
        pytest.skip(f"there is no redis-server: {reason}")
    made = RedisServer(tmp_path)
    await made.start()
    try:
        yield made
    finally:
        await made.kill()


@pytest.mark.requirement("FED-3", "NET-6", "NET-10", stage="federation")
async def test_messages_and_receipts_survive_the_kill_of_either_broker(server: RedisServer) -> None:
    async with computers("laptop", "desk") as (laptop, desk):
        await pair_over_redis(laptop, desk, server.url)
        async with (
            tellwire.connect("alice", home=laptop.path) as alice,
            tellwire.connect("bob", home=desk.path) as bob,
        ):

            async def is_listed() -> bool:
                return "desk:bob" in {each.name for each in await alice.peers(all=True)}

            await until(is_listed, what="bob is listed")
            ids: list[str] = []
            for number in range(ROUNDS):
                for place in range(EACH):
                    ids.append((await alice.send("desk:bob", f"{number * EACH + place}")).id)
                victim = (laptop, desk)[number % 2]
                victim.signal(victim.KILL)
            got = await take(bob, ROUNDS * EACH)
            assert [each.body for each in got] == [f"{number}" for number in range(ROUNDS * EACH)]
            await bob.confirm([each.id for each in got])

            async def is_read() -> bool:
                states = [(await alice.status(each)).recipients[0].state for each in ids]
                return set(states) == {"read"}

            await until(is_read, what="all receipts came back")
            assert not await bob.messages(wait_s=0.2), "nothing came twice"
