"""What people and programs see, compared with stored samples: narrow, wide, foreign, in colour."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tellwire.cli.commands.setup.doctor import render_checks
from tellwire.cli.local.checks import Check
from tellwire.cli.render import (
    format_age,
    format_duration,
    render_agent,
    render_agents,
    render_error,
    render_inbox,
    render_json,
    render_sent,
    render_status,
)
from tellwire.cli.render_records import render_audit, render_event, render_history, render_verdict
from tellwire.cli.screen import Screen, as_sent
from tellwire.cli.shapes import whole_agents, whole_inbox, whole_sent
from tellwire.views.words import clean, clean_lines, cut, pad, width_of, wrap
from tests.surfaces.cli_world import check_golden

NOW = 1_760_000_000.0
PLAIN = Screen()
SCREENS = {
    "plain": PLAIN,
    "wide": Screen(100, colour=False, person=True),
    "narrow": Screen(40, colour=False, person=True),
    "colour": Screen(80, colour=True, person=True),
}

AGENTS: dict[str, Any] = {
    "agents": [
        {
            "id": "a1",
            "name": "alice",
            "kind": "claude",
            "status": "online",
            "connected_at": NOW - 5,
            "pending": 2,
        },
        {
            "id": "a2",
            "name": "bob-with-quite-a-long-name",
            "kind": "script",
            "status": "offline",
            "offline_reason": "left",
            "connected_at": NOW - 7_300,
            "capabilities": ["review", "日本語", "שלום", "evil\u202e\x1b[2J", "🎉"],
            "group": "/home/me/other",
        },
    ],
    "hidden": 3,
}
WOKEN: dict[str, Any] = {
    "agents": [
        {
            **AGENTS["agents"][0],
            "activity": "idle",
            "paths": [
                {"name": "mid-turn", "works": True, "last_at": NOW - 3_700},
                {"name": "waiter", "works": False, "note": "no waiter\x1b[2J is there", "wakes": True},
                {"name": "typing", "works": True, "last_at": NOW - 30, "wakes": True},
            ],
        },
        {
            **AGENTS["agents"][0],
            "name": "carol",
            "activity": "busy",
            "muted": True,
            "muted_until": NOW + 3_600,
            "paths": [{"name": "queue", "works": True, "wakes": True}],
        },
        {
            **AGENTS["agents"][0],
            "name": "dave",
            "activity": "waiting",
            "muted": False,
            "paths": [{"name": "typing", "works": False, "note": "it is not running in tmux", "wakes": True}],
        },
        {
            **AGENTS["agents"][0],
            "name": "erin",
            "deaf": True,
            "unreached": "no hook of its session has run",
            "paths": [{"name": "waiter", "works": False, "unproved": True, "note": "none", "wakes": True}],
        },
    ],
}
CHECKS = [
    Check(about="broker", words="0.1.0, pid 7, up 3 min"),
    Check(
        about="codex",
        level="warn",
        words="0.166.0, tellwire is incomplete",
        advice="Run `tellwire install`.",
    ),
    Check(
        about="alice",
        level="fail",
        words="evil\x1b[2J " + "long words " * 9,
        advice="Look at it.",
        code="timeout",
    ),
]
AGENT: dict[str, Any] = {
    **AGENTS["agents"][1],
    "metadata": {"model": "m\x07x"},
    "last_heartbeat": NOW - 90,
    "pending": 12,
    "reason": "self",
}
INBOX: dict[str, Any] = {
    "messages": [
        {"id": "m4f2k", "from": "alice", "to": "bob", "body": "Could you look?\n\tIndented.", "at": NOW - 61},
        {
            "id": "m4f2m",
            "from": "carol",
            "to": "#builds",
            "body": "长长的中文消息 with words that have to be broken at the end of a narrow line 🎉🎉"
            "\r\n\x1b]0;title\x07",
            "at": NOW - 100_000,
            "kind": "notification",
            "re": "m4f2a",
            "mode": "challenge",
            "repeat": True,
            "context": {"file": "parser.py"},
        },
        {"id": "m4f2n", "from": "dave", "to": "bob", "body": {"line": 12, "שם": ["a"]}, "at": NOW},
    ],
    "waiting": 7,
}
SENT: dict[str, dict[str, Any]] = {
    "received": {"id": "m1", "status": "received"},
    "queued": {"id": "m1", "status": "queued", "note": "`re` 'm0' is unknown; the message was sent anyway."},
    "unreached": {"id": "m1", "status": "queued", "why": "no hook of its session has run"},
    "several": {
        "id": "m1",
        "status": "sent",
        "recipients": [
            {"name": "nobody", "status": "denied", "note": "There is no agent named 'nobody'."},
            {"name": "bob", "status": "received"},
            {"name": "carol", "status": "queued"},
        ],
    },
    "none": {"status": "sent", "note": "No recipient was reached."},
}
STATUS: dict[str, Any] = {
    "id": "m4f2k",
    "sender": "alice",
    "to": "bob,carol",
    "at": NOW - 400,
    "recipients": [
        {"name": "bob", "state": "answered", "evidence": "reply", "at": NOW - 30},
        {"name": "carol", "state": "pending", "at": NOW - 400, "why": "busy in a turn for 6 min"},
    ],
}
HISTORY: list[dict[str, Any]] = [
    {
        **message,
        "recipients": [{"name": "bob", "state": state, "why": why}, {"name": "x", "state": "answered"}],
    }
    for message, state, why in zip(
        INBOX["messages"], ("read", "expired", "pending"), ("", "", "offline for 3 min"), strict=True
    )
]
AUDIT: list[dict[str, Any]] = [
    {"seq": 1, "at": NOW - 60, "type": "broker_started", "detail": {"version": "0.1.0"}},
    {
        "seq": 12,
        "at": NOW - 5,
        "type": "message_queued",
        "who": "alice",
        "whom": list("bcdef"),
        "detail": {"size": 3},
    },
]
EVENT: dict[str, Any] = {
    "seq": 12,
    "at": NOW,
    "type": "message_queued",
    "who": "alice",
    "whom": ["bob"],
    "text": "hi\x1b[31m 你好",
    "missed": 4,
}
PROVED: dict[str, Any] = {
    "commits": 3,
    "events": 9,
    "messages": 2,
    "begins": 4,
    "head": "ab" * 32,
    "findings": [],
    "unnamed": 0,
}
CUT = {"seq": 5, "kind": "cut", "text": "The commits between 4 and 9 are missing."}
VERDICTS: dict[str, dict[str, Any]] = {
    "proved": PROVED,
    "broken": {**PROVED, "findings": [CUT], "unnamed": 2},
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live feed shows the clock of the place."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("name", SCREENS)
def test_agents_are_shown_as_the_samples_tell(name: str) -> None:
    screen = SCREENS[name]
    texts = [
        render_agents(AGENTS, now=NOW, screen=screen),
        render_agents({"agents": [], "hidden": 1}, now=NOW, screen=screen),
        render_agents({}, now=NOW, screen=screen),
        render_agent(AGENT, now=NOW, screen=screen),
        render_agents(WOKEN, now=NOW, screen=screen),
        *(render_agent(agent, now=NOW, screen=screen) for agent in WOKEN["agents"][:2]),
        render_checks(CHECKS, screen),
    ]
    check_golden(f"agents.{name}.txt", as_sent("----\n".join(texts), is_terminal=False))


@pytest.mark.parametrize("name", SCREENS)
def test_messages_are_shown_as_the_samples_tell(name: str) -> None:
    screen = SCREENS[name]
    texts = [render_inbox(INBOX, now=NOW, screen=screen), render_inbox({}, now=NOW, screen=screen)]
    texts += [render_sent(sent, "bob", screen=screen) for sent in SENT.values()]
    texts += [render_status(STATUS, now=NOW, screen=screen)]
    texts += [render_error("No agent 'b\x1bob'.", "Did you mean bob?", screen)]
    check_golden(f"messages.{name}.txt", as_sent("----\n".join(texts), is_terminal=False))


@pytest.mark.parametrize("name", SCREENS)
def test_the_record_is_shown_as_the_samples_tell(name: str) -> None:
    screen = SCREENS[name]
    texts = [render_history(HISTORY, now=NOW, screen=screen), render_audit(AUDIT, now=NOW, screen=screen)]
    texts += [render_event(EVENT, screen=screen)]
    texts += [render_verdict(verdict, screen=screen) for verdict in VERDICTS.values()]
    check_golden(f"records.{name}.txt", as_sent("----\n".join(texts), is_terminal=False))


def test_documents_are_as_the_samples_tell() -> None:
    check_golden("agents.json", render_json(whole_agents(AGENTS)))
    check_golden("inbox.json", render_json(whole_inbox(INBOX)))
    check_golden("sent.json", "".join(render_json(whole_sent(sent)) for sent in SENT.values()))
    assert json.loads(render_json(whole_inbox(INBOX)))["messages"][2]["body"] == INBOX["messages"][2]["body"]


def test_a_thousand_agents_are_a_table_of_a_thousand_even_lines() -> None:
    agents = [
        {
            "id": f"a{number}",
            "name": f"agent-{number}",
            "kind": "script",
            "status": "online",
            "connected_at": NOW - number,
            "capabilities": ["名" * (number % 5)] if number % 5 else [],
        }
        for number in range(1_000)
    ]
    began = time.process_time()
    text = render_agents({"agents": agents}, now=NOW, screen=Screen(60))
    assert time.process_time() - began < 1.0
    lines = text.splitlines()
    assert len(lines) == 1_001
    assert all(width_of(line) <= 60 for line in lines)
    start = lines[0].index("CAN")
    assert all(len(line) <= start or line[start - 1] == " " for line in lines[1:])


@pytest.mark.parametrize("width", range(4, 100, 7))
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    screen = Screen(width)
    text = render_agents(AGENTS, now=NOW, screen=screen) + render_history(HISTORY, now=NOW, screen=screen)
    text += render_inbox(INBOX, now=NOW, screen=screen) + render_status(STATUS, now=NOW, screen=screen)
    least = 34  # what the columns that are never dropped take
    assert all(width_of(line) <= max(width, least) for line in text.splitlines())


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_foreign_text_cannot_steer_a_terminal(screen: Screen) -> None:
    evil = "".join(
        map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
    )
    evil += "\u061c\u200e\u200f\u2028\u2029\ufeff\U000e0041"
    message = {"id": "m1", "from": "a", "to": "b", "body": evil, "at": NOW, "context": evil}
    agents = {"agents": [{"id": "a", "name": "n", "kind": "k", "status": "online", "capabilities": [evil]}]}
    text = render_inbox({"messages": [message]}, now=NOW, screen=screen)
    text += render_agents(agents, now=NOW, screen=screen)
    text += render_history([{**message, "recipients": []}], now=NOW, screen=screen)
    text += render_error(evil, evil, screen)
    text = as_sent(text, is_terminal=False)
    for style in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"):
        text = text.replace(style, "")
    assert [sign for sign in text if not sign.isprintable() and sign != "\n"] == []


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("日本", 4), ("🎉", 2), ("e\u0301", 1), ("👩\u200d💻", 4), ("ｱ", 1), ("ａ", 2), ("", 0)],
)
def test_widths_are_those_of_a_terminal(text: str, width: int) -> None:
    assert width_of(text) == width
    assert width_of(pad(text, 9)) == 9


def test_text_is_cut_and_broken_by_columns_not_characters() -> None:
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 4) == "日…"
    assert cut("abc", 3) == "abc"
    assert cut("abc", 1) == "…"
    assert wrap(["日本語日本語日本語"], indent="  ", width=10) == ["  日本語日", "  本語日本", "  語"]
    assert wrap(["a  b"], indent="", width=None) == ["a  b"]
    assert clean_lines("a\tb\r\nc") == ["a    b", "c"]
    assert clean("a\n b\u200d\ufe0f") == "a b"
    assert clean("e" + "\u0301" * 20) == "e" + "\u0301" * 4


@pytest.mark.parametrize(
    ("seconds", "age", "duration"),
    [(-5, "now", "0 s"), (0.4, "now", "0 s"), (59, "59 s ago", "59 s"), (3_700, "1 h ago", "1 h 1 min"),
     (90_000, "1 d ago", "1 d 1 h"), (200, "3 min ago", "3 min 20 s")],
)  # fmt: skip
def test_times_are_told_in_their_largest_units(seconds: float, age: str, duration: str) -> None:
    assert format_age(seconds) == age
    assert format_duration(max(0.0, seconds)) == duration
