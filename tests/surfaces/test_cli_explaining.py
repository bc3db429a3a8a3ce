"""`why` and `thread`: what a person is told about one message."""

from __future__ import annotations

import json

import pytest

from tests.integration.world import Home, Join
from tests.surfaces.cli_world import run, run_at_terminal
from tests.surfaces.mcp_client import FORGED


@pytest.mark.requirement("HUM-4", stage="console")
async def test_why_names_what_a_message_waits_for_and_what_comes_next(home: Home, join: Join) -> None:
    alice = await join("alice")
    run(home, "register", "bob")
    sent = await alice.send("bob", "Is the parser done?")
    told = run(home, "why", sent.id)
    assert told.code == 0, told
    for words in (sent.id, "alice → bob", "bob: pending", "stored", "waits:", "next:", "It expires in"):
        assert words in told.out, told.out
    (each,) = json.loads(run(home, "why", sent.id, "--json").out)["recipients"]
    assert (each["gate"], each["state"]) == ("offline", "pending")
    run(home, "inbox", "--as", "bob")
    told = run(home, "why", sent.id)
    assert "bob: read" in told.out
    assert "Nothing: it was read." in told.out
    assert (await alice.why(sent.id)).recipients[0].steps[-1].what == "offline"


@pytest.mark.requirement("HUM-6", stage="console")
async def test_thread_shows_answers_below_what_they_answer_and_foreign_text_is_harmless(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    asked = await alice.send("bob", FORGED)
    (message,) = await bob.messages(wait_s=10)
    answer = await bob.send("alice", "It is.", re=message.id)
    for words in (("thread", answer.id), ("why", asked.id)):
        shown = run_at_terminal(home, *words, columns=60).out
        assert asked.id in shown
        assert "\x1b[2J" not in shown
        assert "\u202e" not in shown
    lines = run(home, "thread", answer.id).out.splitlines()
    assert f"  {answer.id}  bob → alice" in next(line for line in lines if answer.id in line)
    assert "    It is." in lines
    told = json.loads(run(home, "thread", asked.id, "--json").out)
    assert [each["id"] for each in told["messages"]] == [asked.id, answer.id]


def test_an_unknown_id_says_how_to_find_one(home: Home) -> None:
    home.up()
    for command in ("why", "thread"):
        for word in ("m0", "nonsense"):
            done = run(home, command, word)
            assert done.code == 68, done
            assert "tellwire history" in done.err
