"""A journal that lacks what its head file names: noted once, kept aside, told until it is acknowledged."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tellwire.store.audit import verify
from tellwire.store.chain import Head, head_path, load_head, save_head
from tellwire.store.losses import acknowledge_losses, find_losses
from tellwire.store.sqlite_journal import SqliteJournal
from tests.contracts.journals import fill, snapshot_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of ten commits, and its head file."""
    path = tmp_path / "tellwire.db"
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 10)
        journal.save_head()
    return path


def cut(path: Path, behind: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        for table in ("journal", "messages"):
            db.execute(f"delete from {table} where seq > ?", (behind,))
        db.commit()


def start(path: Path) -> str:
    """What a start of a broker finds; it writes its head anew."""
    with closing(SqliteJournal(path)) as journal:
        loss = journal.note_loss()
        journal.save_head()
    return "" if loss is None else loss.words()


@pytest.mark.requirement("NET-11")
def test_a_journal_as_it_was_written_has_lost_nothing(path: Path) -> None:
    assert start(path) == ""
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 3, start=11)  # the head may lag
    assert (start(path), find_losses(path)) == ("", [])


@pytest.mark.requirement("NET-11", "NET-9")
def test_a_lost_end_is_noted_before_its_proof_is_overwritten(path: Path) -> None:
    before = load_head(path)
    assert before is not None
    cut(path, 7)
    assert "the last 3 events (8 to 10)" in start(path)
    assert load_head(path) != before
    (loss,) = find_losses(path)
    assert (loss.seq, loss.hash, loss.ended) == (before.seq, before.hash, 7)
    assert [finding.kind for finding in verify(path).findings if finding.kind == "lost"] == ["lost"]
    assert start(path) == "", "it is noted once"
    assert len(find_losses(path)) == 1
    assert acknowledge_losses(path) == 1
    assert (find_losses(path), acknowledge_losses(path)) == ([], 0)
    assert len(list(path.parent.glob("head.acknowledged-*"))) == 1


@pytest.mark.requirement("NET-11", "NET-9")
@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_an_emptied_or_removed_database_does_not_begin_anew_in_silence(path: Path, how: str) -> None:
    if how == "emptied":
        os.truncate(path, 0)
    else:
        path.unlink()
    assert start(path) == "The database was empty, but had held 10 events: all of them are lost."
    assert not verify(path).ok
    acknowledge_losses(path)
    assert verify(path).ok


@pytest.mark.requirement("NET-11")
def test_a_journal_that_went_on_after_its_end_was_lost_is_not_the_same(path: Path) -> None:
    cut(path, 7)
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 5, start=8, body='"other"')
    assert "Event 10 is not the one that was written" in start(path)


def test_a_start_that_dies_before_it_writes_its_head_notes_a_loss_once(path: Path) -> None:
    cut(path, 7)
    for _ in range(2):
        with closing(SqliteJournal(path)) as journal:
            assert journal.note_loss() is not None
    assert len(find_losses(path)) == 1


def test_a_head_that_cannot_be_read_is_kept_and_told(path: Path) -> None:
    head_path(path).write_bytes(b"garbage")
    assert "Cannot read" in start(path)
    (kept,) = path.parent.glob("head.unreadable-*")
    assert kept.read_bytes() == b"garbage"
    assert start(path) == ""
    assert len(find_losses(path)) == 1


def test_a_head_from_before_the_journal_begins_proves_nothing(path: Path) -> None:
    with closing(SqliteJournal(path)) as journal:
        snapshot_at(journal, 10)
        while journal.derive(100):
            pass
        while journal.purge(6.0, 100, 3).more:
            pass
    save_head(path, Head(2, "00"))
    assert start(path) == ""


def test_a_log_of_writes_without_its_database_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    log = Path(f"{path}-wal")
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 3)
        kept = log.read_bytes()
    path.unlink()
    log.write_bytes(kept)
    SqliteJournal(path).close()
    (aside,) = tmp_path.glob("tellwire.db-wal.lost-*")
    assert aside.read_bytes() == kept
