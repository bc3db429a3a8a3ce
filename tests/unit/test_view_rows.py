"""Rows of agents, conversations and the tree of children: their words, their order, their lines."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.protocol.operations.feed import (
    AgentRow,
    ChildRow,
    ClaimRow,
    FeedEvent,
    LinkRow,
    OverviewPage,
    Pulse,
    Rows,
)
from tellwire.protocol.operations.scopes import ScopeRule
from tellwire.views.agents import agent_lines, agent_rows, header_line, project_labels
from tellwire.views.model import Message, Model, fold, snapshot
from tellwire.views.signs import (
    ASCII,
    RECEIPT_WORDS,
    STATE_WORDS,
    UNICODE,
    Signs,
    age_words,
    ascii_line,
    fit,
    short_age,
)
from tellwire.views.talk import (
    conversation_line,
    conversations,
    message_head,
    messages_of,
    receipt_text,
    receipt_word,
    thread_of,
)
from tellwire.views.timeline import Filter, event_line, timeline_rows
from tellwire.views.tree import tree_line, tree_rows
from tests.surfaces.mcp_client import FORGED
from tests.unit.golden_views import check

NOW = 10_000.0
SHOP, API = "/home/me/shop/.git", "/home/me/api/.git"


def agent(name: str, kind: str = "codex", group: str = SHOP, **fields: Any) -> AgentRow:
    given: dict[str, Any] = {"online": True, "connected_at": NOW - 3_600, **fields}
    return AgentRow(name=name, kind=kind, group=group, **given)


def mesh() -> Model:
    agents: dict[str, AgentRow | None] = {
        "a1": agent("operator", "operator", "", pending=3),
        "a2": agent("alice", "claude"),
        "a3": agent("bob", pending=2, pending_since=NOW - 9, terminal="%3"),
        "a4": agent("dave", "pi", API, pending=1),
        "a5": agent("carol", "gemini", SHOP),
        "a6": agent("tester", "codex", SHOP),
        "a7": agent("erin", "opencode", API, muted=True, muted_until=NOW + 3_000, pending=1),
        "a8": agent("frank", "claude", API, online=False, gone_at=NOW - 90, offline_reason="left"),
        "a9": agent("a-program-with-quite-a-long-name", "script", API),
    }
    pulses = [
        Pulse(agent="a2", activity="busy", since=NOW - 120),
        Pulse(agent="a3", activity="waiting", since=NOW - 240, wants="Bash: rm -rf build"),
        Pulse(
            agent="a4", activity="errored", since=NOW - 180, held="the last wake failed; tried again in 5 min"
        ),
        Pulse(agent="a5", activity="idle", since=NOW - 3_700, way="typing"),
        Pulse(agent="a6", activity="busy", since=NOW - 12),
        Pulse(agent="a7", activity="idle", since=NOW - 1_320, shut="typing: not in tmux"),
    ]
    rules = [ScopeRule("/home/me/shop/tests"), ScopeRule("/home/me/shop/docs", "read", recursive=False)]
    rows = Rows(
        seq=9,
        agents=agents,
        children={"a6": ChildRow(parent="a5", status="running", scoped=True)},
        claims={"a6": ClaimRow(rules=rules), "a3": ClaimRow(rules=[ScopeRule("/home/me/shop/src")])},
        links={"l4": LinkRow(members=["a2", "a3"])},
        whole=["agents", "children", "claims", "links"],
    )
    return snapshot(OverviewPage(seq=9, at=NOW, rows=rows, pulses=pulses))


def say(model: Model, seq: int, sender: str, *to: str, **fields: Any) -> None:
    detail = {key: fields.pop(key) for key in ("to", "re") if key in fields}
    event = FeedEvent(
        seq=seq,
        at=NOW - 100 + seq,
        type="message_queued",
        agent=sender,
        who=model.agents[sender].name,
        whom=[model.agents[each].name for each in to],
        whom_ids=list(to),
        ids=[f"m{seq}"],
        detail=detail,
        **fields,
    )
    fold(model, event)


# -- agents -----------------------------------------------------------------------------------------------


def test_agents_stand_by_project_then_as_they_joined_with_children_beneath() -> None:
    model = mesh()
    before = [(row.project, row.name, row.depth) for row in agent_rows(model, NOW)]
    assert before == [
        ("api", "dave", 0),
        ("api", "erin", 0),
        ("api", "a-program-with-quite-a-long-name", 0),
        ("shop", "alice", 0),
        ("shop", "bob", 0),
        ("shop", "carol", 0),
        ("shop", "tester", 1),
    ]
    for key in list(model.agents):
        fold(model, Pulse(agent=key, activity="errored", since=NOW))
    assert [(row.project, row.name, row.depth) for row in agent_rows(model, NOW)] == before


def test_those_that_are_offline_are_shown_when_asked_for_or_while_mail_waits_for_them() -> None:
    model = mesh()
    assert "frank" not in [row.name for row in agent_rows(model, NOW)]
    assert "frank" in [row.name for row in agent_rows(model, NOW, offline=True)]
    frank = agent("frank", online=False, gone_at=NOW - 90, pending=1)
    fold(model, Rows(seq=10, agents={"a8": frank}))
    assert "frank" in [row.name for row in agent_rows(model, NOW)]


@pytest.mark.parametrize(
    ("name", "state", "age", "note"),
    [
        ("alice", "busy", "2m", ""),
        ("bob", "waiting", "4m", "wants: Bash: rm -rf build · writes src/"),
        ("dave", "errored", "3m", "the last wake failed; tried again in 5 min"),
        ("carol", "idle", "1h", "wake: typing"),
        ("tester", "busy", "12s", "child of carol · writes tests/, docs/"),
        ("erin", "idle", "22m", "muted for 50 min more · typing: not in tmux"),
        ("frank", "offline", "1m", "closed"),
        ("a-program-with-quite-a-long-name", "online", "1h", ""),
    ],
)
def test_what_a_row_says(name: str, state: str, age: str, note: str) -> None:
    (row,) = (row for row in agent_rows(mesh(), NOW, offline=True) if row.name == name)
    assert (row.state, short_age(row.since, NOW), row.note) == (state, age, note)


def test_a_muting_that_is_over_is_not_told() -> None:
    (row,) = (row for row in agent_rows(mesh(), NOW + 3_001) if row.name == "erin")
    assert not row.muted
    assert "muted" not in row.note


def test_projects_of_the_same_name_are_told_apart() -> None:
    labels = project_labels(["/a/shop/.git", "/b/shop/.git", "/c/api", "", "/a/shop/.git"])
    assert labels == {"/a/shop/.git": "a/shop", "/b/shop/.git": "b/shop", "/c/api": "api", "": "no project"}


def test_agents_in_lines_are_those_on_file() -> None:
    model = mesh()

    def lines_at(width: int, signs: Signs) -> list[str]:
        rows = agent_rows(model, NOW, offline=True)
        return [
            header_line(model, 4, width=width, signs=signs),
            *agent_lines(rows, NOW, width=width, signs=signs),
        ]

    check("agents", lines_at)


# -- conversations ----------------------------------------------------------------------------------------


def talking() -> Model:
    model = mesh()
    say(model, 10, "a2", "a3", text="Could you look at the parser?")
    say(model, 11, "a3", "a2", text="It has a test.", re="m10")
    say(model, 12, "a1", "a3", text="Please also check the lexer.", to="bob")
    say(model, 13, "a5", "a2", "a3", "a6", text="Lexer is mine until 14:00.", to="broadcast")
    say(model, 14, "a5", "a3", text="built", to="#builds")
    say(model, 15, "a2", "a3", text="on the link", link="l4", to="link:l4")
    say(model, 16, "a2", "a3", text="so it does", re="m11")
    fold(
        model,
        FeedEvent(
            seq=17,
            at=NOW,
            type="messages_read",
            agent="a3",
            who="bob",
            ids=["m10", "m13"],
            detail={"evidence": "transcript"},
        ),
    )
    fold(model, FeedEvent(seq=18, at=NOW, type="message_answered", agent="a3", who="bob", ids=["m10"]))
    fold(model, FeedEvent(seq=19, at=NOW, type="messages_delivered", agent="a3", who="bob", ids=["m12"]))
    return model


def test_conversations_by_the_last_word() -> None:
    found = [(row.kind, row.title, row.messages, row.unread, row.last) for row in conversations(talking())]
    assert found == [
        ("pair", "alice ⇄ bob", 3, 2, "so it does"),
        ("link", "link:l4 alice, bob", 1, 1, "on the link"),
        ("topic", "#builds", 1, 1, "built"),
        ("several", "carol → several", 1, 1, "Lexer is mine until 14:00."),
        ("pair", "you ⇄ bob", 1, 1, "Please also check the lexer."),
    ]


def test_a_conversation_has_its_messages_and_a_thread_its_answers() -> None:
    model = talking()
    first = conversations(model)[0]
    assert [message.id for message in messages_of(model, first.key)] == ["m10", "m11", "m16"]
    for any_of_it in ("m10", "m11", "m16"):
        told = [(depth, message.id) for depth, message in thread_of(model, any_of_it)]
        assert told == [(0, "m10"), (1, "m11"), (2, "m16")]
    assert thread_of(model, "m99") == []


def test_messages_that_answer_each_other_in_a_circle_end() -> None:
    model = Model()
    for seq, re in ((1, "m2"), (2, "m1")):
        model.messages[f"m{seq}"] = Message(id=f"m{seq}", sender="a1", who="x", to="y", at=1.0, re=re)
    assert {message.id for _, message in thread_of(model, "m1")} == {"m1", "m2"}


@pytest.mark.parametrize(
    ("states", "word", "text", "in_ascii"),
    [
        (["pending"], "pending", "… pending", ". pending"),
        (["delivered"], "delivered", "✓ delivered", "> delivered"),
        (["read"], "read", "✓✓ read (transcript)", "= read (transcript)"),
        (["answered"], "answered", "↩ answered (transcript)", "< answered (transcript)"),
        (["expired"], "expired", "✕ expired", "x expired"),
        (["denied"], "denied", "✕ denied", "x denied"),
        (["read", "answered", "pending"], "pending", "✓✓ read 2 of 3", "= read 2 of 3"),
        (["delivered", "pending"], "pending", "✓ delivered 1 of 2", "> delivered 1 of 2"),
        (["expired", "expired"], "expired", "✕ expired 2 of 2", "x expired 2 of 2"),
        (["answered", "answered"], "answered", "✓✓ read 2 of 2", "= read 2 of 2"),
        ([], "", "", ""),
    ],
)
def test_receipts_in_words(states: list[str], word: str, text: str, in_ascii: str) -> None:
    known = {f"a{number}": state for number, state in enumerate(states)}
    message = Message(
        id="m1", sender="a1", who="x", to="y", at=1.0, states=known, evidence={"a0": "transcript"}
    )
    assert receipt_word(states) == word
    assert (receipt_text(message), receipt_text(message, signs=ASCII)) == (text, in_ascii)


def test_conversations_in_lines_are_those_on_file() -> None:
    model = talking()

    def lines_at(width: int, signs: Signs) -> list[str]:
        rows = [conversation_line(row, NOW, width=width, signs=signs) for row in conversations(model)]
        heads = [
            message_head(model, each, "12:03", width=width, signs=signs) for each in model.messages.values()
        ]
        return [*rows, *heads]

    check("talk", lines_at)


# -- the tree ---------------------------------------------------------------------------------------------


def test_children_stand_beneath_their_parents_with_their_paths() -> None:
    rows = [(row.depth, row.name, row.access, row.path) for row in tree_rows(mesh())]
    assert rows == [
        (0, "bob", "", ""),
        (1, "", "write", "/home/me/shop/src"),
        (0, "carol", "", ""),
        (1, "tester", "", ""),
        (2, "", "write", "/home/me/shop/tests"),
        (2, "", "read (not beneath)", "/home/me/shop/docs"),
    ]


def test_a_child_whose_parent_is_gone_stands_alone() -> None:
    model = mesh()
    fold(model, Rows(seq=10, children={"a6": ChildRow(parent="", status="stopping")}))
    assert [(row.depth, row.name, row.status) for row in tree_rows(model) if row.name] == [
        (0, "bob", ""),
        (0, "tester", "stopping"),
    ]


def test_the_tree_in_lines_is_that_on_file() -> None:
    model = mesh()
    detail = {"operation": "write", "code": "not_yours", "count": 4}
    fold(model, FeedEvent(seq=10, at=NOW, type="call_refused", agent="a6", detail=detail))
    check("tree", lambda width, signs: [tree_line(row, width=width, signs=signs) for row in tree_rows(model)])


# -- the timeline -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "seqs"),
    [
        (Filter(), [18, 17, 16, 15, 14, 13, 12, 11, 10]),
        (Filter(quiet=True), [19, 18, 17, 16, 15, 14, 13, 12, 11, 10]),
        (Filter(types=frozenset({"messages_delivered"})), [19]),
        (Filter(agents=frozenset({"a6"})), [13]),
        (Filter(link="l4"), [15]),
        (Filter(text="LEXER"), [13, 12]),
        (Filter(text="lexer", agents=frozenset({"a1"})), [12]),
    ],
)
def test_a_timeline_shows_what_is_asked_for_newest_first(wanted: Filter, seqs: list[int]) -> None:
    assert [event.seq for event in timeline_rows(talking(), wanted)] == seqs


def test_the_timeline_in_lines_is_that_on_file() -> None:
    rows = timeline_rows(talking(), Filter(quiet=True))
    check("timeline", lambda width, signs: [fit(event_line(row), width, signs) for row in rows])


# -- signs ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HUM-7", stage="console")
def test_every_sign_has_an_ascii_twin() -> None:
    for signs in (UNICODE, ASCII):
        assert set(signs.states) == set(STATE_WORDS)
        assert set(signs.receipts) == set(RECEIPT_WORDS)
    twins = [*ASCII.states.values(), *ASCII.receipts.values(), *(sign for sign in ASCII[2:])]
    assert all(str(sign).isascii() for sign in twins)


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [
        (0, "0s", "0 s"),
        (-5, "0s", "0 s"),
        (59, "59s", "59 s"),
        (60, "1m", "1 min"),
        (7_200, "2h", "2 h"),
        (99_000_000, "999d", "999 d"),
    ],
)
def test_ages(seconds: float, short: str, words: str) -> None:
    assert short_age(1.0, 1.0 + seconds) == short
    assert age_words(1.0, 1.0 + seconds) == words
    assert short_age(0.0, seconds) == age_words(0.0, seconds) == ""


def test_a_line_for_an_ascii_terminal_keeps_its_length() -> None:
    assert ascii_line("käse… ⚑") == "k?se. ?"
    assert ascii_line("plain") == "plain"


@pytest.mark.requirement("HUM-6", stage="console")
def test_what_agents_say_stays_text_in_every_row() -> None:
    hostile = f"\x1b[31m\u202e{FORGED[:60]}\n\u200b"
    model = mesh()
    fold(model, Rows(seq=10, agents={"a3": agent(hostile, hostile, hostile), "a6": agent(hostile)}))
    fold(
        model, Pulse(agent="a3", activity="waiting", wants=hostile, place=hostile, held=hostile, shut=hostile)
    )
    say(model, 11, "a3", "a6", text=hostile, to=hostile)
    rows = agent_rows(model, NOW)
    lines = agent_lines(rows, NOW, width=200)
    lines += [conversation_line(row, NOW, width=200) for row in conversations(model)]
    lines += [message_head(model, each, "12:03", width=200) for each in model.messages.values()]
    lines += [tree_line(row, width=200) for row in tree_rows(model)]
    assert any("\\u202e" in line for line in lines), "it is shown as an escape"
    for line in lines:
        assert not {"\x1b", "\n", "\u202e", "\u200b"} & set(line)
