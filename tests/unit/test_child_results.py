"""What a child said reaches its parent: also with a full inbox, and over a direct link."""

from __future__ import annotations

import pytest

from tellwire.core.context import OfferWaiting
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.events.children import ChildReported, ChildUnheard
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.children import Children, ListChildren
from tests.unit.family import Family
from tests.unit.mesh import refused

FULL = 4


def family(*, reserve: int = 2, limits: Limits | None = None) -> Family:
    mesh = Family(limits or Limits(mailbox_messages_max=FULL, reserve_messages_max=reserve))
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    return mesh


def fill(mesh: Family, name: str) -> None:
    """Others write to an agent until its inbox takes no more."""
    while len(mesh.agent(name).pending) < FULL:
        mesh.send("bob", name, "hello")
    with refused("mailbox_full"):
        mesh.send("bob", name, "one more")


def read(mesh: Family, name: str) -> list[str]:
    """Take all that waits into the agent's context."""
    bodies = mesh.bodies(name)
    mesh.run(OfferWaiting(mesh.agent(name).id))
    mesh.confirm(name, *mesh.leased(name))
    return bodies


# -- a full inbox -------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-4", "CHILD-4", stage="lineage")
def test_a_full_inbox_takes_what_a_child_said_and_its_end() -> None:
    mesh = family()
    mesh.bear("alice", "kid")
    fill(mesh, "alice")
    mesh.turn("kid", "t1", "the result", human=True)
    mesh.end("kid")
    (report,) = mesh.of_type(ChildReported)
    assert mesh.bodies("alice")[FULL:] == [
        "the result",
        f"Your child kid has ended. What it said last is {format_id('m', report.message)}, which you got.",
    ]
    with refused("mailbox_full"):
        mesh.send("bob", "alice", "the reserve is not for peers")


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_the_reserve_has_room_for_large_words_too() -> None:
    mesh = family(limits=Limits(mailbox_messages_max=FULL, mailbox_bytes_max=40, reserve_bytes_max=100))
    mesh.bear("alice", "kid")
    fill(mesh, "alice")
    mesh.turn("kid", "t1", "x" * 90, human=True)
    assert mesh.bodies("alice")[FULL:] == ["x" * 90]
    mesh.turn("kid", "t2", "y" * 90, human=True)
    assert len(mesh.bodies("alice")) == FULL + 1, "the reserve has a bound as well"


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_words_beyond_the_reserve_are_told_of_as_soon_as_there_is_room() -> None:
    mesh = family(reserve=1)
    mesh.bear("alice", "kid")
    fill(mesh, "alice")
    mesh.turn("kid", "t1", "one", human=True)
    mesh.turn("kid", "t2", "two", human=True)
    mesh.turn("kid", "t3", "three", human=True)
    assert len(mesh.of_type(ChildUnheard)) == 2
    mesh.sweep()
    assert mesh.bodies("alice")[FULL:] == ["one"], "there is no room yet"
    mesh.state = parse_snapshot(format_snapshot(mesh.state))
    assert read(mesh, "alice")[FULL:] == ["one"]
    mesh.sweep()
    mesh.sweep()
    told = "Your child kid told of turns while your inbox was full."
    assert read(mesh, "alice") == [f'{told} get_session_data("kid") shows what it said.'], "once"
    mesh.turn("kid", "t4", "four", human=True)
    assert read(mesh, "alice") == ["four"]


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_the_end_does_not_name_a_result_that_is_not_the_last() -> None:
    mesh = family(reserve=1)
    mesh.bear("alice", "kid")
    fill(mesh, "alice")
    mesh.turn("kid", "t1", "one", human=True)
    mesh.turn("kid", "t2", "two", human=True)
    mesh.end("kid")
    end = 'Your child kid has ended. Your inbox was full when it spoke last. get_session_data("kid") shows'
    assert mesh.bodies("alice")[FULL:] == ["one", f"{end} what it said."]
    listed: Children = mesh.run(ListChildren(), mesh.caller("alice"))
    assert [each.result for each in listed.ended] == [""]


@pytest.mark.requirement("CHILD-4", stage="lineage")
def test_who_has_no_room_for_the_end_of_one_more_child_starts_none() -> None:
    mesh = family(reserve=2)
    mesh.bear("alice", "kid")
    fill(mesh, "alice")
    mesh.spawn("alice", "second")
    with refused("mailbox_full"):
        mesh.spawn("alice", "third")
    read(mesh, "alice")
    mesh.spawn("alice", "third")


# -- a direct link ------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-4", stage="lineage")
@pytest.mark.parametrize("listen", [True, False])
def test_the_end_names_what_crossed_the_direct_link_last(listen: bool) -> None:
    mesh = family(limits=Limits())
    mesh.bear("alice", "kid", listen=listen)
    mesh.turn("kid", "t1", "before the link", human=True)
    mesh.send("alice", "kid", "let us talk", direct=True)
    mesh.turn("kid", "t2", "on the link", human=True)
    assert mesh.bodies("alice")[-1] == "on the link"
    assert mesh.bodies("alice").count("on the link") == 1, "told once"
    crossed = format_id("m", max(mesh.agent("alice").pending))
    mesh.end("kid")
    assert f"What it said last is {crossed}, which you got." in mesh.bodies("alice")[-1]
    listed: Children = mesh.run(ListChildren(), mesh.caller("alice"))
    assert [each.result for each in listed.ended] == [crossed]


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_words_for_which_the_direct_link_had_no_room_are_told_as_without_one() -> None:
    mesh = family()
    mesh.bear("alice", "kid")
    mesh.send("alice", "kid", "let us talk", direct=True)
    fill(mesh, "alice")
    mesh.turn("kid", "t1", "no room on the link", human=True)
    assert mesh.bodies("alice")[FULL:] == ["no room on the link"]


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_while_the_direct_link_is_paused_a_childs_words_are_told_as_without_one() -> None:
    mesh = family(limits=Limits(link_turns_max=2))
    mesh.bear("alice", "kid")
    mesh.send("alice", "kid", "let us talk", direct=True)
    read(mesh, "kid")
    mesh.turn("kid", "t1", "the last to cross")
    assert read(mesh, "alice")[0] == "the last to cross"
    mesh.send("alice", "kid", "aside")
    read(mesh, "kid")
    mesh.turn("kid", "t2", "while it is paused")
    assert read(mesh, "alice") == ["while it is paused"]


@pytest.mark.requirement("AUD-4", stage="lineage")
def test_with_a_direct_link_a_parent_still_hears_of_a_turn_that_failed() -> None:
    mesh = family(limits=Limits())
    mesh.bear("alice", "kid")
    mesh.send("alice", "kid", "let us talk", direct=True)
    before = len(mesh.bodies("alice"))
    mesh.turn("kid", "t1", "", human=True)
    mesh.turn("kid", "t2", "no key", outcome="errored", human=True)
    assert mesh.bodies("alice")[before:] == ['Your child kid stopped with an error: "no key".']


@pytest.mark.requirement("SC-3", stage="links")
def test_a_turn_that_adds_nothing_to_the_direct_link_is_told_nowhere() -> None:
    mesh = family(limits=Limits())
    mesh.bear("alice", "kid")
    mesh.send("alice", "kid", "let us talk", direct=True)
    read(mesh, "kid")
    mesh.turn("kid", "t1", "the same words")
    mesh.send("alice", "kid", "and now?", direct=True)
    read(mesh, "kid")
    mesh.turn("kid", "t2", "the same words")
    assert mesh.bodies("alice").count("the same words") == 1
