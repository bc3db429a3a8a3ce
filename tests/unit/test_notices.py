"""Which notices may wake a model, and who hears of a fact at all (AUD-1, AUD-5, AUD-7)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tellwire.core
from tellwire.core.mail.notices import MUTED, NOTHING, WEAK, WEIGHTS, held_back, notice, shortened
from tellwire.core.state import Agent, Receipt
from tellwire.protocol.events import Audience, Event, MessageQueued
from tellwire.protocol.events import children as child_events
from tellwire.protocol.events.base import word
from tellwire.protocol.operations.links import OpenLink
from tests.unit.family import Family
from tests.unit.mesh import OPERATOR

FOR_AGENTS = {child_events.ChildEnded}
"""Of all that is known of families, this alone is for models."""


@pytest.fixture
def mesh() -> Family:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    return mesh


def agent_with(*weak: bool, muted: bool = False) -> Agent:
    pending = {seq: Receipt("", 1, 9.0, weak=each) for seq, each in enumerate(weak, 1)}
    return Agent(id="a1", name="alice", kind="codex", session="s", pending=pending, muted=muted)


# -- audience -----------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-1", "AUD-3", stage="lineage")
@pytest.mark.parametrize("kind", child_events.ChildEvent.__args__, ids=lambda kind: kind.__name__)
def test_each_fact_about_families_says_itself_whom_it_is_for(kind: type[Event]) -> None:
    assert "audience" in vars(kind), "it is declared, not inherited"
    assert kind.audience is (Audience.AGENT if kind in FOR_AGENTS else Audience.CONTROL)


@pytest.mark.requirement("AUD-1", stage="lineage")
def test_a_new_fact_that_forgets_its_audience_cannot_be_imported() -> None:
    with pytest.raises(TypeError, match="must declare its audience"):

        class Forgetful(child_events.ChildEnded, tag=word, frozen=True, array_like=True):  # pyright: ignore[reportUnusedClass]
            """Its parent declares one, it does not."""


# -- weak and strong ----------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-7", stage="lineage")
def test_every_kind_of_notice_has_a_weight_and_a_reason_and_is_used() -> None:
    assert all(weight.why for weight in WEIGHTS.values())
    used: set[str] = set()
    for path in Path(tellwire.core.__path__[0]).rglob("*.py"):
        if path.name != "notices.py":
            tree = ast.parse(path.read_text("utf-8"))
            words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            used |= {each for each in words if isinstance(each, str) and each in WEIGHTS}
    assert used == WEIGHTS.keys()


@pytest.mark.requirement("AUD-4", "AUD-7", stage="lineage")
def test_what_a_parent_hears_of_its_children_is_strong(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.turn("kid", "t1", "Done.")
    mesh.turn("kid", "t2", outcome="errored")
    mesh.end("kid")
    told = [event for event in mesh.of_type(MessageQueued) if event.to == "alice"]
    assert len(told) == 3
    assert not any(event.weak for event in told)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_notice_is_as_heavy_as_its_kind(mesh: Family, kind: str) -> None:
    event, _ = notice(mesh.agent("alice"), "text", mesh.context(OPERATOR), kind)
    assert event.weak is not WEIGHTS[kind].wakes


def test_a_kind_that_is_not_in_the_table_is_a_bug(mesh: Family) -> None:
    with pytest.raises(KeyError):
        notice(mesh.agent("alice"), "text", mesh.context(OPERATOR), "gossip")


@pytest.mark.requirement("AUD-5", "AUD-7", stage="lineage")
def test_the_gate_lets_through_what_is_strong_and_nothing_for_who_is_muted() -> None:
    assert held_back(agent_with(), 0.0) == NOTHING
    assert held_back(agent_with(True, True), 0.0) == WEAK
    assert held_back(agent_with(True, False), 0.0) == ""
    assert held_back(agent_with(False), 0.0) == ""
    assert held_back(agent_with(False, muted=True), 0.0) == MUTED
    assert held_back(agent_with(True, muted=True), 0.0) == WEAK


@pytest.mark.requirement("AUD-7", stage="lineage")
def test_weakness_lasts_through_hand_over_return_and_restart(mesh: Family) -> None:
    mesh.register("carol", kind="codex")
    mesh.run(OpenLink(members=["bob", "carol"]), mesh.caller("alice"))
    (seq,) = mesh.agent("bob").pending
    mesh.take("bob", "1")
    mesh.give_back("bob", "1")
    assert mesh.agent("bob").pending[seq].weak
    assert mesh.replayed().agents[mesh.agent("bob").id].pending[seq].weak


@pytest.mark.parametrize(("name", "where"), [("", ""), ("kid", '; get_session_data("kid") shows it')])
def test_a_text_too_long_for_a_message_is_cut_and_says_where_the_whole_is(name: str, where: str) -> None:
    text = "ä" * 100
    short = shortened(text, 120, name)
    assert short.endswith(f"\n[cut: the whole has 200 bytes{where}]")
    assert len(short.encode()) <= 120
    assert shortened(text, 200, name) == text
