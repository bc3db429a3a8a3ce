"""Peers and who sees whom, row by row, as agents find it through the SDK, hooks and the command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tests.integration.hook_client import open_claude
from tests.integration.program import StartProgram
from tests.integration.test_spawning import end_children
from tests.integration.world import WITHIN_S, Home, Join, take
from tests.surfaces.cli_world import run_at_terminal


@pytest.fixture
async def alice(join: Join) -> tellwire.Agent:
    return await join("alice")


@pytest.fixture
async def bob(join: Join) -> tellwire.Agent:
    return await join("bob")


async def names(agent: tellwire.Agent) -> list[str]:
    return [each.name for each in await agent.pairs.all()]


async def code(call: Any) -> str:
    with pytest.raises(tellwire.TellwireError) as caught:
        await call
    return caught.value.code


# -- shaking hands ------------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-2", stage="lineage")
@pytest.mark.parametrize("name", ["no/such", "", "a b", "x" * 500, "../alice", "\x1b[2J"])
async def test_row_a_name_that_is_none_is_refused(alice: tellwire.Agent, name: str) -> None:
    assert await code(alice.pairs.add(name)) in ("unknown_agent", "name_invalid")
    assert await names(alice) == []


@pytest.mark.requirement("PEER-2", stage="lineage")
async def test_row_oneself_is_no_peer(alice: tellwire.Agent) -> None:
    assert await code(alice.pairs.add("alice")) == "peer_self"
    assert await code(alice.pairs.remove("ALICE")) == "peer_self"


@pytest.mark.requirement("PEER-2", stage="lineage")
async def test_row_who_is_no_agent_has_no_peers(alice: tellwire.Agent, raw: Any) -> None:
    told = await (await raw()).call("register_peer", name="alice")
    assert told["error"]["code"] == "not_registered"


@pytest.mark.requirement("PEER-2", stage="lineage")
async def test_row_one_that_is_missing_is_refused(alice: tellwire.Agent) -> None:
    assert await code(alice.pairs.add("nobody")) == "unknown_agent"
    assert await names(alice) == []


@pytest.mark.requirement("PEER-1", stage="lineage")
async def test_row_both_know_each_other_once_and_in_order(alice: tellwire.Agent, join: Join) -> None:
    others = [await join(name) for name in ("zoe", "bob", "mia")]
    for _ in range(2):
        for other in others:
            await alice.pairs.add(other.name)
    assert await names(alice) == ["bob", "mia", "zoe"]
    assert [await names(other) for other in others] == [["alice"]] * 3


@pytest.mark.requirement("PEER-1", stage="lineage")
async def test_row_a_crash_leaves_both_directions_or_none(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent
) -> None:
    await alice.pairs.add("bob")
    home.signal(Home.KILL)
    assert (await names(alice), await names(bob)) == (["bob"], ["alice"])


@pytest.mark.requirement("PEER-3", stage="lineage")
async def test_row_the_other_need_not_agree_and_nothing_else_follows(
    alice: tellwire.Agent, bob: tellwire.Agent, tmp_path: Path
) -> None:
    await alice.scopes.claim([str(tmp_path)])
    await alice.pairs.add("bob")
    assert await names(bob) == ["alice"]
    assert not (await bob.scopes.who_owns(str(tmp_path / "f"))).may_write, "no scope"
    assert await code(bob.children.stop("alice")) == "forbidden", "no ownership"
    assert await alice.children.all() == await bob.children.all() == [], "no kinship"
    assert [await agent.messages(wait_s=0) for agent in (alice, bob)] == [[], []], "no notice"
    assert (await alice.past.history()).messages == [], "no conversation"


# -- who is seen, and why -----------------------------------------------------------------------------


@pytest.mark.requirement("PEER-4", stage="lineage")
async def test_row_the_first_reason_counts_and_child_goes_before_peer(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent
) -> None:
    try:
        await alice.children.spawn("kid", "command", "t", command=["sleep", "300"], headless=True)
        assert (await alice.peer("bob")).reason == "open"
        for name in ("bob", "kid"):
            await alice.pairs.add(name)
        reasons = {each.name: each.reason for each in await alice.peers(all=True)}
        assert reasons == {"bob": "peer", "kid": "child"}
        assert (await alice.peer("alice")).reason == "self"
    finally:
        end_children(home)


@pytest.mark.requirement("PEER-4", stage="lineage")
async def test_row_an_entry_tells_name_reason_state_and_what_waits(
    alice: tellwire.Agent, bob: tellwire.Agent
) -> None:
    await alice.pairs.add("bob")
    (entry,) = await alice.peers()
    assert (entry.name, entry.reason, entry.status, entry.kind) == ("bob", "peer", "online", "script")
    assert entry.group
    assert entry.connected_at > 0
    assert entry.pending == 0


@pytest.mark.requirement("PEER-7", stage="lineage")
async def test_row_a_listing_never_shows_the_whole_machine(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent, join: Join
) -> None:
    carol = await join("carol")
    await alice.pairs.add("bob")
    group = (await alice.peer("alice")).group
    assert run_at_terminal(home, "policy", "peers", "--project", group).code == 0
    assert [each.name for each in await alice.peers(all=True)] == ["bob"]
    assert await carol.peers(all=True) == []


@pytest.mark.requirement("PEER-2", "PEER-7", stage="lineage")
async def test_row_missing_and_not_visible_are_different_answers(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent
) -> None:
    group = (await alice.peer("alice")).group
    run_at_terminal(home, "policy", "peers", "--project", group)
    assert await code(alice.pairs.add("bob")) == "not_visible"
    assert await code(alice.pairs.add("bobby")) == "unknown_agent"
    assert [(await alice.send(name, "hi")).status for name in ("bob", "bobby")] == ["denied", "denied"]
    notes = [(await alice.send(name, "hi")).note for name in ("bob", "bobby")]
    assert "not visible" in notes[0]
    assert "not visible" not in notes[1]


@pytest.mark.requirement("PEER-4", stage="lineage")
async def test_row_one_that_is_frozen_holds_no_listing_up(
    alice: tellwire.Agent, program: StartProgram
) -> None:
    frozen = await program("frozen")
    await alice.pairs.add("frozen")
    frozen.freeze()
    began = time.monotonic()
    assert [each.name for each in await alice.peers(all=True)] == ["frozen"]
    assert time.monotonic() - began < 0.5
    frozen.thaw()


# -- writing to a peer --------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-5", stage="lineage")
async def test_row_a_message_to_a_peer_goes_to_a_peer_only_and_names_its_source(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent
) -> None:
    try:
        await alice.children.spawn("kid", "command", "t", command=["sleep", "300"], headless=True)
        denied = {name: await alice.pairs.send(name, "hi") for name in ("bob", "kid", "nobody")}
        assert {sent.status for sent in denied.values()} == {"denied"}
        assert "not your peer" in denied["bob"].note
        assert "your child" in denied["kid"].note
        assert (await alice.pairs.send("alice", "hi")).status == "refused"
        await alice.pairs.add("bob")
        assert (await alice.pairs.send("bob", "hi")).status == "received"
        (message,) = await take(bob, 1)
        assert (message.sender, message.body) == ("alice", "hi")
    finally:
        end_children(home)


@pytest.mark.requirement("PEER-5", stage="lineage")
async def test_row_a_message_to_a_peer_wakes_an_idle_one(home: Home, join: Join, tmp_path: Path) -> None:
    home.up()
    async with open_claude(home, tmp_path / "config") as claude:
        await claude.hook("SessionStart", source="startup")
        await claude.client.do("wait", client="claude-code")
        alice = await join("alice")
        await alice.pairs.add("worker")
        sent = await alice.pairs.send("worker", "Are you there?")
        woken = await claude.client.do("woken", within_s=WITHIN_S)
        assert f"id={sent.id} from=alice" in woken["err"]
