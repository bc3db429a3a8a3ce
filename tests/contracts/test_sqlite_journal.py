"""The SQLite file itself: never overwritten when it is not ours to read, whole when the disk is full."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from tellwire.broker.engine import load_state
from tellwire.core.record.stored import Commit
from tellwire.protocol.errors import TellwireError
from tellwire.store.database import SCHEMA_VERSION
from tellwire.store.sqlite_journal import SqliteJournal
from tests.contracts.journals import commit_of, fill, kept, queued, snapshot_at
from tests.unit.mesh import refused

Open = Callable[..., SqliteJournal]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "tellwire.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    """Opens the journal of `path`; whatever is open at the end is closed."""
    journals: list[SqliteJournal] = []

    def open_it(**options: object) -> SqliteJournal:
        journals.append(SqliteJournal(path, **options))  # pyright: ignore[reportArgumentType]  # passed on
        return journals[-1]

    yield open_it
    for journal in journals:
        journal.close()


def closed_file(path: Path, count: int = 3) -> list[Commit]:
    """A journal that was closed in good order."""
    journal = SqliteJournal(path)
    commits = fill(journal, count)
    journal.close()
    return commits


def fingerprint(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_the_file_and_its_folder_are_its_owners_alone(path: Path, opened: Open) -> None:
    fill(opened(), 3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for beside in path.parent.iterdir():
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600, beside


def test_a_commit_is_synced_in_full(opened: Open) -> None:
    db = connection(opened())
    assert db.execute("pragma synchronous").fetchone() == (2,)
    assert db.execute("pragma journal_mode").fetchone() == ("wal",)


def connection(journal: SqliteJournal) -> sqlite3.Connection:
    """The journal's own connection: the only way to make it fail for real."""
    return journal._db  # pyright: ignore[reportPrivateUsage]  # a fault of the real thing


# -- files that are not ours to read ------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all\n" * 400)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table birds (name text)")
        db.execute("insert into birds values ('wren')")
        db.commit()


def foreign_with_our_version(path: Path) -> None:
    foreign(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma user_version={SCHEMA_VERSION}")


def truncated(path: Path) -> None:
    closed_file(path, 200)
    path.write_bytes(path.read_bytes()[:-9000])


def holed(path: Path) -> None:
    closed_file(path, 200)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def newer(path: Path) -> None:
    closed_file(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma user_version={SCHEMA_VERSION + 1}")
        db.execute("pragma journal_mode=delete")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (garbage, "database_corrupt"),
        (foreign, "database_corrupt"),
        (foreign_with_our_version, "database_corrupt"),
        (truncated, "database_corrupt"),
        (holed, "database_corrupt"),
        (newer, "database_newer"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_and_stays_as_it_is(
    path: Path, opened: Open, damage: Callable[[Path], None], code: str
) -> None:
    path.parent.mkdir()
    damage(path)
    before = fingerprint(path)
    with pytest.raises(TellwireError) as caught:
        load_state(opened())
    assert (caught.value.code, str(path) in caught.value.message) == (code, True)
    assert fingerprint(path) == before


def test_a_place_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with refused("storage_broken"):
        SqliteJournal(tmp_path / "file" / "tellwire.db")


@pytest.mark.parametrize(
    "change",
    [
        "update journal set data = cast(replace(data, 'a2', 'a3') as blob) where seq = 2",
        "update journal set data = replace(data, 'a2', 'a3') where seq = 2",
        "update journal set at = at + 1 where seq = 2",
        "update journal set awake = awake + 1 where seq = 2",
        "update journal set hash = zeroblob(32) where seq = 2",
        "update journal set seq = 9 where seq = 3",
        "delete from journal where seq = 2",
        "delete from journal where seq = 1",
        "insert into journal select 4, at, awake, hash, data from journal where seq = 3",
    ],
)
def test_a_journal_that_was_tampered_with_is_found_at_the_next_start(
    path: Path, opened: Open, change: str
) -> None:
    closed_file(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(change).rowcount == 1
        db.commit()
    with refused("database_corrupt"):
        list(opened().replay(0))


# -- migration ----------------------------------------------------------------------------------------


def add_column(db: sqlite3.Connection) -> None:
    db.execute("alter table messages add column colour text not null default ''")


def add_table(db: sqlite3.Connection) -> None:
    db.execute("create table colours (name text)")


def fail_half_way(db: sqlite3.Connection) -> None:
    db.execute("create table half (x)")
    raise TellwireError("internal", "The step failed.")


def version_of(path: Path) -> tuple[int, set[str]]:
    with closing(sqlite3.connect(path)) as db:
        tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        return db.execute("pragma user_version").fetchone()[0], tables


def test_an_older_file_is_lifted_step_by_step_and_a_backup_is_made(path: Path, opened: Open) -> None:
    commits = closed_file(path)
    first, steps = SCHEMA_VERSION, {SCHEMA_VERSION: add_column, SCHEMA_VERSION + 1: add_table}
    journal = opened(migrations=steps, schema_version=first + 2)
    assert list(journal.replay(0)) == kept(commits)
    assert version_of(path)[0] == first + 2
    backup = path.with_name(f"{path.name}.v{first}")
    assert version_of(backup)[0] == first
    assert "colours" not in version_of(backup)[1]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_a_step_that_fails_leaves_the_version_before_it_whole(path: Path, opened: Open) -> None:
    commits = closed_file(path)
    first, steps = SCHEMA_VERSION, {SCHEMA_VERSION: add_table, SCHEMA_VERSION + 1: fail_half_way}
    with refused("internal"):
        opened(migrations=steps, schema_version=first + 2)
    version, tables = version_of(path)
    assert (version, "colours" in tables, "half" in tables) == (first + 1, True, False)
    restored = SqliteJournal(path.with_name(f"{path.name}.v{first}"))
    assert list(restored.replay(0)) == kept(commits)
    restored.close()


def test_a_new_file_gets_the_newest_schema_without_migrations(path: Path, opened: Open) -> None:
    opened(migrations={})
    assert version_of(path)[0] == SCHEMA_VERSION


# -- a disk that says no ------------------------------------------------------------------------------


def fill_up(journal: SqliteJournal) -> int:
    """Commit until there is no room; the sequence of the last commit that passed."""
    body = "x" * 20_000
    for seq in range(1, 1000):
        try:
            journal.commit(commit_of(seq, queued(), body=body))
        except TellwireError as error:
            if error.code != "storage_full":
                raise
            return seq - 1
    return pytest.fail("the bound does not hold")


@pytest.mark.requirement("SEC-3")
def test_a_full_disk_is_told_leaves_all_whole_and_clears_by_itself(opened: Open) -> None:
    journal = opened(bytes_max=512 * 1024)
    last = fill_up(journal)
    assert 0 < last < 100
    with refused("storage_full"):
        journal.probe()
    assert [commit.seq for commit in journal.replay(0)] == list(range(1, last + 1))
    assert journal.header(last + 1) is None
    connection(journal).execute("pragma max_page_count=100000")
    journal.probe()
    fill(journal, 1, start=last + 1)
    assert [commit.seq for commit in opened().replay(0)] == list(range(1, last + 2))


def test_letting_go_of_history_makes_room_again(opened: Open) -> None:
    journal = opened(bytes_max=1024 * 1024)
    last = fill_up(journal)
    db = connection(journal)
    db.execute("pragma max_page_count=100000")
    snapshot_at(journal, last)
    journal.derive(1000)
    db.execute(f"pragma max_page_count={1024 * 1024 // 4096}")
    while journal.purge(1e9, last + 1, 50).more:
        pass
    journal.probe()
    fill(journal, 1, start=last + 1, body="x" * 20_000)
    assert [commit.seq for commit in opened().replay(last)] == [last + 1]


def test_a_read_only_database_is_as_a_full_one_and_can_be_read(opened: Open) -> None:
    journal = opened()
    commits = fill(journal, 2)
    db = connection(journal)
    db.execute("pragma query_only=on")
    for act in (lambda: fill(journal, 1, start=3), journal.probe, lambda: snapshot_at(journal, 2)):
        with refused("storage_full"):
            act()
    assert list(journal.replay(0)) == kept(commits)
    assert journal.header(1) is not None
    db.execute("pragma query_only=off")
    journal.probe()
    commits += fill(journal, 1, start=3)
    assert list(opened().replay(0)) == kept(commits)


def test_another_process_at_work_on_the_file_is_as_a_full_disk(path: Path, opened: Open) -> None:
    journal = opened()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with refused("storage_full"):
            fill(journal, 1)
    fill(journal, 1)
    assert len(list(journal.replay(0))) == 1


def test_whatever_breaks_a_commit_leaves_nothing_of_it_behind(opened: Open) -> None:
    journal = opened()
    commits = fill(journal, 1)
    bad = commit_of(2, queued())
    for broken in (
        bad._replace(messages=[bad.messages[0]._replace(seq=2**70)]),
        bad._replace(messages=[bad.messages[0]._replace(body="\ud800")]),
        bad._replace(messages=[bad.messages[0], bad.messages[0]]),
    ):
        with pytest.raises((TellwireError, OverflowError, UnicodeEncodeError)):
            journal.commit(broken)
        assert list(journal.replay(0)) == kept(commits)
        assert journal.header(2) is None
    commits += fill(journal, 1, start=2)
    assert list(opened().replay(0)) == kept(commits)


def test_the_bytes_of_senders_are_counted_anew_in_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    with closing(SqliteJournal(path)) as journal:
        fill(journal, 5)
        while journal.derive(100):
            pass
        expected = journal.kept()
    for change in (
        "delete from cursors where name like 'kept%'",
        "update cursors set seq = 2 where name = 'kept'",
    ):
        with closing(sqlite3.connect(path)) as db:
            db.execute(change)
            db.commit()
        with closing(SqliteJournal(path)) as journal:
            assert journal.kept() == expected == {"a1": 20}
