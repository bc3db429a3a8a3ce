"""The proof of the journal finds every way in which a file can lie, and nothing in one that does not."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tellwire.core.mail.drafts import digest_of
from tellwire.core.record.stored import Commit, StoredMessage
from tellwire.core.state import State, format_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AgentRegistered,
    AnyEvent,
    BrokerStarted,
    CallRefused,
    MessageQueued,
    format_batch,
)
from tellwire.store.audit import AuditResult, export, verify
from tellwire.store.chain import head_path, load_head, next_hash
from tellwire.store.sqlite_journal import SqliteJournal
from tests.unit.mesh import refused

COMMITS = 8
EACH = 3
"""Events in a commit: one of the broker's, two messages."""


def message(body: str) -> MessageQueued:
    return MessageQueued(
        sender="a1",
        sender_name="alice",
        to="bob",
        recipients=["a2"],
        size=len(body),
        digest=digest_of("bob", body),
        ttl_s=60.0,
    )


def fill(journal: SqliteJournal, count: int = COMMITS) -> list[str]:
    """Commit messages; the head after each commit."""
    heads: list[str] = []
    for _ in range(count):
        seq = journal.head()[0]
        bodies = [f"text {seq + 2}", f"text {seq + 3}"]
        events: list[AnyEvent] = [AgentRegistered(f"name{seq}", "script", "s"), *map(message, bodies)]
        rows = [
            StoredMessage.of(seq + 2 + place, float(seq), message(body), body)
            for place, body in enumerate(bodies)
        ]
        journal.commit(Commit(seq + EACH, float(seq), seq / 2, format_batch(events), rows))
        heads.append(journal.head()[1].hex())
    return heads


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as journal:
        fill(journal)
        journal.save_head()
    return tmp_path / "tellwire.db"


def meddle(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def kinds(verdict: AuditResult) -> set[str]:
    return {finding.kind for finding in verdict.findings}


def test_an_honest_journal_is_proved_and_counted(path: Path) -> None:
    steps: list[tuple[int, int]] = []
    verdict = verify(path, progress=lambda done, total: steps.append((done, total)))
    assert verdict.ok
    assert (verdict.commits, verdict.events, verdict.messages) == (COMMITS, COMMITS * EACH, COMMITS * 2)
    assert (verdict.begins, verdict.seq) == (0, COMMITS * EACH)
    assert steps[-1] == (COMMITS, COMMITS)
    head = load_head(path)
    assert head is not None
    assert (head.seq, head.hash) == (verdict.seq, verdict.head)


def test_an_empty_journal_is_proved_too(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "tellwire.db").close()
    assert verify(tmp_path / "tellwire.db").ok


def test_it_reads_beside_the_broker_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    with closing(SqliteJournal(path)) as journal:
        fill(journal)
        assert verify(path).ok
        fill(journal)
        assert verify(path).commits == 2 * COMMITS
    before = path.read_bytes()
    assert verify(path).ok
    assert path.read_bytes() == before


REST = 'sender, sender_name, recipients, "to", re, at, mode, kind, json, context, body'
SWAPPED = (
    "update journal set seq = -9 where seq = 9",
    "update journal set seq = 9 where seq = 12",
    "update journal set seq = 12 where seq = -9",
)


@pytest.mark.requirement("NET-11")
@pytest.mark.parametrize(
    ("statements", "kind", "seq"),
    [
        pytest.param(
            ("update journal set data = replace(data, 'a2', 'a3') where seq = 9",), "tampered", 9, id="data"
        ),
        pytest.param(
            ("update journal set data = cast(data as blob) || ' ' where seq = 9",), "tampered", 9, id="type"
        ),
        pytest.param(("update journal set data = x'ff00' where seq = 9",), "tampered", 9, id="garbage"),
        pytest.param(("update journal set at = at + 1 where seq = 9",), "tampered", 9, id="time"),
        pytest.param(("update journal set at = 'noon' where seq = 9",), "tampered", 9, id="no time"),
        pytest.param(("update journal set hash = zeroblob(32) where seq = 9",), "tampered", 9, id="hash"),
        pytest.param(("update journal set hash = 'x' where seq = 9",), "tampered", 9, id="no hash"),
        pytest.param(SWAPPED, "tampered", 9, id="swapped"),
        pytest.param(("delete from journal where seq = 9",), "cut", 12, id="middle"),
        pytest.param(
            ("delete from journal where seq = 9", "delete from messages where seq between 7 and 9"),
            "cut",
            12,
            id="middle with its messages",
        ),
        pytest.param(("delete from journal where seq <= 6",), "cut", 9, id="beginning"),
        pytest.param(
            ("insert into journal select 8, at, awake, hash, data from journal where seq = 9",),
            "inserted",
            9,
            id="row",
        ),
        pytest.param(("update messages set body = 'text x' where seq = 9",), "body", 9, id="body"),
        pytest.param(("update messages set \"to\" = 'eve' where seq = 9",), "body", 9, id="address"),
        pytest.param(("update messages set sender_name = 'eve' where seq = 9",), "tampered", 9, id="sender"),
        pytest.param(("update messages set recipients = 'a3' where seq = 9",), "tampered", 9, id="recipient"),
        pytest.param(("delete from messages where seq = 9",), "missing", 9, id="message gone"),
        pytest.param(
            (f"insert into messages select 7, {REST} from messages where seq = 9",),
            "inserted",
            7,
            id="message made up",
        ),
        pytest.param(
            (f"insert into messages select 700, {REST} from messages where seq = 9",),
            "inserted",
            700,
            id="message behind the end",
        ),
        pytest.param(("insert into anchor select * from anchor",), "tampered", 0, id="two anchors"),
        pytest.param(("update anchor set hash = randomblob(32)",), "tampered", 3, id="anchor"),
    ],
)
def test_what_was_changed_cut_or_put_in_is_found_at_its_place(
    path: Path, statements: tuple[str, ...], kind: str, seq: int
) -> None:
    meddle(path, *statements)
    verdict = verify(path)
    assert not verdict.ok
    assert (kind, seq) in {(finding.kind, finding.seq) for finding in verdict.findings}


# -- the tail -------------------------------------------------------------------------------------------

CUT = ("delete from journal where seq > 18", "delete from messages where seq > 18")


@pytest.mark.requirement("NET-11")
def test_a_cut_tail_is_found_by_the_head_file(path: Path) -> None:
    meddle(path, *CUT)
    assert kinds(verify(path)) == {"cut"}
    head_path(path).unlink()
    assert verify(path).ok, "nothing is left that could tell"


@pytest.mark.requirement("NET-11")
def test_a_cut_tail_is_found_by_a_hash_that_was_kept(path: Path) -> None:
    head = verify(path).head
    meddle(path, *CUT)
    head_path(path).unlink()
    assert kinds(verify(path, head)) == {"head"}


def test_a_cut_tail_is_found_by_its_messages_and_by_a_snapshot(path: Path) -> None:
    head_path(path).unlink()
    meddle(path, CUT[0])
    assert kinds(verify(path)) == {"inserted"}
    meddle(path, CUT[1], "insert into snapshots values (24, x'', x'')")
    assert kinds(verify(path)) == {"cut"}


@pytest.mark.requirement("NET-11")
def test_a_hash_kept_earlier_stays_provable_and_one_of_another_journal_is_not(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    with closing(SqliteJournal(path)) as journal:
        heads = fill(journal)
        for head in (heads[0], heads[3], heads[-1], heads[3][:16], heads[3].upper()):
            assert verify(path, head).ok
    assert kinds(verify(path, "ab" * 32)) == {"head"}
    for wrong in ("", "xyz", "ab" * 33, heads[0][:15]):
        with refused("bad_request"):
            verify(path, wrong)


@pytest.mark.requirement("NET-11")
def test_a_whole_new_chain_is_found_by_what_stands_elsewhere(path: Path) -> None:
    kept = verify(path).head
    rewrite(path, lambda data: data.replace(b"name0", b"eve00"))
    assert kinds(verify(path)) == {"head"}
    head_path(path).unlink()
    assert verify(path).ok
    assert kinds(verify(path, kept)) == {"head"}


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """What somebody can do who knows how the chain is made."""
    with closing(sqlite3.connect(path)) as db:
        previous = bytes(32)
        for seq, at, awake, data in db.execute(
            "select seq, at, awake, data from journal order by seq"
        ).fetchall():
            data = change(data)
            previous = next_hash(previous, Commit(seq, at, awake, data, []))
            db.execute("update journal set data = ?, hash = ? where seq = ?", (data, previous, seq))
        db.commit()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"seq":"x","hash":""}'])
def test_a_head_file_that_cannot_be_read_is_told(path: Path, content: bytes) -> None:
    head_path(path).write_bytes(content)
    assert kinds(verify(path)) == {"head"}


def test_the_head_file_may_lag(path: Path) -> None:
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 2)
    head = load_head(path)
    assert head is not None
    verdict = verify(path)
    assert verdict.ok
    assert head.seq < verdict.seq


# -- retention ------------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-11")
def test_after_old_history_was_let_go_the_rest_is_still_proved(path: Path) -> None:
    old_head = verify(path).head
    with closing(SqliteJournal(path)) as journal:
        later = fill(journal, 4)
        while journal.derive(50):
            pass
        while journal.index():
            pass
        last = journal.head()[0]
        journal.save_snapshot(last, format_snapshot(State(seq=last)))
        while journal.purge(27.0, last + 1, 2).more:
            pass
    verdict = verify(path, later[1])
    assert verdict.ok, verdict.findings
    assert (verdict.begins, verdict.commits, verdict.messages) == (27, 3, 6)
    assert verify(path, later[0]).ok, "the anchor is of the chain"
    (finding,) = verify(path, old_head).findings
    assert "was deleted" in finding.text
    meddle(path, "update messages set body = 'x' where seq = 30")
    assert kinds(verify(path)) == {"body"}


# -- the rest -------------------------------------------------------------------------------------------


def test_findings_are_bounded(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "tellwire.db")) as journal:
        fill(journal, 80)
    meddle(tmp_path / "tellwire.db", "update messages set body = 'x'")
    verdict = verify(tmp_path / "tellwire.db")
    assert (len(verdict.findings), verdict.unnamed) == (100, 60)


def test_a_file_that_is_not_there_or_no_database_is_told(tmp_path: Path) -> None:
    with refused("database_corrupt"):
        verify(tmp_path / "tellwire.db")
    assert not (tmp_path / "tellwire.db").exists()
    (tmp_path / "tellwire.db").write_bytes(b"no database " * 99)
    with pytest.raises(TellwireError):
        verify(tmp_path / "tellwire.db")


def test_the_export_is_one_line_of_json_per_event_with_names_and_hashes(path: Path) -> None:
    with closing(SqliteJournal(path)) as journal:
        seq = journal.head()[0]
        events: list[AnyEvent] = [CallRefused("a1", "send_message", "denied", 3, 9.5), BrokerStarted("1")]
        journal.commit(Commit(seq + 2, 99.0, 9.0, format_batch(events), []))
    out = io.StringIO()
    assert export(path, out) == COMMITS * EACH + 2
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, COMMITS * EACH + 3))
    assert "text" not in out.getvalue()
    assert (rows[1]["who"], rows[1]["detail"]["digest"]) == ("alice", digest_of("bob", "text 2"))
    assert (rows[-2]["who"], rows[-2]["detail"]["code"]) == ("name0", "denied")
    assert [row["seq"] for row in rows if "hash" in row] == [*range(3, 25, 3), 26]
    assert rows[-1]["hash"] == verify(path).head
