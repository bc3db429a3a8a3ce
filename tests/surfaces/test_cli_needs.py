"""What waits for the person at the terminal: `needs`, `answer`, several terminals at once, and one line."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.world import Home, Join, Raw, tellwire_command, until
from tests.surfaces.cli_world import Done, environment, run, run_at_terminal, run_program_at_terminal

WAITS = "for you: tellwire needs"


async def at_terminal(home: Home, *words: str, **options: Any) -> Done:
    """A command at a terminal of its own, while the test goes on."""
    return await asyncio.to_thread(lambda: run_at_terminal(home, *words, **options))


def needs(home: Home) -> list[dict[str, Any]]:
    return json.loads(run(home, "needs", "--json").out)["needs"]


@pytest.mark.requirement("HUM-1", stage="console")
async def test_an_agent_asks_and_the_answer_comes_as_a_message(home: Home, join: Join) -> None:
    alice = await join("alice")
    sent = await alice.send("operator", "Delete the build folder?", choices=["yes", "not now"])
    assert sent.status == "received"
    shown = await at_terminal(home, "needs")
    for words in (
        sent.id,
        "alice",
        "Delete the build folder?",
        "yes, not now",
        f"tellwire answer {sent.id} yes",
    ):
        assert words in shown.out, shown.out
    wrong = await at_terminal(home, "answer", sent.id, "perhaps")
    assert (wrong.code, "yes, not now" in wrong.out) == (64, True)
    done = await at_terminal(home, "answer", sent.id, "not", "now")
    assert done.code == 0, done
    (message,) = await alice.messages(wait_s=10)
    assert (message.sender, message.body, message.re) == ("operator", "not now", sent.id)
    again = await at_terminal(home, "answer", sent.id, "yes")
    assert again.code == 65
    assert 'with "not now"' in again.out.replace("\n", " ")
    assert "Nothing waits for you." in (await at_terminal(home, "needs")).out
    assert not await alice.messages()


async def test_what_cannot_be_answered_is_explained(home: Home, join: Join) -> None:
    alice = await join("alice")
    sent = await alice.send("operator", "Hello")
    unknown = await at_terminal(home, "answer", f"{sent.id}0", "yes", "--json")
    assert (unknown.code, sent.id in json.loads(unknown.out)["error"]["advice"]) == (68, True)
    assert (await at_terminal(home, "answer", sent.id, "any text")).code == 0
    assert run(home, "answer", sent.id, "yes").code == 77, "a script is no person"


async def test_glance_tells_in_one_line_and_by_its_exit_code_what_needs_you(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    calm = run(home, "glance")
    assert (calm.code, calm.out) == (0, "nothing needs you, 2 online\n")
    await alice.report_activity("busy")
    await bob.report_activity("waiting", wants="the key")
    await until(lambda: run(home, "glance").out == "1 agent waits for you, 1 busy\n", what="one waits")
    assert run(home, "glance").code == 1
    await alice.send("operator", "May I?", choices=["yes"])
    await alice.send("operator", "news")
    await bob.report_activity("errored")
    line = "2 messages need you, 1 agent failed, 1 busy\n"
    await until(lambda: run(home, "glance").out == line, what="all of it")
    counts = json.loads(run(home, "glance", "--json").out)
    assert counts.pop("oldest_at") > 0
    assert counts == {"needs": 2, "waiting": 0, "errored": 1, "busy": 1, "idle": 0, "online": 2}
    for slow in (False, True):
        told = run(home, "glance", "--tmux", click=slow)
        assert told.out == "#[fg=yellow]⚑2#[default] #[fg=red]✕1#[default] ●1\n"
        assert told.code == 1
    assert len(needs(home)) == 2, "to look marks nothing as read"


def test_glance_starts_no_broker(home: Home) -> None:
    for words, out in ((("glance",), ""), (("glance", "--tmux"), "tellwire is not running\n")):
        done = run(home, *words)
        assert (done.code, done.out) == (69, out), done
    assert "error" in json.loads(run(home, "glance", "--json").err)
    assert not home.settings.socket.exists()


@pytest.mark.requirement("SEC-1")
async def test_beneath_an_agent_nothing_is_answered_and_it_is_on_record(home: Home, join: Join) -> None:
    alice = await join("alice")
    sent = await alice.send("operator", "May I?", choices=["yes"])
    program = (
        "import tellwire, subprocess\n"
        "with tellwire.connect_sync('claude', kind='agent-cli'):\n"
        f"    for words in (['answer', {sent.id!r}, 'yes'], ['needs'], ['glance'], ['list']):\n"
        f"        print(subprocess.run([{tellwire_command()[0]!r}, *words]).returncode, flush=True)\n"
    )
    done = run_program_at_terminal(home, [sys.executable, "-c", program])
    assert [line for line in done.out.splitlines() if line.isdigit()] == ["77", "77", "77", "0"], done.out
    assert WAITS not in done.out
    await until(lambda: "answer_message" in run_at_terminal(home, "audit", "--json").out, what="the audit")
    assert not await alice.messages()


@pytest.mark.requirement("HUM-1", stage="console")
async def test_two_terminals_see_the_same_mail_and_one_reading_is_enough(home: Home, join: Join) -> None:
    alice = await join("alice")
    waiting = [asyncio.ensure_future(at_terminal(home, "inbox", "--wait", "30")) for _ in range(2)]
    await until(lambda: _connections(home, 4), what="both wait")
    sent = await alice.send("operator", "for both")
    for shown in await asyncio.gather(*waiting):
        assert "for both" in shown.out
    status = await alice.status(sent.id)
    assert (status.recipients[0].state, status.recipients[0].evidence) == ("read", "seen:cli")
    assert "No messages." in (await at_terminal(home, "inbox")).out


@pytest.mark.requirement("HUM-1", stage="console")
async def test_a_terminal_that_waits_for_a_reply_takes_nothing_from_another(home: Home, join: Join) -> None:
    bob = await join("bob")
    first = asyncio.ensure_future(at_terminal(home, "send", "bob", "one", "--wait", "30"))
    (one,) = await bob.messages(wait_s=10)
    second = asyncio.ensure_future(at_terminal(home, "send", "bob", "two", "--wait", "30"))
    (two,) = await bob.messages(wait_s=10)
    await bob.send("operator", "something else")
    assert "something else" in (await at_terminal(home, "inbox", "--peek")).out
    await bob.send("operator", "reply to two", re=two.id)
    assert "reply to two" in (await second).out
    await bob.send("operator", "reply to one", re=one.id)
    shown = (await first).out
    assert "reply to one" in shown
    assert "something else" not in shown
    assert "something else" in (await at_terminal(home, "inbox")).out


@pytest.mark.requirement("HUM-1", stage="console")
async def test_nothing_is_lost_when_the_broker_dies_before_it_is_read(home: Home, join: Join) -> None:
    alice = await join("alice")
    asked = await alice.send("operator", "Go on?", choices=["yes", "no"])
    told = await alice.send("operator", "news")
    home.signal(signal.SIGKILL)
    await until(lambda: len(needs(home)) == 2, what="a new broker")
    assert [need["id"] for need in needs(home)] == [asked.id, told.id]
    assert "news" in (await at_terminal(home, "inbox")).out
    home.signal(signal.SIGKILL)
    await until(lambda: [need["id"] for need in needs(home)] == [asked.id], what="only the question is open")
    assert (await at_terminal(home, "answer", asked.id, "yes")).code == 0
    (message,) = await alice.messages(wait_s=15)
    assert (message.body, message.re) == ("yes", asked.id)


# -- the line on stderr -----------------------------------------------------------------------------------


async def test_every_command_at_a_terminal_says_that_mail_waits(home: Home, join: Join) -> None:
    alice = await join("alice")
    assert WAITS not in (await at_terminal(home, "list")).out
    await alice.send("operator", "first")
    assert f"1 message waits {WAITS}" in (await at_terminal(home, "list")).out
    await alice.send("operator", "second")
    for words in (["list"], ["send", "alice", "x"], ["status"], ["info", "alice"], ["info", "nobody"]):
        shown = (await at_terminal(home, *words)).out
        assert shown.count(f"2 messages wait {WAITS}") == 1, (words, shown)
    for words in (["list", "--json"], ["needs"], ["inbox", "--peek"], ["status", "--json"]):
        assert WAITS not in (await at_terminal(home, *words)).out, words
    assert WAITS not in run(home, "list").err


@pytest.mark.parametrize("redirect", ["| cat", "2>/dev/null | cat", "> /dev/null"])
async def test_the_line_is_not_for_pipes(home: Home, join: Join, redirect: str) -> None:
    alice = await join("alice")
    await alice.send("operator", "first")
    program = ["/bin/sh", "-c", f"{tellwire_command()[0]} list {redirect}"]
    assert WAITS not in (await asyncio.to_thread(run_program_at_terminal, home, program)).out


async def test_the_count_costs_no_call_of_its_own_and_is_for_persons(home: Home, join: Join) -> None:
    alice = await join("alice")
    await alice.send("operator", "first")
    raw = await Raw.open(home)
    await raw.write(b'{"n":1,"do":{"op":"list_agents"}}\n')
    assert "unread" not in await raw.frame(), "this test is no person"
    await raw.close()
    program = (
        "import os, socket\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({str(home.settings.socket)!r})\n"
        's.sendall(b\'{"tellwire":1}\\n{"n":1,"do":{"op":"list_agents"}}\\n\')\n'
        "f = s.makefile('rb'); f.readline(); print(f.readline().decode())\n"
    )
    done = await asyncio.to_thread(run_program_at_terminal, home, [sys.executable, "-c", program])
    assert json.loads(done.out)["unread"] == 1


async def test_one_connection_of_a_person_keeps_its_rights_when_it_has_spoken(home: Home, join: Join) -> None:
    await join("alice")
    calls = [
        {"op": "register_agent", "name": "operator", "session": "s"},
        {"op": "watch_feed"},
        {"op": "send_message", "to": "alice", "body": "x"},
        {"op": "mute_agent", "name": "alice"},
        {"op": "read_audit", "limit": 1},
    ]
    lines = "".join(json.dumps({"n": n, "do": call}) + "\n" for n, call in enumerate(calls, 1))
    program = (
        "import json, socket\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({str(home.settings.socket)!r})\n"
        f"s.sendall(b'{{\"tellwire\":1}}\\n' + {lines.encode()!r})\n"
        "f = s.makefile('rb'); f.readline()\n"
        f"answers = 0\nwhile answers < {len(calls)}:\n"
        "    frame = json.loads(f.readline())\n"
        "    if 'n' in frame:\n        answers += 1; print('ok' in frame, flush=True)\n"
    )
    done = await asyncio.to_thread(run_program_at_terminal, home, [sys.executable, "-c", program])
    assert done.out.split() == ["True"] * len(calls)


async def _connections(home: Home, count: int) -> bool:
    return int(home.status()["connections"]) >= count


def test_completion_knows_what_waits(home: Home) -> None:
    run(home, "register", "alice")
    sent = json.loads(
        run(home, "send", "operator", "x", "--as", "alice", "--choice", "yes", "--choice", "no", "--json").out
    )
    for words, wanted in (("tellwire answer m", sent["id"]), (f"tellwire answer {sent['id']} y", "yes")):
        variables = {
            **environment(home),
            "_TELLWIRE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        done = subprocess.run(
            tellwire_command(), env=variables, capture_output=True, text=True, check=False, timeout=60
        )
        assert wanted in done.stdout, done
