"""What a console shows: the picture, its lines, and foreign text in them."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.record.audit import whole_event
from tellwire.core.record.stored import Entry
from tellwire.protocol.events import EVENTS
from tellwire.protocol.operations.explain import Explained, Explanation, Step
from tellwire.protocol.operations.feed import AgentRow, FeedEvent, MailRow, OverviewPage, Pulse, Rows
from tellwire.views.messages import why_lines
from tellwire.views.model import Model, fold, snapshot
from tellwire.views.timeline import QUIET, WORDS, event_line, pulse_line, summary_line
from tests.golden.samples import SAMPLES
from tests.surfaces.mcp_client import FORGED


def page(seq: int, **tables: Any) -> OverviewPage:
    rows = Rows(seq=seq, whole=["agents", "mail"], **tables)
    return OverviewPage(seq=seq, at=1.0, rows=rows, pulses=[Pulse(agent="a1", activity="busy")])


def row(name: str, **fields: Any) -> AgentRow:
    return AgentRow(name=name, kind="codex", online=True, **fields)


def queued(seq: int, *to: str) -> FeedEvent:
    return FeedEvent(seq=seq, at=1.0, type="message_queued", agent="a1", whom_ids=list(to), ids=[f"m{seq}"])


# -- the picture ------------------------------------------------------------------------------------------


def test_an_overview_replaces_what_was_known_and_rows_change_it() -> None:
    model = snapshot(page(5, agents={"a1": row("ann"), "a2": row("bob")}))
    changed = fold(model, Rows(seq=6, agents={"a2": None, "a3": row("cat"), "a1": row("ann")}))
    assert changed == {("agents", "a2"), ("agents", "a3")}
    assert list(model.agents) == ["a1", "a3"]
    assert fold(model, page(9, agents={"a1": row("ann")})) >= {("agents", "a3")}
    assert (list(model.agents), model.seq) == (["a1"], 9)


def test_rows_from_before_an_overview_are_out_of_date() -> None:
    model = snapshot(page(5, agents={"a1": row("ann")}))
    assert fold(model, Rows(seq=4, agents={"a1": row("old")})) == set()
    assert model.agents["a1"].name == "ann"


@pytest.mark.parametrize(
    ("type_", "detail", "state"),
    [
        ("messages_delivered", {}, "delivered"),
        ("messages_read", {"evidence": "confirm"}, "read"),
        ("message_answered", {}, "answered"),
        ("messages_expired", {}, "expired"),
        ("messages_returned", {}, "pending"),
    ],
)
def test_a_receipt_of_very_many_messages_changes_each(type_: str, detail: dict[str, Any], state: str) -> None:
    model = Model()
    ids = [f"m{seq}" for seq in range(1, 121)]
    for seq in range(1, 121):
        fold(model, queued(seq, "a2", "a3"))
    event = FeedEvent(seq=121, at=1.0, type=type_, agent="a2", ids=ids, detail=detail)
    assert sum(table == "messages" for table, _ in fold(model, event)) == 120
    assert {message.states["a2"] for message in model.messages.values()} == {state}
    assert {message.states["a3"] for message in model.messages.values()} == {"pending"}
    assert fold(model, event) == set(), "what is known changes nothing"


@pytest.mark.parametrize(
    ("type_", "detail", "state"),
    [
        ("agent_offline", {"reason": "disconnected"}, "pending"),
        ("agent_offline", {"reason": "silent"}, "delivered"),
        ("session_started", {"keeps": False}, "pending"),
        ("session_started", {"keeps": True}, "delivered"),
        ("agent_muted", {}, "delivered"),
    ],
)
def test_the_end_of_a_session_returns_what_it_was_handed(
    type_: str, detail: dict[str, Any], state: str
) -> None:
    model = Model()
    fold(model, queued(1, "a2"))
    fold(model, FeedEvent(seq=2, at=1.0, type="messages_delivered", agent="a2", ids=["m1"]))
    fold(model, FeedEvent(seq=3, at=1.0, type=type_, agent="a2", detail=detail))
    assert model.messages["m1"].states == {"a2": state}


# -- lines ------------------------------------------------------------------------------------------------


def test_every_event_has_its_words() -> None:
    assert set(WORDS) == set(EVENTS)
    assert set(WORDS) >= QUIET


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_can_be_told_in_one_line(event: Any) -> None:
    line = event_line(whole_event(Entry(7, 1.0, event), lambda agent: f"name-of-{agent}", text="hello"))
    assert line
    assert line == line.strip()
    assert "()" not in line
    assert "\n" not in line


@pytest.mark.requirement("HUM-6", stage="console")
def test_text_of_an_agent_stays_text() -> None:
    event = FeedEvent(
        seq=1,
        at=1.0,
        type="message_queued",
        who=FORGED[:40],
        whom=["operator"],
        ids=["m1"],
        text=FORGED + "{who} {0}",
    )
    pulse = Pulse(agent="a1", activity="waiting", wants=FORGED, place=FORGED)
    explained = Explanation(
        id="m1",
        sender=FORGED,
        to=FORGED,
        at=1.0,
        text=FORGED,
        recipients=[
            Explained(
                name=FORGED,
                state="pending",
                why=FORGED,
                next=FORGED,
                steps=[Step(at=1.0, what=FORGED, note=FORGED)],
            )
        ],
    )
    model = snapshot(page(1, agents={"a1": row(FORGED)}))
    lines = [
        event_line(event),
        event_line(event, width=40),
        pulse_line(pulse, model),
        *why_lines(explained, age=lambda _at: "now"),
    ]
    for line in lines:
        assert not set(line) & set("\x1b\u202e\u200b\n\U000e0041"), line
    assert "{who} {0}" in lines[0]
    assert lines[0].startswith("needs you: ")


def test_a_summary_counts_agents_and_what_needs_you() -> None:
    agents = {"a1": row("ann"), "a2": row("bob"), "a3": AgentRow(name="cat", kind="x"), "a9": row("operator")}
    model = snapshot(page(1, agents=agents, mail={"m1": MailRow(sender="a1", unread=True)}))
    assert summary_line(model) == "2 agents online, 1 busy, 1 message needs you"
    assert not pulse_line(Pulse(agent="a1", activity="busy"), model)
    assert pulse_line(Pulse(agent="a2", activity="waiting", wants="Bash: make"), model) == (
        "needs you: bob waits for its human: Bash: make"
    )
