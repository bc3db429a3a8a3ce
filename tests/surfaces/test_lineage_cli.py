"""Peers, scopes and policies through the command line, at a terminal and as a script, with a real broker."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tellwire.cli.commands.scopes import render_scopes
from tellwire.cli.screen import Screen
from tellwire.protocol.operations.scopes import ClaimRecord, ScopeRecord
from tests.integration.world import Home, Join
from tests.surfaces.cli_world import Done, run, run_at_terminal


def told(done: Done) -> Any:
    assert done.code == 0, done
    return json.loads(done.out)


@pytest.fixture
def place(home: Home, tmp_path: Path) -> Path:
    """A folder with something in it, a link to it, and three agents that know each other."""
    home.up()
    for name in ("alice", "bob", "carol"):
        run(home, "register", name)
    (tmp_path / "real" / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return tmp_path


# -- peers --------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEER-1", "PEER-7", stage="lineage")
def test_the_operator_makes_two_agents_peers_and_parts_them(home: Home, place: Path) -> None:
    shown = run_at_terminal(home, "peer", "add", "alice", "bob")
    assert shown.code == 0, shown
    assert "bob" in shown.out
    assert [peer["name"] for peer in told(run(home, "peer", "list", "bob", "--json"))["peers"]] == ["alice"]
    again = json.loads(run_at_terminal(home, "peer", "add", "bob", "alice", "--json").out)
    assert again["changed"] is False
    assert run_at_terminal(home, "peer", "remove", "bob", "alice").out == "bob has no peers.\n"
    assert told(run(home, "peer", "list", "alice", "--json"))["peers"] == []


@pytest.mark.requirement("PEER-1", "PEER-2", stage="lineage")
def test_an_agent_without_a_client_is_spoken_for(home: Home, place: Path) -> None:
    assert told(run(home, "peer", "add", "bob", "--as", "alice", "--json"))["changed"] is True
    assert told(run(home, "peer", "list", "--as", "bob", "--json"))["peers"][0]["name"] == "alice"
    for words, code in (
        (("alice", "--as", "alice"), 64),
        (("zoe", "--as", "alice"), 68),
        (("alice", "bob"), 77),
        (("alice", "bob", "--as", "carol"), 64),
        (("alice",), 64),
    ):
        assert run(home, "peer", "add", *words).code == code, words


@pytest.mark.requirement("PEER-7", stage="lineage")
def test_a_project_is_closed_and_opened_at_a_terminal_only(home: Home, place: Path) -> None:
    assert told(run(home, "policy", "--json"))["policy"] == "open"
    refused = run(home, "policy", "peers")
    assert refused.code == 77
    assert "operator" in refused.err
    assert "is now peers" in run_at_terminal(home, "policy", "peers").out
    sent = run(home, "send", "bob", "hi", "--as", "alice")
    assert sent.code != 0
    assert "not visible" in sent.out + sent.err
    assert run_at_terminal(home, "peer", "add", "alice", "bob").code == 0
    assert run(home, "send", "bob", "hi", "--as", "alice").code == 0
    home.signal(signal.SIGKILL)
    home.up()
    assert told(run(home, "policy", "--json"))["policy"] == "peers", "it lasts"
    assert "is now open" in run_at_terminal(home, "policy", "open").out
    elsewhere = told(run(home, "policy", "--project", str(place), "--json"))
    assert (elsewhere["group"], elsewhere["policy"]) == (os.path.realpath(place), "open")


# -- scopes -------------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_claim_by_any_spelling_of_a_path_is_one_claim(home: Home, place: Path) -> None:
    claimed = told(run(home, "claim", str(place / "link" / "src"), "--as", "alice", "--json"))
    real = os.path.realpath(place / "real" / "src")
    assert [rule["path"] for rule in claimed["rules"]] == [real]
    for spelling in ("real/src", "link/../real/src/./new/file.py", "real//src/", "link/src/not/there"):
        path = str(place) + "/" + spelling
        refused = run(home, "claim", path, "--as", "bob")
        assert refused.code == 75, refused
        assert "'alice' holds write" in refused.err
        owned = run(home, "who-owns", path, "--as", "bob", "--json")
        assert owned.code == 1
        assert json.loads(owned.out)["owner"] == "alice"
    assert run(home, "who-owns", str(place / "real"), "--as", "bob").code == 0
    assert run(home, "who-owns", str(place / "real" / "src")).code == 0, "a person may"
    assert told(run(home, "release", str(place / "link" / "src"), "--as", "alice", "--json"))["changed"]
    assert told(run(home, "claim", real, "--as", "bob", "--for", "30min", "--json"))["changed"]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_claims_outlive_the_broker_and_are_shown_as_a_tree(home: Home, place: Path) -> None:
    run(home, "claim", str(place / "real"), "--as", "alice", "--for", "2h")
    run(home, "claim", str(place / "other"), "--read", "--flat", "--as", "bob")
    home.signal(signal.SIGKILL)
    home.up()
    shown = run(home, "scopes")
    assert shown.code == 0, shown
    lines = shown.out.splitlines()
    assert lines[0] == "alice  (offline, advisory: no hook of its client has run yet)"
    assert re.fullmatch(r"  write \S+/real  for 1 h 59 min", lines[1]), lines[1]
    assert re.fullmatch(r"  read  \S+/other \(not beneath\)  for 3 h 59 min", lines[3]), lines[3]
    records = told(run(home, "scopes", "--json"))["scopes"]
    assert [record["name"] for record in records] == ["alice", "bob"]
    assert run(home, "release", "--as", "alice").out == "alice holds no claims.\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("claim", "--as", "alice"), 64),
        (("claim", "/x", "--for", "0", "--as", "alice"), 64),
        (("claim", "/x", "--for", "nonsense", "--as", "alice"), 64),
        (("claim", "/x"), 64),
        (("claim", "", "--as", "alice"), 64),
        (("who-owns",), 64),
        (("policy", "closed"), 64),
    ],
)
def test_bad_words_are_told_with_an_exit_code(
    home: Home, place: Path, words: tuple[str, ...], code: int
) -> None:
    assert run(home, *words).code == code


def test_no_family_is_told_as_such(home: Home, place: Path) -> None:
    assert run(home, "children").out == "No agent has started a child.\n"
    assert told(run(home, "children", "--json")) == {"children": [], "ended": []}
    assert run(home, "scopes").out == "Nobody has claimed anything.\n"


def test_a_tree_fits_a_narrow_screen_and_cannot_be_steered() -> None:
    rule = ClaimRecord(path="/p/\x1b[31m" + "long" * 20, access="write", recursive=False)
    scopes = [
        ScopeRecord(name="alice", status="online", enforced="advisory"),
        ScopeRecord(
            name="kid", parent="alice", scoped=True, status="online", enforced="advisory", rules=[rule]
        ),
        ScopeRecord(name="baby", parent="kid", status="offline"),
    ]
    text = render_scopes(scopes, Screen(30))
    lines = text.splitlines()
    assert [line.partition(" (")[0].rstrip() for line in lines if "(o" in line] == [
        "alice",
        "  kid",
        "    baby",
    ]
    assert all(len(line) <= 30 for line in lines)
    assert "\x1b" not in text


async def test_the_sdk_and_the_command_line_claim_alike(home: Home, join: Join, place: Path) -> None:
    real = (place / "real").resolve()
    alice = await join("ann")
    await alice.pairs.add("bob")
    assert [peer.name for peer in await alice.pairs.all()] == ["bob"]
    rules = await alice.scopes.claim([str(place / "link" / "x" / ".." / "src")])
    assert [rule.path for rule in rules] == [f"{real}/src"]
    shown = run(home, "who-owns", f"{real}/src/a")
    assert shown.out.startswith(f"{real}/src/a: ann (write {real}/src"), shown
    assert (await alice.scopes.who_owns(f"{real}/src")).reason == "It is yours."
    assert [scope.name for scope in await alice.scopes.all()] == ["ann"]
    assert await alice.scopes.release() == []
    assert (await alice.pairs.send("bob", "hi")).status == "queued"
    assert (await alice.pairs.policy()).policy == "open"
    assert await alice.children.all() == []
