"""Peers and claims through a broker that is killed again and again: whole facts, or none."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import tellwire
from tests.integration.world import Home, Join, until

KILLS = 8


async def change(agent: tellwire.Agent, other: str, chance: random.Random, folder: Path) -> None:
    """Shake hands or part, claim or release; a call that meets the kill is sent again."""
    for _ in range(10):
        if chance.random() < 0.5:
            await (agent.pairs.add if chance.random() < 0.6 else agent.pairs.remove)(other)
        elif chance.random() < 0.6:
            try:
                await agent.scopes.claim([str(folder / str(chance.randrange(4)))])
            except tellwire.TellwireError as error:
                if error.code != "scope_conflict":
                    raise
        else:
            await agent.scopes.release()


@pytest.mark.requirement("PEER-1", "CHILD-2", stage="lineage")
async def test_no_kill_leaves_half_a_relation_or_two_owners(home: Home, join: Join, tmp_path: Path) -> None:
    chance = random.Random(7)
    ann, bob = await join("ann"), await join("bob")
    for number in range(KILLS):
        work = asyncio.gather(
            change(ann, "bob", random.Random(number), tmp_path),
            change(bob, "ann", random.Random(1000 + number), tmp_path),
        )
        began = asyncio.get_running_loop().time()
        moment = chance.uniform(0.0, 0.05)
        await until(lambda began=began, moment=moment: asyncio.get_running_loop().time() - began >= moment)
        home.signal(Home.KILL)
        await work
        mine, theirs = await ann.pairs.all(), await bob.pairs.all()
        assert bool(mine) == bool(theirs), "one-sided"
        held = {scope.name: {rule.path for rule in scope.rules} for scope in await ann.scopes.all()}
        assert not held.get("ann", set()) & held.get("bob", set()), "two owners"
