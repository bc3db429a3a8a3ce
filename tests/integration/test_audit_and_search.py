"""History, search, audit, feed and purge, through a real broker and its file."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from contextlib import closing
from typing import Any, cast

import pytest

from tellwire import Agent
from tellwire.protocol.ids import parse_message_id
from tellwire.store.audit import export, verify
from tellwire.store.chain import load_head
from tests.integration.world import Home, Join, OpenRaw, Raw, until


async def ok(raw: Raw, op: str, **fields: Any) -> dict[str, Any]:
    """Call; it must be answered."""
    frame = await raw.call(op, **fields)
    assert "ok" in frame, frame
    return frame["ok"]


async def read_all(agent: Agent, count: int) -> None:
    """Read and confirm so many messages."""
    while count:
        messages = await agent.messages(wait_s=5)
        assert messages
        count -= await agent.confirm(messages)


async def refusals(raw: Raw) -> list[dict[str, Any]]:
    """The refusals on record, as who, operation, code and count."""
    audit = await ok(raw, "read_audit", limit=1_000)
    return [
        {"who": row.get("who"), **row["detail"]} for row in audit["rows"] if row["type"] == "call_refused"
    ]


async def complete_refusals(raw: Raw, count: int) -> list[dict[str, Any]]:
    """The same, once so many are counted in all."""
    rows: list[dict[str, Any]] = []

    async def look() -> bool:
        rows[:] = await refusals(raw)
        return sum(row["count"] for row in rows) >= count

    await until(look, what=f"{count} refusals on record")
    return rows


def cursor(home: Home, name: str) -> int:
    """How far a derived table has come, read beside the broker."""
    with closing(sqlite3.connect(f"file:{home.settings.database}?mode=ro", uri=True)) as db:
        (seq,) = db.execute("select seq from cursors where name = ?", (name,)).fetchone()
    return seq


# -- history and search -------------------------------------------------------------------------------


async def test_search_gives_the_same_before_and_after_the_index_is_made(home: Home, join: Join) -> None:
    alice, bob, eve = await join("alice"), await join("bob"), await join("eve")
    sent = [await alice.send("bob", f"the Déploy of host{n % 3}", mode="agree") for n in range(9)]
    await bob.send("alice", {"deploy": "line\nbreak"}, re=sent[0].id)
    last = parse_message_id((await alice.send("bob", "nothing of it")).id)

    async def found() -> list[list[str]]:
        return [
            [message.id for message in (await alice.past.search(query)).messages]
            for query in ("deploy", "deploy host1", '"of host2"', "dep* break", "hos*", "absent")
        ]

    at_once = await found()
    assert [len(ids) for ids in at_once] == [10, 3, 3, 1, 9, 0]
    await until(lambda: cursor(home, "search") >= last)
    assert await found() == at_once
    assert (await eve.past.search("deploy")).messages == []
    assert (await eve.past.history()).messages == []


async def test_an_agent_reads_its_past_page_by_page(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    sent = [(await alice.send("bob", n)).id for n in range(5)]
    await read_all(bob, 5)
    page = await bob.past.history(peer="alice", limit=3)
    rest = await bob.past.history(peer="alice", limit=3, before=page.next)
    assert [message.id for message in [*page.messages, *rest.messages]] == sent[::-1]
    assert (page.more, rest.more) == (True, False)
    assert {message.recipients[0].state for message in page.messages} == {"read"}


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-11")
async def test_refusals_are_on_record_and_equal_ones_are_counted(
    quick: Home, raw: OpenRaw, join: Join
) -> None:
    quick.up()
    agent, script = await raw("alice"), await raw()
    for _ in range(5):
        assert (await ok(agent, "send_message", to="nobody", body="x"))["status"] == "denied"
    assert (await ok(agent, "send_message", to="alice", body="x"))["status"] == "refused"
    assert (await agent.call("read_audit"))["error"]["code"] == "forbidden"
    assert (await script.call("send_message", to="alice", body="x"))["error"]["code"] == "not_registered"
    assert (await agent.call("no_such_thing"))["error"]["code"] == "unknown_operation"
    await join("bob")
    listed = await ok(agent, "send_message", to=["bob", "ghost"], body="x")
    assert listed["status"] == "sent"
    rows = await complete_refusals(script, 10)
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["who"], row["operation"], row["code"])
        counts[key] = counts.get(key, 0) + row["count"]
    others = {row["who"] for row in rows} - {"alice"}
    assert others <= {"script", "operator"}, "who runs the tests"
    assert counts == {
        ("alice", "send_message", "denied"): 6,
        ("alice", "send_message", "refused"): 1,
        ("alice", "read_audit", "forbidden"): 1,
        ("alice", "", "unknown_operation"): 1,
        (others.pop(), "send_message", "not_registered"): 1,
    }
    assert len(rows) <= 7, "equal ones of a second are one row"


async def test_refusals_are_on_record_after_a_clean_stop(home: Home, raw: OpenRaw) -> None:
    home.up()
    agent = await raw("alice")
    await ok(agent, "send_message", to="nobody", body="secret text")
    assert home.tellwire("down").returncode == 0
    out = io.StringIO()
    export(home.settings.database, out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    (row,) = [row for row in rows if row["type"] == "call_refused"]
    assert (row["who"], row["detail"]["code"], row["detail"]["count"]) == ("alice", "denied", 1)
    head = load_head(home.settings.database)
    assert head is not None
    assert (head.seq, head.hash) == (rows[-1]["seq"], rows[-1]["hash"])


# -- proof --------------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-11")
async def test_the_journal_is_proved_beside_the_broker_and_after_it_was_killed(
    home: Home, raw: OpenRaw, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    for n in range(50):
        await alice.send("bob", f"text {n}")
    await read_all(bob, 50)
    database = home.settings.database
    audit = await ok(await raw(), "read_audit")
    verdict = verify(database, audit["head"])
    assert verdict.ok, verdict.findings
    assert verdict.messages >= 50
    await until(lambda: (head := load_head(database)) and head.seq >= verdict.seq, what="the head file")
    home.signal(home.KILL)
    await until(lambda: not home.brokers())
    assert verify(database, audit["head"]).ok
    with closing(sqlite3.connect(database)) as db:
        db.execute("delete from journal where seq = (select max(seq) from journal)")
        db.commit()
    assert {finding.kind for finding in verify(database).findings} & {"cut", "inserted"}


# -- purge --------------------------------------------------------------------------------------------


async def test_a_purge_lets_go_of_what_is_settled_and_keeps_what_is_open(
    home: Home, raw: OpenRaw, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    script = await raw()
    for n in range(30):
        await alice.send("bob", f"old {n}")
    await read_all(bob, 30)
    kept = await alice.send("bob", "still open")
    answered = await alice.send("bob", "behind it")
    await bob.confirm([answered.id])
    head = (await ok(script, "read_audit"))["head"]
    gone = 0
    while True:
        purged = await ok(script, "purge_history", older_than_s=0.0)
        gone += purged.get("messages", 0)
        if not purged.get("more"):
            break
    assert gone == 30
    assert purged["held_by"] == kept.id
    found = await ok(script, "read_history")
    assert [message["body"] for message in found["messages"]] == ["behind it", "still open"]
    assert (await ok(script, "search_messages", query="old")).get("messages", []) == []
    assert dict(await alice.status(kept.id)) == {"bob": "delivered"}
    verdict = verify(home.settings.database, head)
    assert verdict.ok, verdict.findings
    assert verdict.begins > 0
    assert [message.body for message in await bob.peek()] == ["still open"]
    home.signal(home.KILL)
    await until(lambda: not home.brokers())
    assert (await alice.send("bob", "after a restart")).status in ("received", "queued")
    assert [message.body for message in await bob.peek()] == ["still open", "after a restart"]


async def test_an_agent_may_neither_purge_nor_watch(home: Home, raw: OpenRaw) -> None:
    home.up()
    agent = await raw("alice")
    for op, fields in (("purge_history", {"older_than_s": 0.0}), ("watch_feed", {})):
        assert (await agent.call(op, **fields))["error"]["code"] == "forbidden"
    script = await raw()
    assert (await script.call("purge_history", older_than_s=-1.0))["error"]["code"] == "bad_request"


# -- the feed -----------------------------------------------------------------------------------------


async def test_a_watcher_sees_every_event_as_it_happens(home: Home, raw: OpenRaw, join: Join) -> None:
    alice = await join("alice")
    watcher = await raw()
    assert await ok(watcher, "watch_feed") == {}
    bob = await join("bob")
    sent = await alice.send("bob", "x" * 300)
    await bob.confirm(await bob.messages(wait_s=5))
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != "messages_read":
        seen.append((await watcher.frame())["feed"])
    assert [event["type"] for event in seen] == [
        "agent_registered",
        "message_queued",
        "messages_delivered",
        "messages_read",
    ]
    queued = seen[1]
    assert (queued["seq"], queued["who"], queued["whom"]) == (parse_message_id(sent.id), "alice", ["bob"])
    assert queued["text"] == "x" * 200
    assert [event["seq"] for event in seen] == list(range(seen[0]["seq"], seen[0]["seq"] + 4))


async def test_a_slow_watcher_harms_nobody_and_hears_how_much_it_missed(
    home: Home, raw: OpenRaw, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    watcher = await raw()
    await ok(watcher, "watch_feed")
    transport = cast("asyncio.Transport", watcher.writer.transport)
    transport.pause_reading()
    for _ in range(40):
        await asyncio.gather(*(alice.send("bob", "y" * 200) for _ in range(100)))
        await read_all(bob, 100)
    transport.resume_reading()
    received = missed = last = 0
    while True:
        await alice.send("bob", "still there?")
        event = (await watcher.frame()).get("feed", {})
        received += 1
        missed += event.get("missed", 0)
        if event.get("missed"):
            assert event["seq"] == last + 1 + event["missed"]
            break
        last = event["seq"]
    assert missed > 1_000
    assert received > 100
