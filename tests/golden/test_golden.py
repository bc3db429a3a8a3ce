"""Every shape ever released loads; today's shapes are the ones that stand here."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tellwire.broker.engine import load_state
from tellwire.core.record.stored import FinalState
from tellwire.core.state import SNAPSHOT_VERSION, format_snapshot, parse_snapshot
from tellwire.protocol.events import (
    EVENTS,
    AgentRegistered,
    AnyEvent,
    SessionStarted,
    format_batch,
    parse_batch,
)
from tellwire.store.database import SCHEMA_VERSION
from tellwire.store.sqlite_journal import SqliteJournal
from tests.golden.samples import (
    EVENTS_FOLDER,
    FOLDER,
    SAMPLES,
    SCHEMA,
    SNAPSHOT,
    build,
    sample_file,
    write_samples,
)

if os.environ.get("TELLWIRE_GOLDEN") == "write":
    write_samples()

FIRST = FOLDER / "first.sql"
"""A database of the first release, whose events were fewer and told less."""
AGAIN = "a stored shape changed: raise its version and add an upcaster, or see samples.py if it is unreleased"


def name_of(event: AnyEvent) -> str:
    return type(event).__name__


def test_every_event_type_has_one_sample() -> None:
    assert sorted(name_of(event) for event in SAMPLES) == sorted(kind.__name__ for kind in EVENTS.values())


@pytest.mark.parametrize("event", SAMPLES, ids=name_of)
def test_a_sample_shows_every_field_with_a_value_of_its_own(event: AnyEvent) -> None:
    for field in msgspec.structs.fields(type(event)):
        value = getattr(event, field.name)
        assert value != field.default, field.name
        if field.default_factory is not msgspec.NODEFAULT:
            assert value != field.default_factory(), field.name


@pytest.mark.parametrize("event", SAMPLES, ids=name_of)
def test_an_event_is_written_as_its_newest_sample(event: AnyEvent) -> None:
    newest = max(
        EVENTS_FOLDER.glob(f"{sample_file(event).name.partition('.')[0]}.*.json"),
        key=lambda path: int(path.suffixes[0][1:]),
    )
    assert newest == sample_file(event)
    assert newest.read_bytes().strip() == format_batch([event]), AGAIN


@pytest.mark.parametrize("path", sorted(EVENTS_FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_event_ever_released_loads(path: Path) -> None:
    (event,) = parse_batch(path.read_bytes())
    assert sample_file(event).name.partition(".")[0] == path.name.partition(".")[0]
    if sample_file(event) == path:  # an older shape says less
        assert event == next(sample for sample in SAMPLES if type(sample) is type(event))


def test_who_was_its_own_process_in_an_old_journal_still_is() -> None:
    registered, started = (
        parse_batch((EVENTS_FOLDER / f"{word}.1.json").read_bytes())[0]
        for word in ("agent_registered", "session_started")
    )
    assert isinstance(registered, AgentRegistered)
    assert isinstance(started, SessionStarted)
    assert (registered.owner, started.owner) == ("7.123", "7.123")
    nobody = (
        (EVENTS_FOLDER / "agent_registered.1.json").read_bytes().replace(b'"7.123",true', b'"7.123",false')
    )
    (event,) = parse_batch(nobody)
    assert isinstance(event, AgentRegistered)
    assert event.owner == ""


def test_the_samples_are_read_as_one_commit_too() -> None:
    assert parse_batch(format_batch(list(SAMPLES))) == list(SAMPLES)


# -- snapshots ----------------------------------------------------------------------------------------


def test_a_snapshot_is_written_and_read_as_it_stands_here() -> None:
    stored = SNAPSHOT.read_bytes()
    state = parse_snapshot(stored)
    assert sorted(state.names) == ["alice", "bob", "carol"]
    carol = state.agents[state.names["carol"]]
    assert state.former == {"caro": carol.id}
    assert list(carol.calls) == ["4"]
    assert {receipt.lease for receipt in carol.leased.values()} == set(carol.calls.values())
    assert format_snapshot(state) == stored, AGAIN


def test_a_snapshot_from_before_there_were_other_machines_loads() -> None:
    state = parse_snapshot((FOLDER / "former.1.msgpack").read_bytes())
    expected = parse_snapshot(SNAPSHOT.read_bytes())
    for agent in expected.agents.values():
        for receipt in (*agent.pending.values(), *agent.leased.values()):
            receipt.since = 0.0  # since when mail waits was not recorded then
    assert state == expected
    assert not state.machines


@pytest.mark.parametrize("path", sorted(FOLDER.glob("snapshot.*.msgpack")), ids=lambda path: path.name)
def test_a_snapshot_of_another_version_is_refused_not_misread(path: Path) -> None:
    version = int(path.suffixes[0][1:])
    if version == SNAPSHOT_VERSION:
        strange = msgspec.msgpack.decode(path.read_bytes())
        strange["version"] = version + 1
        content = msgspec.msgpack.encode(strange)
    else:
        content = path.read_bytes()
    with pytest.raises(msgspec.DecodeError):
        parse_snapshot(content)


# -- the database -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", sorted(FOLDER.glob("schema.*.sql")), ids=lambda path: path.name)
def test_every_database_ever_released_opens_with_all_that_is_in_it(sql: Path, tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    build(sql, path)
    journal = SqliteJournal(path)
    state = load_state(journal)
    expected = parse_snapshot(SNAPSHOT.read_bytes())
    (seq,) = (seq for seq in range(1, state.seq) if journal.settled(seq))
    bodies = [message.body for message in journal.messages(list(range(1, state.seq + 1)))]
    receipts = journal.settled(seq)
    journal.close()
    expected.now, expected.awake = state.now, state.awake
    assert state == expected, "the same history came to another state"
    assert bodies == ["read", '{"n":[1,"ä"]}', "fetched", "waits", "for later"]
    assert list(receipts.values()) == [FinalState("answered", "confirm", 1_000_010.0)]


def test_the_first_release_opens_without_its_snapshot_too(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    build(FIRST, path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("delete from snapshots")
        db.commit()
    journal = SqliteJournal(path)
    state = load_state(journal)
    bodies = [message.body for message in journal.messages(list(range(1, state.seq + 1)))]
    journal.close()
    assert sorted(state.names) == ["alice", "bob"]
    assert bodies == ["read", '{"n":[1,"ä"]}', "waits", "for later"]


def test_the_tables_are_the_ones_that_stand_here(tmp_path: Path) -> None:
    build(SCHEMA, tmp_path / "golden.db")
    SqliteJournal(tmp_path / "new.db").close()
    golden, new = (tables_of(tmp_path / name) for name in ("golden.db", "new.db"))
    assert new == golden, f"{AGAIN} (schema {SCHEMA_VERSION})"


def tables_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("select name, sql from sqlite_master where sql is not null").fetchall()
    return {name: re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)) for name, sql in rows}
