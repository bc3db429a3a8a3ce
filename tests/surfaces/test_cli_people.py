"""What a person does all day, job by job, on the command line: what is asked of the broker, what is shown."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any

import pytest

from tellwire.cli.commands.audit import count
from tellwire.protocol.operations.audit import AuditRow
from tests.integration.world import Home, Join, tellwire_command, until
from tests.surfaces.cli_world import Done, environment, run, run_at_terminal


async def person(home: Home, *words: str, **options: Any) -> Done:
    """A command of the person's at a terminal, while the test goes on."""
    return await asyncio.to_thread(lambda: run_at_terminal(home, *words, columns=200, **options))


def audited(home: Home, *types: str) -> list[dict[str, Any]]:
    words = [word for type_ in types for word in ("--type", type_)]
    return json.loads(run(home, "audit", *words, "--json").out)["rows"]


# -- 1: who needs me, and for what ------------------------------------------------------------------------


@pytest.mark.requirement("HUM-2", stage="console")
async def test_job_1_all_that_needs_the_person_is_in_one_list(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    assert (await person(home, "needs")).out.strip().endswith("Nothing waits for you.")
    asked = await alice.send("operator", "Delete it?", choices=["yes", "no"])
    await bob.report_activity("waiting", wants="Bash: rm -rf build")
    await alice.report_activity("errored")
    shown = (await person(home, "needs")).out
    for words in (asked.id, "Delete it?", "bob: wants: Bash: rm -rf build", "alice: its last turn failed"):
        assert words in shown, shown
    assert shown.index("Delete it?") < shown.index("bob: wants") < shown.index("alice: its last turn")
    told = json.loads(run(home, "needs", "--json").out)
    assert [need["id"] for need in told["needs"]] == [asked.id]
    assert [(need["kind"], need["who"]) for need in told["others"]] == [
        ("waiting", "bob"),
        ("errored", "alice"),
    ]
    assert all(need["since"] > 0 and need["actions"] for need in told["others"])
    await bob.report_activity("busy")
    await alice.report_activity("idle")
    assert json.loads(run(home, "needs", "--json").out)["others"] == []


async def test_job_1_mail_that_waits_for_a_moment_is_no_need(home: Home, join: Join) -> None:
    alice, _bob = await join("alice"), await join("bob")
    assert (await person(home, "unregister", "bob")).code == 0
    await alice.send("bob", "Where are you?")
    assert json.loads(run(home, "needs", "--json").out)["others"] == [], "that is no need yet"


# -- 2, 6: answer and tell --------------------------------------------------------------------------------


@pytest.mark.requirement("HUM-1", stage="console")
async def test_jobs_2_and_6_answering_and_telling_reach_the_agent(home: Home, join: Join) -> None:
    alice = await join("alice")
    asked = await alice.send("operator", "A or B?", choices=["A", "B"])
    done = await person(home, "answer", asked.id, "b")
    assert done.code == 0, done
    assert (await person(home, "send", "alice", "Go on.")).code == 0
    said = await alice.messages(wait_s=10)
    while len(said) < 2:
        said += await alice.messages(wait_s=10)
    assert [(each.sender, each.body, each.re) for each in said] == [
        ("operator", "B", asked.id),
        ("operator", "Go on.", None),
    ]
    assert [row["who"] for row in audited(home, "message_answered")] == ["operator"]


async def test_job_2_an_answer_beneath_an_agent_is_refused_and_on_record(home: Home, join: Join) -> None:
    alice = await join("alice")
    asked = await alice.send("operator", "May I?", choices=["yes"])
    refused = run(home, "answer", asked.id, "yes", "--json")
    assert refused.code == 77, refused
    assert json.loads(refused.err)["error"]["code"] == "forbidden"
    await until(lambda: audited(home, "call_refused"), what="the refusal")
    (row,) = audited(home, "call_refused")
    assert (row["detail"]["operation"], row["detail"]["code"]) == ("answer_message", "forbidden")
    assert not await alice.messages()


# -- 3: go there ------------------------------------------------------------------------------------------


async def test_job_3_going_to_an_agent_without_a_pane_is_explained(home: Home, join: Join) -> None:
    await join("alice")
    done = await person(home, "go", "alice")
    assert done.code != 0
    assert "tmux" in done.out


# -- 4, 5, 11: what was said, did it get in, why not, find it ---------------------------------------------


@pytest.mark.requirement("HUM-4", stage="console")
async def test_jobs_4_5_and_11_a_message_its_thread_why_and_search(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    first = await alice.send("bob", "Is the parser done?")
    await until(lambda: run(home, "thread", first.id).code == 0, what="the thread")
    (message,) = await bob.messages(wait_s=10)
    await bob.confirm([message])
    reply = await bob.send("alice", "It is.", re=first.id)
    thread = (await person(home, "thread", reply.id)).out
    assert thread.index("Is the parser done?") < thread.index("It is.")
    assert "answered" in thread
    assert (await person(home, "mute", "alice", "--for", "1h")).code == 0
    why = (await person(home, "why", reply.id)).out
    assert "alice" in why
    assert "next:" in why or "read" in why
    assert first.id in run(home, "search", "parser").out
    for words in (("why", "m0zz"), ("thread", "m0zz"), ("message-status", "m0zz")):
        missing = run(home, *words, "--json")
        assert missing.code == 68, missing
        assert json.loads(missing.err)["error"]["code"] == "unknown_message"


# -- 7, 8, 9, 10, 12 --------------------------------------------------------------------------------------


async def test_jobs_7_to_12_who_does_what_start_link_mute_and_files(
    home: Home, join: Join, tmp_path: Any
) -> None:
    alice, _bob = await join("alice"), await join("bob")
    await alice.report_activity("busy")
    assert "online (busy)" in run(home, "list").out
    started = await person(
        home, "spawn", "tester", "command", "--headless", "--task", "Wait.", "--", "sh", "-c", "sleep 60"
    )
    assert audited(home, "child_reserved"), started
    opened = await person(home, "link", "open", "alice", "bob")
    assert opened.code == 0, opened
    assert audited(home, "link_opened")
    assert (await person(home, "peer", "add", "alice", "bob")).code == 0
    assert audited(home, "peers_joined")
    assert (await person(home, "mute", "bob")).code == 0
    assert audited(home, "agent_muted")[-1]["detail"]["muted"] is True
    assert (await person(home, "claim", str(tmp_path), "--as", "carol")).code == 0
    assert str(tmp_path) in (await person(home, "scopes")).out
    assert "carol" in (await person(home, "who-owns", str(tmp_path / "x"))).out
    assert (await person(home, "stop", "tester")).code in (0, 68)


# -- 13, 14: what it costs, and whether tellwire is well --------------------------------------------------


async def test_job_13_stats_count_messages_of_each_agent(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    for _ in range(3):
        await alice.send("bob", "hello")
    await bob.send("alice", "hi")
    told = json.loads(run(home, "stats", "--json").out)
    counts = {each["name"]: (each["sent"], each["received"]) for each in told["agents"]}
    assert counts == {"alice": (3, 1), "bob": (1, 3)}
    assert told["whole"]
    assert all(len(each["hours"]) == 24 and each["hours"][-1] == each["sent"] for each in told["agents"])
    shown = (await person(home, "stats")).out
    assert "RECEIVED" in shown
    assert "alice" in shown
    only = run(home, "stats", "--agent", "bob", "--for", "1h").out
    assert "bob" in only
    assert "alice" not in only
    assert run(home, "stats", "--agent", "nobody").code == 68


def test_job_13_turns_are_counted_by_who_began_them() -> None:
    def row(type_: str, at: float, who: str = "bob", whom: tuple[str, ...] = (), **detail: Any) -> AuditRow:
        return AuditRow(seq=1, at=at, type=type_, who=who, whom=list(whom), detail=detail)

    rows = [
        row("turn_ended", 9_000.0, outcome="ended", human=True),
        row("turn_ended", 9_000.0, outcome="waiting", human=False),
        row("turn_ended", 5_000.0, outcome="errored", human=False),
        row("message_queued", 9_500.0, "tellwire", ("bob",)),
        row("messages_expired", 9_500.0, ids=["m1", "m2"]),
    ]
    (bob,) = count(rows, until=10_000.0, hours=2)
    assert (bob.turns, bob.woken, bob.failed, bob.sent, bob.received, bob.expired) == (2, 1, 1, 0, 1, 2)
    assert bob.hours == [1, 2]


async def test_job_14_doctor_and_status_tell_how_tellwire_is(home: Home, join: Join) -> None:
    await join("alice")
    assert (await person(home, "doctor")).code in (0, 1)
    assert "agents" in run(home, "status").out


# -- list --watch -----------------------------------------------------------------------------------------


@contextmanager
def watching(home: Home, *words: str) -> Generator[list[str]]:
    """The lines that `list --watch` has written so far, into a pipe."""
    child = subprocess.Popen(
        [*tellwire_command("list", "--watch", *words)],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    lines: list[str] = []
    assert child.stdout is not None
    reader = threading.Thread(target=_read, args=(child.stdout, lines), daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        child.kill()
        child.wait()
        reader.join()
        child.stdout.close()


def _read(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip("\n") for line in stream)


@pytest.mark.requirement("HUM-3", stage="console")
async def test_watching_agents_goes_on_after_a_kill_of_the_broker(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    with watching(home) as lines, watching(home, "--json") as rows:
        await until(lambda: len(lines) == 2 and len(rows) == 2, what="the first lines")
        assert [line.split(" ")[1:3] for line in lines] == [["alice:", "online"], ["bob:", "online"]]
        await alice.report_activity("waiting", wants="the key")
        await until(lambda: "waiting, wants: the key" in lines[-1], what="the wait")
        home.signal(signal.SIGKILL)
        await bob.report_activity("busy")
        await until(lambda: any(" bob: busy" in line for line in lines), what="what happens now")
        assert (await person(home, "unregister", "bob")).code == 0
        await until(lambda: any(" bob: offline" in line for line in lines), what="it left")
        await until(lambda: any('"state":"offline"' in row for row in rows), what="the document")
    words = [line.split(" ", 1)[1] for line in lines]
    assert all(first != second for first, second in pairwise(words)), "a line is doubled"
    assert all(json.loads(row)["name"] in ("alice", "bob") for row in rows)


async def test_watching_agents_at_a_terminal_draws_a_picture(home: Home, join: Join) -> None:
    alice = await join("alice")
    await alice.report_activity("busy")
    shown = await person(home, "list", "--watch", enough=b"alice")
    assert "need you" in shown.out
    assert "● alice" in shown.out
    assert "busy" in shown.out
    wrong = run(home, "list", "--watch", "--capability", "x")
    assert wrong.code == 64
