"""What a listing says of an agent that cannot be reached at once, to people and to models."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tellwire.cli.render import wake_words
from tellwire.mcp.dialects.tellwire import render_agent, render_peers, wake_word
from tellwire.protocol.operations.agents import AgentList, AgentRecord, PathRecord
from tellwire.protocol.operations.peers import MeshPolicy
from tellwire.protocol.operations.topics import ListTopics, Subscribe
from tests.unit.mesh import OPERATOR, Mesh

PULL = PathRecord(name="get_messages", works=True)
TYPING = PathRecord(name="typing", works=True, wakes=True)
SHUT = PathRecord(name="typing", works=False, note="it is not running in tmux", wakes=True)
HELD = PathRecord(name="get_messages", works=True, wakes=True)


def agent(*paths: PathRecord, status: str = "online", **fields: Any) -> AgentRecord:
    return AgentRecord(id="a1", name="bob", kind="codex", status=status, paths=list(paths), **fields)


@pytest.mark.requirement("WAKE-1", "WAKE-2", stage="clients")
@pytest.mark.parametrize(
    ("record", "person", "model"),
    [
        (agent(), "", ""),
        (agent(PULL, TYPING), "typing", ""),
        (agent(PULL, SHUT), "not wakeable", "not wakeable"),
        (agent(SHUT, HELD), "get_messages", ""),
        (agent(PULL), "not wakeable", "not wakeable"),
        (agent(TYPING, muted=True), "muted", "muted"),
        (agent(SHUT, deaf=True, muted=True), "deaf", "deaf"),
        (agent(status="offline", offline_reason="left"), "", ""),
    ],
)
def test_a_listing_names_the_way_or_says_that_there_is_none(
    record: AgentRecord, person: str, model: str
) -> None:
    assert wake_words(msgspec.to_builtins(record)) == person
    assert wake_word(record) == model


def test_a_model_is_told_in_one_word() -> None:
    text = render_peers(AgentList(agents=[agent(SHUT, activity="idle"), agent(TYPING)]), "me").text
    assert "bob (codex, idle, not wakeable)" in text
    assert "bob (codex)" in text


def test_a_model_does_not_pay_for_its_own_paths() -> None:
    own = render_agent(agent(TYPING, deaf=True, unreached="x", waits="x"), own=True).data
    assert own.keys().isdisjoint({"paths", "deaf", "unreached", "waits"})
    assert "paths" in render_agent(agent(TYPING), own=False).data


def test_topics_are_listed_with_the_subscribers_that_one_sees() -> None:
    mesh = Mesh()
    for name in ("alice", "bob", "carol"):
        mesh.register(name)
    for name, topic in (("bob", "#b"), ("alice", "#a"), ("alice", "#b")):
        mesh.run(Subscribe(topic=topic), mesh.caller(name))
    told = [(each.topic, each.subscribers) for each in mesh.run(ListTopics(), OPERATOR).topics]
    assert told == [("#a", ["alice"]), ("#b", ["alice", "bob"])]
    mesh.run(MeshPolicy(group="/project", policy="peers"), OPERATOR)
    assert mesh.run(ListTopics(), mesh.caller("carol")).topics == []
    own = mesh.run(ListTopics(), mesh.caller("bob")).topics
    assert [(each.topic, each.subscribers) for each in own] == [("#b", ["bob"])]
