"""Turn reports: one fact for each turn, and nothing for a report that cannot be true."""

from __future__ import annotations

import pytest

from tellwire.core.context import ReportTurn
from tellwire.protocol.events.links import TurnEnded
from tellwire.protocol.operations.agents import Done
from tests.unit.mesh import Mesh


@pytest.fixture
def mesh() -> Mesh:
    mesh = Mesh()
    mesh.register("alice")
    return mesh


def test_a_turn_is_on_record_without_its_text(mesh: Mesh) -> None:
    alice = mesh.agent("alice")
    mesh.run(ReportTurn(alice.id, alice.session, "t1", "ended", "Grüße", human=True))
    (event,) = mesh.of_type(TurnEnded)
    assert (event.agent, event.turn, event.outcome, event.size, event.human) == (
        alice.id,
        "t1",
        "ended",
        7,
        True,
    )
    assert event.digest
    assert not mesh.stored


def test_the_same_turn_counts_once_also_after_a_restart(mesh: Mesh) -> None:
    alice = mesh.agent("alice")
    mesh.run(ReportTurn(alice.id, alice.session, "t1", "ended", "one"))
    mesh.run(ReportTurn(alice.id, alice.session, "t1", "ended", "two"))
    mesh.state = mesh.replayed()
    mesh.run(ReportTurn(alice.id, alice.session, "t1", "errored"))
    assert len(mesh.of_type(TurnEnded)) == 1


def test_a_turn_that_waits_for_a_person_ends_later(mesh: Mesh) -> None:
    alice = mesh.agent("alice")
    for outcome in ("waiting", "waiting", "ended"):
        mesh.run(ReportTurn(alice.id, alice.session, "t1", outcome))
    assert [event.outcome for event in mesh.of_type(TurnEnded)] == ["waiting", "ended"]


@pytest.mark.parametrize(
    ("agent", "session", "turn"),
    [
        ("a99", "s-alice", "t1"),
        ("", "", "t1"),
        ("a1", "other", "t1"),
        ("a1", "s-alice", ""),
        ("a1", "s-alice", "t" * 200),
    ],
)
def test_a_report_that_cannot_be_true_changes_nothing(
    mesh: Mesh, agent: str, session: str, turn: str
) -> None:
    assert mesh.agent("alice").id == "a1"
    assert mesh.run(ReportTurn(agent, session, turn, "ended", "text")) == Done(), "no error"
    assert not mesh.of_type(TurnEnded)


def test_text_that_is_no_unicode_is_taken_all_the_same(mesh: Mesh) -> None:
    alice = mesh.agent("alice")
    mesh.run(ReportTurn(alice.id, alice.session, "t1", "ended", "half \ud800 pair"))
    assert [event.size for event in mesh.of_type(TurnEnded)] == [11]
