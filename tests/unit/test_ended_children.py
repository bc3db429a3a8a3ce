"""What a listing still tells of children that are no more."""

from __future__ import annotations

import pytest

from tellwire.core.children.lifecycle import ENDED_KEPT
from tellwire.protocol.events.children import ChildReported
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import UnregisterAgent
from tellwire.protocol.operations.children import Children, EndedRecord, ListChildren
from tests.unit.family import Family
from tests.unit.mesh import OPERATOR


@pytest.fixture
def mesh() -> Family:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    return mesh


def ended(mesh: Family, name: str) -> list[EndedRecord]:
    """What an agent is told."""
    listed: Children = mesh.run(ListChildren(), mesh.caller(name))
    return listed.ended


def test_a_parent_still_sees_how_its_children_ended_and_what_they_said_last(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.turn("kid", "t1", "the result", human=True)
    mesh.end("kid")
    mesh.bear("alice", "other")
    mesh.end("other", "killed")
    (report,) = mesh.of_type(ChildReported)
    told = ended(mesh, "alice")
    assert [(each.name, each.kind, each.parent, each.how) for each in told] == [
        ("other", "codex", "alice", "killed"),
        ("kid", "codex", "alice", "exited"),
    ]
    assert told[0].result == ""
    assert told[1].result == format_id("m", report.message)
    assert ended(mesh, "bob") == [], "they were not its children"


def test_one_that_begins_again_or_is_forgotten_is_not_told_of(mesh: Family) -> None:
    mesh.bear("alice", "kid")
    mesh.end("kid")
    mesh.bear("alice", "kid")
    assert ended(mesh, "alice") == []
    mesh.end("kid")
    mesh.run(UnregisterAgent(name="kid", forget=True), OPERATOR)
    assert ended(mesh, "alice") == []
    assert not mesh.state.ended


def test_only_the_last_ones_are_remembered(mesh: Family) -> None:
    for number in range(ENDED_KEPT + 3):
        mesh.bear("alice", f"kid{number}")
        mesh.end(f"kid{number}")
    names = [each.name for each in ended(mesh, "alice")]
    assert names == [f"kid{number}" for number in range(ENDED_KEPT + 2, 2, -1)]
