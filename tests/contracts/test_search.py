"""Finding messages: the index, the tail above it and the twin in memory give the same answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tellwire.broker.ports import Journal
from tellwire.core.record.stored import Commit, Query, StoredMessage, Talk
from tellwire.core.record.terms import parse_terms
from tellwire.protocol.events import BrokerStarted, MessagesRead, format_batch
from tellwire.store import conversations, search
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.contracts.journals import queued, snapshot_at

BODIES = (
    "The deploy failed at noon",
    "which deploy?",
    "DEPLOY of Café Noir",
    '{"log":"first line\\nsecond line","n":[42,null]}',
    "日本語のテスト",
    "nul \0 behind",
    "a_b-c d.e",
    "done👍 straße",
    "deploys and redeploys",
    "",
)
QUERIES = (
    "deploy",
    "deploy failed",
    "failed deploy",
    '"deploy failed"',
    '"failed deploy"',
    "dep*",
    "deplo",
    "cafe",
    "CAFÉ noir",
    "second",
    "nsecond",
    "log 42",
    "日本",
    "本日",
    "テスト",
    "behind",
    "a b",
    "b-c",
    "fai*",
    "done strasse",
    "noon OR which",
    'near("deploy" "noon")',
    "body:deploy",
    "deploy NOT failed",
    'de"ploy',
    "de*ploy",
    "% _ deploy",
)
LINKS = {"a2": "link:l5/3", "a3": "link:l50/12"}
"""Where some senders speak."""
PAIRS = (("a1", "a2"), ("a2", "a1"), ("a1", "a3"), ("a3", "a2"), ("", "a1"))


def commits() -> list[Commit]:
    """Every body between every pair, some to several, an event between them."""
    made: list[Commit] = []
    seq = 1
    for body in BODIES:
        is_json = body.startswith("{")
        for sender, recipient in PAIRS:
            recipients = f"{recipient} a4" if sender == "a1" else recipient
            to, at = LINKS.get(sender, "y"), float(seq // 3)
            re = "m0" if sender == "a1" else "m00" if sender == "a2" else ""
            message = StoredMessage(
                seq + 1, sender, "x", recipients, to, re, at, "", "request", is_json, "", body
            )
            data = format_batch([BrokerStarted("1"), queued(body)])
            made.append(Commit(seq + 1, float(seq // 3), 0.0, data, [message]))
            seq += 2
    return made


def pages(journal: Journal, query: Query) -> list[int]:
    """All that is found, page by page."""
    found: list[int] = []
    for _ in range(1_000):
        page = journal.find(query)
        assert len(page.messages) <= query.limit
        found += [message.seq for message in page.messages]
        if not page.next:
            assert found == sorted(set(found), reverse=True)
            return found
        query = query._replace(before=page.next)
    raise AssertionError("the pages never end")


def ask(limit: int = 7, **fields: object) -> Query:
    return Query(limit, 1 << 20)._replace(**fields)


@pytest.fixture
def twin() -> MemoryJournal:
    memory = MemoryJournal()
    for commit in commits():
        memory.commit(commit)
    return memory


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as opened:
        for commit in commits():
            opened.commit(commit)
        yield opened


def test_search_gives_the_same_however_far_the_index_has_come(
    journal: SqliteJournal, twin: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE_ROWS", 7)
    filters: list[dict[str, Any]] = [
        {},
        {"agent": "a3"},
        {"agent": "a1", "peer": "a2"},
        {"since": 4.0, "until": 11.0},
        {"link": "l5"},
        {"link": "l50", "agent": "a3"},
    ]
    expected = {
        (text, place): pages(twin, ask(terms=parse_terms(text), **filters[place]))
        for text in QUERIES
        for place in range(len(filters))
    }
    assert sum(map(bool, expected.values())) > len(expected) / 2
    borders = 0
    while True:
        for (text, place), seqs in expected.items():
            assert pages(journal, ask(terms=parse_terms(text), **filters[place])) == seqs, (text, borders)
        if not journal.index():
            break
        borders += 1
    assert borders > 5


def test_history_gives_the_same_however_far_the_index_has_come(
    journal: SqliteJournal, twin: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE_ROWS", 20)
    queries = [
        ask(),
        ask(agent="a1"),
        ask(agent="a4"),
        ask(agent=""),
        ask(agent="a1", peer="a2"),
        ask(agent="a4", peer="a2"),
        ask(agent="a9"),
        ask(since=5.0),
        ask(until=5.0),
        ask(since=5.0, until=5.0),
        ask(since=6.0, until=5.0),
        ask(since=1e12),
        ask(agent="a2", since=3.0, until=9.0, before=40),
        ask(limit=1, agent="a3"),
        ask(before=1),
        ask(limit=3)._replace(bytes_max=30),
        ask(link="l5"),
        ask(link="l50"),
        ask(link="l5", agent="a1"),
        ask(link="l5", agent="a1", peer="a2", since=3.0, until=9.0),
        ask(link="l5", agent="a3"),
        ask(link="l9"),
    ]
    answers = [ask(re="m0"), ask(re="m0", limit=2), ask(re="m9")]
    expected_answers = [pages(twin, query) for query in answers]
    assert expected_answers[0] == expected_answers[1]
    assert len(expected_answers[0]) > len(BODIES)
    assert not expected_answers[2]
    expected = [pages(twin, query) for query in queries]
    found = [len(seqs) for seqs in expected[-6:]]
    assert found == [len(BODIES), len(BODIES), len(BODIES), found[3], 0, 0]
    assert 0 < found[3] < len(BODIES)
    assert len(expected[0]) == len(BODIES) * len(PAIRS)
    assert expected[4]
    assert not expected[5]
    more = True
    while more:
        assert [pages(journal, query) for query in queries] == expected
        assert [pages(journal, query) for query in answers] == expected_answers
        more = journal.index()


def test_history_forwards_is_history_backwards_turned_round(
    journal: SqliteJournal, twin: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE_ROWS", 20)
    monkeypatch.setattr(search, "TAIL_SEQS_MAX", 9)
    queries = [
        ask(),
        ask(agent="a1"),
        ask(agent="a4", limit=2),
        ask(agent="a1", peer="a2"),
        ask(agent="a9"),
        ask(since=5.0, until=9.0),
        ask(limit=3)._replace(bytes_max=30),
        ask(link="l5"),
        ask(link="l50", agent="a3"),
        ask(re="m0"),
        ask(terms=parse_terms("deploy")),
        ask(terms=parse_terms("dep*"), agent="a3", before=70),
    ]
    more = True
    while more:
        for query in queries:
            for start in (1, 40):
                expected = [seq for seq in reversed(pages(twin, query)) if seq > start]
                for each in (journal, twin):
                    assert forwards(each, query._replace(after=start)) == expected, query
        more = journal.index()


def forwards(journal: Journal, query: Query) -> list[int]:
    """All that is found behind a place, page by page."""
    found: list[int] = []
    for _ in range(1_000):
        page = journal.find(query)
        found += [message.seq for message in page.messages]
        if not page.next:
            return found
        query = query._replace(after=page.next)
    raise AssertionError("the pages never end")


def test_answers_are_found_in_a_file_that_an_earlier_version_indexed(
    journal: SqliteJournal, twin: MemoryJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while journal.index():
        pass
    journal.close()
    with closing(sqlite3.connect(tmp_path / "tellwire.db")) as db:
        db.execute("delete from parties where agent like 're:%'")
        db.execute("delete from cursors where name = 'answers'")
        db.commit()
    monkeypatch.setattr(search, "SLICE_ANSWERS", 7)
    expected = pages(twin, ask(re="m0"))
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as again:
        steps = 0
        while pages(again, ask(re="m0")) == expected and again.index():
            steps += 1
        assert pages(again, ask(re="m0")) == expected
        assert steps > 5


def test_a_question_over_a_long_tail_or_a_crowd_is_cut_into_bounded_ones(
    journal: SqliteJournal, twin: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FIND_S", 0.0)
    monkeypatch.setattr(search, "TAIL_SEQS_MAX", 5)
    monkeypatch.setattr(search, "SEARCH_SEQS_MAX", 11)
    monkeypatch.setattr(search, "LOOKED_AT_MAX", 4)
    queries = [
        ask(terms=parse_terms("deploy"), agent="a3"),
        ask(agent="a1", peer="a3"),
        ask(agent="a9"),
        ask(link="l5", agent="a3"),
        ask(terms=parse_terms("deploy"), link="l50"),
        ask(terms=parse_terms("deploy failed")),
        ask(terms=parse_terms("dep* noi*")),
    ]
    expected = [pages(twin, query) for query in queries]
    assert not journal.find(queries[2]).messages
    assert journal.find(queries[2]).next
    assert [pages(journal, query) for query in queries] == expected
    while journal.index():
        pass
    assert [pages(journal, query) for query in queries] == expected


def test_what_is_let_go_leaves_nothing_in_the_index(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE_ROWS", 9)
    while journal.index():
        pass
    while journal.derive(50):
        pass
    last = journal.head()[0]
    snapshot_at(journal, last)
    calls = 0
    while journal.purge(20.0, last + 1, 10).more:
        calls += 1
    kept = pages(journal, ask())
    assert calls > 5
    assert 0 < len(kept) < len(BODIES) * len(PAIRS)
    with closing(sqlite3.connect(tmp_path / "tellwire.db")) as db:
        db.execute("create virtual table temp.v using fts5vocab(main, messages_fts, 'instance')")
        assert {seq for (seq,) in db.execute("select distinct doc from temp.v")} <= set(kept)
        assert {seq for (seq,) in db.execute("select seq from parties")} == set(kept)


# -- conversations ------------------------------------------------------------------------------------


def talks(journal: Journal, limit: int) -> list[Talk]:
    """All conversations, page by page."""
    found: list[Talk] = []
    before = 0
    while True:
        page = journal.talks(before, limit)
        found += page.talks
        if not page.more:
            return found
        before = page.talks[-1].last


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_conversations_are_the_same_however_far_their_table_has_come(
    journal: SqliteJournal, twin: MemoryJournal, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(conversations, "SLICE_ROWS", 7)
    expected = talks(twin, 50)
    assert len({talk.key.split(":")[0] for talk in expected}) > 1
    assert sum(talk.messages for talk in expected) == len(pages(twin, ask()))
    while True:
        assert talks(journal, limit) == expected
        if not journal.index():
            break


def test_conversations_are_counted_in_a_file_of_an_earlier_version(
    journal: SqliteJournal, twin: MemoryJournal, tmp_path: Path
) -> None:
    while journal.index():
        pass
    with closing(sqlite3.connect(tmp_path / "tellwire.db")) as db:
        db.execute("delete from cursors where name = 'talks' or name like 'last:%' or name like 'said:%'")
        db.commit()
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as again:
        assert talks(again, 50) == talks(twin, 50)
        while again.index():
            pass
        assert talks(again, 50) == talks(twin, 50)


def test_what_is_let_go_leaves_its_conversation(journal: SqliteJournal, twin: MemoryJournal) -> None:
    for each in (journal, twin):
        while each.index():
            pass
        while each.derive(50):
            pass
        last = each.head()[0]
        snapshot_at(each, last)
        while each.purge(20.0, last + 1, 10).more:
            pass
    assert len(pages(twin, ask())) > 0
    assert talks(journal, 50) == talks(twin, 50)


def test_very_much_that_is_not_counted_yet_is_said_to_be_missing(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not journal.talks(0, 50).partial
    monkeypatch.setattr(conversations, "TAIL_ROWS_MAX", 3)
    assert journal.talks(0, 50).partial
    while journal.index():
        pass
    assert not journal.talks(0, 50).partial


def test_times_are_found_although_the_clock_was_set_back_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SLICE_ROWS", 3)
    times = [10.0, 11.0, 900.0, 901.0, 12.0, 13.0, 14.0, 3.0, 15.0, 16.0]
    queries = [
        ask(limit=limit, since=since, until=until, **more)
        for limit in (1, 3, 20)
        for since in (0.0, 4.0, 12.0, 500.0, 1e4)
        for until in (0.0, 2.0, 13.0, 14.5, 1e4)
        for more in ({}, {"agent": "a1"}, {"terms": parse_terms("deploy")})
    ]
    twin = MemoryJournal()
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as journal:
        for place, at in enumerate(times):
            message = StoredMessage(
                2 * place + 2, "a1", "x", "a2", "y", "", at, "", "request", 0, "", f"deploy {place}"
            )
            data = format_batch([BrokerStarted("1"), queued()])
            for each in (journal, twin):
                each.commit(Commit(2 * place + 2, at, float(place), data, [message]))
        while True:
            for query in queries:
                assert pages(journal, query) == pages(twin, query), query
            if not journal.index():
                break


def test_a_purge_keeps_what_is_open_and_says_what_it_let_go(
    journal: SqliteJournal, twin: MemoryJournal
) -> None:
    for each in (journal, twin):
        while each.derive(50):
            pass
        snapshot_at(each, each.head()[0])
        gone = [each.purge(1e9, 21, 4) for _ in range(4)]
        assert [(pruned.commits, pruned.messages) for pruned in gone] == [(4, 4), (4, 4), (2, 2), (0, 0)]
        assert [pruned.more for pruned in gone] == [True, True, True, False]
        assert min(pages(each, ask())) == 22
        assert each.oldest() == (22, 7.0)


# -- the journal row by row ---------------------------------------------------------------------------


def test_events_are_read_forwards_and_backwards(journal: SqliteJournal, twin: MemoryJournal) -> None:
    last = journal.head()[0]
    for arguments in [
        (0, 0, 5),
        (0, 0, 1_000),
        (0, 8, 3),
        (0, 9, 3),
        (0, 1, 3),
        (0, last + 50, 4),
        (1, 0, 4),
        (2, 0, 4),
        (3, 6, 9),
        (last - 1, 0, 4),
        (last, 0, 4),
        (9, 4, 4),
    ]:
        assert journal.entries(*arguments) == twin.entries(*arguments), arguments
    assert [entry.seq for entry in journal.entries(0, 9, 3)] == [6, 7, 8]


def test_both_tell_the_same_head_and_receipts(journal: SqliteJournal, twin: MemoryJournal) -> None:
    for each in (journal, twin):
        each.commit(Commit(101, 40.0, 0.0, format_batch([MessagesRead("a2", [2], "confirm")]), []))
    assert journal.head() == twin.head()
    assert journal.receipts([2, 4]) == twin.receipts([2, 4])
    assert journal.receipts([2])[2]["a2"].state == "read"
    assert journal.receipts([]) == {}
