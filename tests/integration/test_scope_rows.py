"""Who may write where, row by row, as agents find it through the SDK and the command line."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tellwire.protocol.operations.scopes import ScopeRule
from tests.integration.program import StartProgram
from tests.integration.test_spawning import end_children, processes_of
from tests.integration.world import ROOT, Home, Join, take, tellwire_command, until

SLEEP = ("sleep", "300")


@pytest.fixture
async def alice(home: Home, join: Join) -> AsyncIterator[tellwire.Agent]:
    """An agent; its children end with the test."""
    try:
        yield await join("alice")
    finally:
        end_children(home)


@pytest.fixture
async def bob(join: Join) -> tellwire.Agent:
    return await join("bob")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with two generations of folders in it."""
    here = tmp_path.resolve() / "p"
    (here / "a" / "x" / "y").mkdir(parents=True)
    (here / "b").mkdir()
    return here


async def bear(parent: tellwire.Agent, name: str, *paths: Path, words: tuple[str, ...] = SLEEP) -> Any:
    scope = [str(path) for path in paths]
    return await parent.children.spawn(
        name, "command", "t", scope=scope, command=words, headless=True, cwd=str(ROOT)
    )


async def refusal(call: Any) -> tellwire.TellwireError:
    with pytest.raises(tellwire.TellwireError) as caught:
        await call
    return caught.value


async def writes(agent: tellwire.Agent, path: Path) -> bool:
    return (await agent.scopes.who_owns(str(path))).may_write


def grandchild(path: Path) -> tuple[str, ...]:
    """A program that gives scope on to a child of its own, and stays."""
    words = tellwire_command(
        "spawn", "grandkid", "command", "--task", "t", "--headless", "--scope", str(path)
    )
    return ("sh", "-c", f"{shlex.join([*words, '--', *SLEEP])}; exec sleep 300")


async def knows(agent: tellwire.Agent, name: str) -> bool:
    return any(each.name == name and each.status == "running" for each in await agent.children.all())


# -- rules --------------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_a_rule_goes_deeper_unless_it_says_otherwise_and_then_covers_direct_entries(
    alice: tellwire.Agent, bob: tellwire.Agent, place: Path
) -> None:
    (claim,) = await alice.scopes.claim([str(place)])
    assert (claim.access, claim.recursive) == ("write", True)
    assert not await writes(bob, place / "a" / "x" / "y")
    await alice.scopes.release()
    await alice.scopes.claim([ScopeRule(str(place), recursive=False)])
    assert [await writes(bob, each) for each in (place, place / "a", place / "a" / "x")] == [
        False,
        False,
        True,
    ]


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_only_writing_is_exclusive(alice: tellwire.Agent, bob: tellwire.Agent, place: Path) -> None:
    await alice.scopes.claim([ScopeRule(str(place), "read")])
    await bob.scopes.claim([ScopeRule(str(place), "read")])
    await bob.scopes.claim([ScopeRule(str(place), "write")])
    assert (await refusal(alice.scopes.claim([str(place)]))).code == "scope_conflict"


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_two_rules_overlap_in_four_ways_by_how_deep_each_goes(
    alice: tellwire.Agent, bob: tellwire.Agent, place: Path
) -> None:
    far, near = place / "a" / "x", place / "a"
    expected = {
        (True, True, far): True,
        (True, False, far): True,
        (False, True, far): False,
        (False, False, far): False,
        (True, True, near): True,
        (True, False, near): True,
        (False, True, near): True,
        (False, False, near): True,
    }
    for deep, other, path in itertools.product((True, False), (True, False), (far, near)):
        await alice.scopes.claim([ScopeRule(str(place), recursive=deep)])
        try:
            await bob.scopes.claim([ScopeRule(str(path), recursive=other)])
            overlap = False
        except tellwire.TellwireError as error:
            overlap = error.code == "scope_conflict"
        assert overlap == expected[deep, other, path], (deep, other, path)
        await alice.scopes.release()
        await bob.scopes.release()


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_what_one_may_write_is_what_it_claimed_less_what_its_children_hold(
    alice: tellwire.Agent, place: Path
) -> None:
    before = await alice.scopes.claim([str(place)])
    await bear(alice, "kid", place / "a")
    assert (await writes(alice, place / "a" / "f"), await writes(alice, place / "b" / "f")) == (False, True)
    shown = {scope.name: scope.rules for scope in await alice.scopes.all()}
    assert [rule.path for rule in shown["alice"]] == [rule.path for rule in before], "the claim never shrinks"


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_a_parent_that_gave_writing_away_keeps_reading(alice: tellwire.Agent, place: Path) -> None:
    await bear(alice, "kid", place / "a")
    assert not await writes(alice, place / "a" / "f")
    (rule,) = await alice.scopes.claim([ScopeRule(str(place / "a"), "read")])
    assert rule.access == "read"


# -- claiming -----------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_what_the_dead_held_is_free_before_anybody_claims(
    alice: tellwire.Agent, program: StartProgram, place: Path
) -> None:
    dying = await program("dying", kind="codex")
    await dying.call("scopes.claim", [str(place)])
    assert (await refusal(alice.scopes.claim([str(place)]))).code == "scope_conflict"
    await dying.kill()

    async def is_free() -> bool:
        try:
            return bool(await alice.scopes.claim([str(place)]))
        except tellwire.TellwireError:
            return False

    await until(is_free, what="it is free, and nobody had to clean up")


@pytest.mark.requirement("CHILD-3", stage="lineage")
async def test_row_a_name_is_borne_once(alice: tellwire.Agent, bob: tellwire.Agent, place: Path) -> None:
    await bear(alice, "kid", place / "a")
    for name in ("kid", "bob"):
        told = await refusal(bear(alice, name, place / "b"))
        assert (told.code, name in told.message) == ("conflict", True)
    assert await writes(bob, place / "b" / "f"), "nothing was reserved"


@pytest.mark.requirement("CHILD-3", stage="lineage")
async def test_row_one_session_is_one_agent(home: Home, alice: tellwire.Agent, raw: Any) -> None:
    first, second = await raw(), await raw()
    for connection in (first, second):
        told = await connection.call("register_agent", name="same", kind="codex", session="s-1")
        assert told["ok"]["name"] == "same"
    assert [each.name for each in await alice.peers(all=True) if each.name.startswith("same")] == ["same"]
    assert (await first.frame())["error"]["code"] == "session_replaced"


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_an_overlap_is_refused_naming_the_deepest_owner_and_both_rules(
    alice: tellwire.Agent, bob: tellwire.Agent, place: Path
) -> None:
    await alice.scopes.claim([str(place)])
    await bear(alice, "kid", place / "a", words=grandchild(place / "a" / "x"))
    await until(lambda: knows(alice, "grandkid"), what="three generations")
    told = await refusal(bob.scopes.claim([str(place / "a" / "x" / "y")]))
    assert told.code == "scope_conflict"
    assert "'grandkid' holds" in told.message
    assert str(ScopeRule(str(place / "a" / "x"))) in told.message
    assert str(place / "a" / "x" / "y") in told.message


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_what_was_given_to_ones_own_children_is_no_conflict_for_what_lies_around(
    alice: tellwire.Agent, place: Path
) -> None:
    await bear(alice, "kid", place / "a")
    await alice.scopes.claim([str(place)])
    assert (await alice.scopes.who_owns(str(place / "a" / "f"))).owner == "kid"
    assert (await alice.scopes.who_owns(str(place / "b" / "f"))).owner == "alice"


# -- giving on ----------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_more_than_one_has_cannot_be_given_on(
    alice: tellwire.Agent, place: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    words = tellwire_command("spawn", "grandkid", "command", "--task", "t", "--scope", str(place / "b"))
    program = f"{shlex.join([*words, '--', *SLEEP])} 2>{shlex.quote(str(said))}.new; "
    moved = f"mv {shlex.quote(str(said))}.new {shlex.quote(str(said))}; exec sleep 300"
    await bear(alice, "kid", place / "a", words=("sh", "-c", program + moved))
    await until(said.exists, what="it was answered")
    text = await asyncio.to_thread(said.read_text)
    assert "outside the scope of 'kid'" in text
    assert not await knows(alice, "grandkid")


@pytest.mark.requirement("CHILD-2", stage="lineage")
async def test_row_what_another_holds_cannot_be_given_on(
    alice: tellwire.Agent, bob: tellwire.Agent, place: Path
) -> None:
    await bob.scopes.claim([str(place / "a")])
    told = await refusal(bear(alice, "kid", place))
    assert (told.code, "'bob' holds" in told.message) == ("scope_conflict", True)
    assert await alice.children.all() == []


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_row_who_is_not_known_is_told_so(alice: tellwire.Agent, bob: tellwire.Agent) -> None:
    assert (await refusal(alice.children.stop("nobody"))).code == "unknown_agent"
    assert (await refusal(alice.children.stop("bob"))).code == "forbidden"


# -- giving back --------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_row_children_of_one_that_ends_are_handed_to_the_one_above(
    home: Home, alice: tellwire.Agent, place: Path
) -> None:
    await bear(alice, "kid", place / "a", words=grandchild(place / "a" / "x"))
    await until(lambda: knows(alice, "grandkid"), what="three generations")
    await alice.children.stop("kid")
    (told,) = await take(alice, 1)
    assert "Its children are yours now: grandkid." in str(told.body)
    (left,) = await alice.children.all()
    assert (left.name, left.parent) == ("grandkid", "alice")
    assert (await alice.scopes.who_owns(str(place / "a" / "x" / "f"))).owner == "grandkid"
    assert await writes(alice, place / "a" / "f")


@pytest.mark.requirement("CHILD-4", "AUD-2", stage="lineage")
async def test_row_taking_back_twice_is_harmless(alice: tellwire.Agent, place: Path) -> None:
    await alice.scopes.claim([str(place / "b")])
    await bear(alice, "kid", place / "a")
    stopped = await asyncio.gather(alice.children.stop("kid"), alice.children.stop("kid"))
    assert [each.status for each in stopped] == ["stopping", "stopping"]
    assert [await alice.scopes.release(), await alice.scopes.release()] == [[], []]
    (told,) = await take(alice, 1)
    assert "Its scope is yours again." in str(told.body)
    assert (await refusal(alice.children.stop("kid"))).code == "forbidden", "it is nobody's child any more"
    assert await alice.scopes.all() == []


@pytest.mark.requirement("CHILD-2", "CHILD-4", stage="lineage")
async def test_row_only_a_process_that_is_gone_counts_as_dead(
    home: Home, alice: tellwire.Agent, bob: tellwire.Agent, place: Path
) -> None:
    await bear(alice, "kid", place / "a")
    (pid,) = processes_of(home)
    os.kill(pid, signal.SIGSTOP)
    assert (await refusal(bob.scopes.claim([str(place / "a")]))).code == "scope_conflict"
    assert await knows(alice, "kid")
    os.kill(pid, signal.SIGKILL)
    await take(alice, 1)
    assert await bob.scopes.claim([str(place / "a")])
