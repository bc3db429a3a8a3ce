"""Who speaks from the command line, what a command takes and leaves, waiting, stdin, and the terminal."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

import tellwire
from tests.integration.world import ROOT, WITHIN_S, Home, Join, tellwire_command, until
from tests.surfaces.cli_world import Done, environment, run, run_at_terminal


async def start(home: Home, *words: str) -> asyncio.subprocess.Process:
    """A command that goes on while the test does something else."""
    return await asyncio.create_subprocess_exec(
        *tellwire_command(*words),
        env=environment(home),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


async def finish(child: asyncio.subprocess.Process) -> Done:
    try:
        async with asyncio.timeout(WITHIN_S):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return Done(child.returncode or 0, out.decode(), err.decode())


# -- who speaks -------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1")
def test_a_script_without_a_name_is_told_to_give_one(home: Home) -> None:
    run(home, "register", "bob")
    for words in (("send", "bob", "x"), ("inbox",), ("subscribe", "#t"), ("broadcast", "x")):
        done = run(home, *words)
        assert (done.code, done.out) == (64, "")
        assert "--as NAME" in done.err


async def test_at_a_terminal_it_is_the_operator_who_speaks(home: Home, join: Join) -> None:
    bob = await join("bob")
    shown = run_at_terminal(home, "send", "bob", "hello")
    assert shown.code == 0, shown
    (message,) = await bob.messages(wait_s=5)
    assert (message.sender, message.body) == ("operator", "hello")
    await bob.confirm([message])
    await bob.send("operator", "answer", re=message.id)
    mail = run_at_terminal(home, "inbox")
    assert (mail.code, "answer" in mail.out, f"re {message.id}" in mail.out) == (0, True, True)
    assert "No messages." in run_at_terminal(home, "inbox").out
    assert "answered" in run_at_terminal(home, "message-status", message.id).out
    assert (await bob.peer("operator")).status == "online", "a person can always be written to"


async def _is_online(me: tellwire.Agent, name: str) -> bool:
    return any(peer.name == name and peer.status == "online" for peer in await me.peers(all=True))


@pytest.mark.requirement("SEC-1")
async def test_beneath_an_agent_a_command_speaks_as_that_agent_only(home: Home, join: Join) -> None:
    bob = await join("bob")
    home.tellwire("register", "other")
    program = (
        "import tellwire, subprocess, sys\n"
        "with tellwire.connect_sync('claude', kind='agent-cli'):\n"
        "    for words in (('send', 'bob', 'mine'), ('send', 'bob', 'named', '--as', 'claude'),\n"
        "                  ('send', 'bob', 'forged', '--as', 'other'), ('inbox', '--as', 'bob'),\n"
        "                  ('send', 'bob', 'x', '--wait', '1'), ('inbox',)):\n"
        f"        done = subprocess.run([{tellwire_command()[0]!r}, *words], stdin=subprocess.DEVNULL,\n"
        "                              capture_output=True, text=True)\n"
        "        print(done.returncode, done.stdout.strip(), done.stderr.strip(), sep='|', flush=True)\n"
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    done = await finish(child)
    mine, named, forged, foreign, waiting, own = [
        line.split("|") for line in done.out.splitlines() if "|" in line
    ]
    assert (mine[0], named[0]) == ("0", "0"), done
    assert (forged[0], foreign[0], waiting[0]) == ("77", "77", "77"), done
    assert "'claude'" in forged[2]
    assert (own[0], "nothing was taken" in own[2]) == ("0", True)
    messages = await bob.messages(wait_s=5)
    assert [(message.sender, message.body) for message in messages] == [
        ("claude", "mine"),
        ("claude", "named"),
    ]


def test_registering_again_keeps_the_mail_and_what_was_announced(home: Home) -> None:
    first = json.loads(run(home, "register", "bob", "--capability", "review", "--json").out)
    assert (first["resumed"], first["capabilities"]) == (False, ["review"])
    run(home, "send", "bob", "kept", "--as", "alice")
    run(home, "subscribe", "#t", "--as", "bob")
    again = json.loads(run(home, "register", "bob", "--json").out)
    assert (again["resumed"], again["capabilities"], again["pending"]) == (True, ["review"], 1)
    assert "1 message unread" in run(home, "register", "bob").out


# -- taking mail ------------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-5", stage="shell")
def test_peeking_takes_nothing_and_taking_confirms_once(home: Home) -> None:
    run(home, "register", "bob")
    sent = json.loads(run(home, "send", "bob", "hi", "--as", "alice", "--json").out)["id"]
    for _ in range(2):
        peeked = json.loads(run(home, "inbox", "--as", "bob", "--peek", "--json").out)
        assert [message["id"] for message in peeked["messages"]] == [sent]
    status = ("message-status", sent, "--as", "alice", "--json")
    assert json.loads(run(home, *status).out)["recipients"][0]["state"] == "pending"
    assert [
        each["id"] for each in json.loads(run(home, "inbox", "--as", "bob", "--json").out)["messages"]
    ] == [sent]
    told = json.loads(run(home, *status).out)["recipients"][0]
    assert (told["state"], told["evidence"]) == ("read", "confirm")
    assert run(home, "inbox", "--as", "bob").out == "No messages.\n"


@pytest.mark.parametrize("extra", [(), ("--wait", "1")], ids=["fast", "click"])
def test_what_could_not_be_written_is_not_confirmed(home: Home, extra: tuple[str, ...]) -> None:
    run(home, "register", "bob")
    run(home, "send", "bob", "precious", "--as", "alice")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            tellwire_command("inbox", "--as", "bob", *extra),
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=WITHIN_S,
            check=False,
            start_new_session=True,
        )
    assert done.returncode == 74, done.stderr
    assert b"Traceback" not in done.stderr
    again = json.loads(run(home, "inbox", "--as", "bob", "--json").out)["messages"]
    assert [(message["body"], message["repeat"]) for message in again] == [("precious", True)]


async def test_more_than_a_window_comes_in_several_calls(home: Home, join: Join) -> None:
    run(home, "register", "bob")
    alice = await join("alice")
    await asyncio.gather(*(alice.send("bob", number) for number in range(150)))
    first = json.loads(run(home, "inbox", "--as", "bob", "--json").out)
    second = json.loads(run(home, "inbox", "--as", "bob", "--json").out)
    assert (len(first["messages"]), first["waiting"], second["waiting"]) == (128, 22, 0)
    assert [message["body"] for message in first["messages"] + second["messages"]] == list(range(150))


# -- waiting ----------------------------------------------------------------------------------------------


async def test_a_command_waits_for_mail(home: Home, join: Join) -> None:
    alice = await join("alice")
    child = await start(home, "inbox", "--as", "bob", "--wait", "15", "--json")
    await until(lambda: _is_online(alice, "bob"), what="bob waits")
    receipt = await alice.send("bob", "now")
    done = await finish(child)
    assert [message["id"] for message in json.loads(done.out)["messages"]] == [receipt.id]
    assert await alice.status(receipt.id) == {"bob": "read"}


async def test_a_send_waits_for_its_own_reply_and_leaves_other_mail_alone(home: Home, join: Join) -> None:
    bob = await join("bob")
    run(home, "register", "alice")
    await bob.send("alice", "something else")
    child = await start(home, "send", "bob", "question?", "--as", "alice", "--wait", "15", "--json")
    (question,) = await bob.messages(wait_s=10)
    await bob.send("alice", "besides")
    answer = await bob.send("alice", "answer.", re=question.id)
    told = json.loads((await finish(child)).out)
    assert (told["id"], told["reply"]["id"], told["reply"]["body"]) == (question.id, answer.id, "answer.")
    assert await bob.status(answer.id) == {"alice": "read"}
    rest = json.loads(run(home, "inbox", "--as", "alice", "--json").out)["messages"]
    assert [(each["body"], each["repeat"]) for each in rest] == [
        ("something else", False),
        ("besides", False),
    ]


def test_a_wait_without_a_reply_ends_in_time(home: Home) -> None:
    run(home, "register", "bob")
    done = run(home, "send", "bob", "hello?", "--as", "alice", "--wait", "0.2")
    assert (done.code, "queued" in done.out) == (75, True)
    assert "message-status" in done.err
    told = run(home, "send", "bob", "hello?", "--as", "alice", "--wait", "0.2", "--json")
    assert (told.code, json.loads(told.out)["reply"]) == (75, None)


async def test_the_tail_tells_what_happens(home: Home, join: Join) -> None:
    alice = await join("alice")
    await join("bob")
    child = await start(home, "tail", "--json")
    assert child.stdout is not None

    async def next_message() -> dict[str, object]:
        assert child.stdout is not None
        while True:
            event = json.loads(await child.stdout.readline())
            if event["type"] == "message_queued":
                return event

    # The tail watches from some moment on: messages are sent until one of them is told.
    seen = asyncio.ensure_future(next_message())
    await until(lambda: _send_until(alice, seen), what="the tail tells of a message")
    event = await seen
    assert (event["who"], event["whom"], event["text"]) == ("alice", ["bob"], "look here")
    child.terminate()
    await finish(child)


async def _send_until(alice: tellwire.Agent, seen: asyncio.Future[dict[str, object]]) -> bool:
    await alice.send("bob", "look here")
    return seen.done()


# -- the surroundings -------------------------------------------------------------------------------------


def test_a_command_starts_the_broker_if_none_runs(home: Home) -> None:
    done = run(home, "send", "bob", "from stdin", "--as", "alice")
    assert (done.code, "There is no agent named 'bob'" in done.err) == (68, True)
    assert home.brokers() == [home.pid]


def test_a_body_comes_from_stdin_without_its_last_line_end(home: Home) -> None:
    run(home, "register", "bob")
    for words in (("send", "bob"), ("send", "bob", "-"), ("send", "bob", "-", "--ttl", "1h")):
        run(home, *words, "--as", "alice", stdin="one\ntwo\n\n")
    mail = json.loads(run(home, "inbox", "--as", "bob", "--json").out)["messages"]
    assert [message["body"] for message in mail] == ["one\ntwo\n"] * 3


async def test_colour_is_for_terminals_and_never_against_the_wish(home: Home, join: Join) -> None:
    await join("bob")
    assert "\x1b[32m" in run_at_terminal(home, "list").out
    assert "\x1b" not in run_at_terminal(home, "list", NO_COLOR="1").out
    assert "\x1b" not in run_at_terminal(home, "list", TERM="dumb").out
    assert "\x1b" not in run(home, "list").out
    narrow = run_at_terminal(home, "list", columns=40, NO_COLOR="1").out
    assert all(len(line) <= 40 for line in narrow.splitlines())


def test_a_reader_that_goes_away_is_no_traceback(home: Home) -> None:
    home.up()
    for words in ("list --all", "settings", "audit --export -"):
        done = subprocess.run(
            ["bash", "-c", f"'{tellwire_command()[0]}' {words} | true"],
            env=environment(home),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.stderr == ""


def test_the_audit_is_proved_and_a_changed_journal_is_not(home: Home) -> None:
    run(home, "register", "bob")
    run(home, "send", "bob", "x", "--as", "alice")
    head = json.loads(run(home, "audit", "--json").out)["head"]
    run(home, "send", "bob", "y", "--as", "alice")
    assert run(home, "audit", "--verify", "--head", head).code == 0
    wrong = run(home, "audit", "--verify", "--head", "f" * 64, "--json")
    assert (wrong.code, json.loads(wrong.out)["ok"]) == (74, False)
    assert run(home, "audit", "--head", head).code == 64
    exported = run(home, "audit", "--export", "-").out.splitlines()
    assert [json.loads(line)["seq"] for line in exported] == list(range(1, len(exported) + 1))


def test_every_setting_is_told_with_its_origin(home: Home) -> None:
    (home.path / "config.toml").write_text("heartbeat_s = 3\n")
    told = json.loads(run(home, "settings", "--json", ttl_s=60).out)
    found = {name: (each["value"], each["origin"]) for name, each in told.items()}
    assert found["heartbeat_s"] == (3.0, "file")
    assert found["ttl_s"] == (60.0, "environment")
    assert found["beat_s"][1] == "default"
    assert found["home"] == (str(home.path), "environment")
    assert not home.starters()


def test_purging_asks_first(home: Home) -> None:
    run(home, "register", "bob")
    assert run(home, "purge", "--older-than", "7d").code == 75
    done = run(home, "purge", "--older-than", "7d", "--yes", "--json")
    assert (done.code, json.loads(done.out)["messages"]) == (0, 0)


@pytest.mark.parametrize(
    "words",
    [("purge", "--older-than", "soon"), ("history", "--since", "2x"), ("send", "a", "b", "--wait", "x")],
)
def test_a_duration_that_is_none_is_refused(home: Home, words: tuple[str, ...]) -> None:
    done = run(home, *words)
    assert (done.code, "is not a duration" in done.err or "is not a time" in done.err) == (64, True)


# -- looking leaves no trace --------------------------------------------------------------------------------


def _rows(home: Home) -> list[str]:
    """What the journal tells, newest last."""
    return [row["type"] for row in json.loads(run(home, "audit", "--json").out)["rows"]]


@pytest.mark.requirement("NET-8")
@pytest.mark.parametrize("click", [False, True], ids=["fast", "click"])
def test_a_command_that_only_reads_as_an_agent_writes_nothing(home: Home, *, click: bool) -> None:
    run(home, "register", "bob")
    sent = json.loads(run(home, "send", "bob", "hi", "--as", "alice", "--json").out)["id"]
    assert "hi" in run(home, "inbox", "--as", "bob", click=click).out
    before = _rows(home)
    for words in (
        ("inbox", "--as", "bob"),
        ("inbox", "--as", "bob", "--json"),
        ("inbox", "--as", "bob", "--peek"),
        ("message-status", sent, "--as", "alice"),
        ("history", "--as", "alice"),
        ("search", "hi", "--as", "bob"),
        ("children", "--as", "bob"),
        ("who-owns", "x", "--as", "bob"),
        ("peer", "list", "--as", "bob"),
        ("list",),
    ):
        done = run(home, *words, click=click)
        assert done.code == 0, (words, done)
    assert _rows(home) == before


def test_a_look_at_an_agent_with_a_client_of_its_own_is_refused_or_says_so(home: Home) -> None:
    with tellwire.connect_sync("bob", home=home.path):
        for click in (False, True):
            assert "nothing was taken" in run(home, "inbox", "--as", "bob", click=click).err
        assert run(home, "history", "--as", "bob").code == 77
    assert run(home, "history", "--as", "nobody").code == 68
    assert "nobody" not in run(home, "list", "--all").out
