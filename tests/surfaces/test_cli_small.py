"""Nothing empty is sent, nobody is made by mistake, days have names, and 80 columns are enough."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click
import pytest

from tellwire.cli.options import Moment
from tellwire.cli.render import render_agents
from tellwire.cli.render_records import render_history
from tellwire.cli.screen import Screen
from tellwire.protocol.errors import TellwireError
from tests.integration.world import Home, Join
from tests.surfaces.cli_world import run

NARROW = Screen(80, person=True)
LONG = "a-project-with-a-rather-long-name-claude-12"
NOW = 1_760_000_000.0


# -- empty messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["send", "bob", ""], ""),
        (["send", "bob", "  \n\t"], ""),
        (["send", "bob", "-"], ""),
        (["send", "bob", "-"], "\n"),
        (["send", "bob"], "  \n"),
        (["send", "bob,carol", ""], ""),
        (["send", "#topic", ""], ""),
        (["broadcast", ""], ""),
        (["broadcast"], "\n"),
    ],
)
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "click"])
def test_an_empty_message_is_refused_in_every_form(
    home: Home, words: list[str], stdin: str, *, slow: bool
) -> None:
    home.up()
    for name in ("bob", "carol"):
        assert run(home, "register", name).code == 0
    done = run(home, *words, "--as", "alice", stdin=stdin, click=slow)
    assert (done.code, "empty" in done.err) == (64, True), done
    assert json.loads(run(home, "inbox", "--as", "bob", "--peek", "--json").out)["messages"] == []


@pytest.mark.parametrize("body", ["", " \u2003\n", None, {}, []])
async def test_programs_cannot_send_nothing_either(join: Join, body: Any) -> None:
    alice, _ = await join("alice"), await join("bob")
    with pytest.raises(TellwireError, match="empty") as refused:
        await alice.send("bob", body)
    assert refused.value.code == "bad_request"
    assert (await alice.send("bob", "{}")).id, "a text may be anything"


# -- nobody by mistake --------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--wait", "1s"], ["--peek"], ["--json"]])
def test_a_mistyped_name_is_refused_and_makes_no_agent(home: Home, words: list[str]) -> None:
    home.up()
    assert run(home, "register", "reviewer").code == 0
    done = run(home, "inbox", "--as", "reveiwer", *words)
    assert done.code == 68, done
    if "--peek" not in words:
        assert "Did you mean reviewer? For a new agent: `tellwire register reveiwer`." in done.err
    agents = json.loads(run(home, "list", "--all", "--json").out)["agents"]
    assert [agent["name"] for agent in agents] == ["reviewer"]


def test_only_waiting_makes_a_new_agent_and_says_so(home: Home) -> None:
    home.up()
    assert run(home, "inbox", "--as", "bob").code == 68
    done = run(home, "inbox", "--as", "bob", "--wait", "0.1s")
    assert (done.code, "bob is new here" in done.err) == (0, True)


# -- days by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("today", datetime(2026, 3, 4)),
        ("Yesterday", datetime(2026, 3, 3)),
        ("monday", datetime(2026, 3, 2)),
        ("wednesday", datetime(2026, 3, 4)),
        ("thursday", datetime(2026, 2, 26)),
        ("14:30", datetime(2026, 3, 4, 14, 30)),
        ("2026-03-01", datetime(2026, 3, 1)),
    ],
)
def test_a_moment_may_be_a_day_by_its_name(
    monkeypatch: pytest.MonkeyPatch, word: str, expected: datetime
) -> None:
    class Clock(datetime):
        """A Wednesday."""

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            del tz
            return datetime(2026, 3, 4, 15, 0)

    monkeypatch.setattr("tellwire.cli.options.datetime", Clock)
    assert Moment().convert(word, None, None) == expected.timestamp()


def test_a_moment_that_is_none_is_refused_with_examples(home: Home) -> None:
    with pytest.raises(click.BadParameter, match="yesterday"):
        Moment().convert("somewhen", None, None)
    assert abs(Moment().convert("2h", None, None) - (time.time() - 7_200)) < 60
    home.up()
    assert run(home, "history", "--since", "yesterday", "--as", "bob").code in (0, 68)


# -- eighty columns -----------------------------------------------------------------------------------


def test_a_long_name_does_not_push_out_what_matters() -> None:
    agent: dict[str, Any] = {
        "id": "a1",
        "name": LONG,
        "kind": "claude-code",
        "status": "online",
        "activity": "idle",
        "connected_at": NOW - 700,
        "pending": 3,
        "paths": [{"name": "typing", "works": False, "wakes": True}],
    }
    shown = render_agents({"agents": [agent, {**agent, "name": "bob"}]}, now=NOW, screen=NARROW)
    heading, first, *_ = shown.splitlines()
    assert heading.split() == ["NAME", "STATUS", "WAKE", "WAITING"]
    assert max(map(len, shown.splitlines())) <= 80
    assert first.startswith(LONG[:32])
    assert "not wakeable" in first


def test_history_keeps_when_and_state_with_long_names() -> None:
    message = {
        "id": "m4f2k",
        "from": LONG,
        "to": f"{LONG}-too",
        "at": NOW - 4_000,
        "body": "A text that is longer than what is left of the line, as most texts are.",
        "recipients": [{"name": LONG, "state": "delivered"}],
    }
    shown = render_history([message], now=NOW, screen=NARROW)
    assert shown.splitlines()[0].split() == ["ID", "WHEN", "FROM", "TO", "STATE", "BODY"]
    assert max(map(len, shown.splitlines())) <= 80
    assert "delivered" in shown
    assert "A text that" in shown
