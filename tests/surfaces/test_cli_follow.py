"""`follow`: plain lines for everything that happens, none lost or doubled, whatever becomes of the broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import pytest

from tellwire import Agent
from tests.integration.world import Home, Join, tellwire_command, until
from tests.surfaces.cli_world import environment, run


@contextmanager
def following(home: Home, *words: str) -> Generator[list[str]]:
    """The lines that `follow` has written so far, while the test goes on."""
    child = subprocess.Popen(
        [*tellwire_command("follow", *words)],
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
async def test_no_line_is_lost_or_doubled_when_the_broker_is_killed(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    with following(home) as lines, following(home, "--json") as events:
        await until(lambda: len(lines) == 1, what="the summary")
        assert "2 agents online" in lines[0]
        await until(lambda: _is_followed(alice, events), what="the feed")
        await alice.send("bob", "one")
        await until(lambda: any('"text":"one"' in line for line in events), what="the first message")
        home.signal(signal.SIGKILL)
        for word in ("two", "three"):
            await alice.send("bob", word)
        messages = await bob.messages(wait_s=10)
        while len(messages) < 3:
            messages += await bob.messages(wait_s=10)
        await bob.confirm(messages)
        asked = await alice.send("operator", "May I?", choices=["yes"])
        await until(lambda: any(asked.id in line for line in lines), what="the last line")
        await until(lambda: any(asked.id in line for line in events), what="the last event")
    text = "\n".join(lines)
    for word in ("one", "two", "three"):
        assert len(re.findall(rf"alice to bob: {word} ", text)) == 1, text
    assert sum("the broker started" in line for line in lines) == 1
    assert any("needs you: alice to operator: May I?" in line for line in lines)
    seqs = [json.loads(line)["seq"] for line in events]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


async def test_follow_can_be_narrowed_and_refuses_what_is_not_there(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    carol = await join("carol")
    with following(home, "--agent", "bob", "--type", "message_queued", "--json") as events:
        await until(lambda: _is_told(carol, events), what="it watches")
        await alice.send("carol", "not this")
        await carol.send("bob", "this")
        await bob.send("carol", "and this")
        await until(lambda: any("and this" in line for line in events), what="two events")
    said = [json.loads(line)["text"] for line in events]
    assert [text for text in said if text != "Are you there?"] == ["this", "and this"]
    wrong = run(home, "follow", "--type", "message_qeued")
    assert (wrong.code, "message_queued" in wrong.err) == (64, True)
    assert run(home, "follow", "--agent", "nobdy").code == 68


async def _is_followed(agent: Agent, events: list[str]) -> bool:
    """Whether a follower that shows every event has begun: only events after that are its own."""
    await agent.subscribe("#anything")
    await agent.unsubscribe("#anything")
    return bool(events)


async def _is_told(agent: Agent, events: list[str]) -> bool:
    """The same of one that shows what is sent to bob."""
    await agent.send("bob", "Are you there?")
    return bool(events)


async def test_audit_and_topics_on_the_command_line(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    await alice.subscribe("#builds")
    await bob.subscribe("#builds")
    await alice.send("bob", "x")
    rows = json.loads(run(home, "audit", "--agent", "bob", "--type", "message_queued", "--json").out)["rows"]
    assert [(row["who"], row["whom"]) for row in rows] == [("alice", ["bob"])]
    assert "alice, bob" in run(home, "topics").out
    told = json.loads(run(home, "topics", "--json").out)
    assert told == {"topics": [{"topic": "#builds", "subscribers": ["alice", "bob"]}]}
