"""What every journal promises the engine; run on the SQLite one and on its twin in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tellwire.broker.engine import load_state
from tellwire.broker.ports import Journal
from tellwire.core.record.stored import FinalState, Header, StoredMessage
from tellwire.core.state import State, format_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AgentRegistered,
    BrokerStarted,
    MessageAnswered,
    MessagesExpired,
    MessagesRead,
)
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.contracts.journals import commit_of, fill, kept, queued, snapshot_at
from tests.unit.mesh import refused

Reopen = Callable[[], Journal]


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Gives the journal, and on each call the one a new process would find."""
    opened: list[Journal] = []
    memory = MemoryJournal()

    def open_again() -> Journal:
        while opened:
            opened.pop().close()
        opened.append(SqliteJournal(tmp_path / "tellwire.db") if request.param == "sqlite" else memory)
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()


def test_what_is_committed_is_replayed_in_order_by_the_next_process(reopen: Reopen) -> None:
    commits = fill(reopen(), 3)
    assert list(reopen().replay(0)) == kept(commits)
    assert list(reopen().replay(2)) == kept(commits[2:])
    assert list(reopen().replay(3)) == []


def test_an_empty_journal_has_nothing(reopen: Reopen) -> None:
    journal = reopen()
    assert list(journal.replay(0)) == []
    assert (journal.snapshots(), journal.header(1), journal.messages([1]), journal.settled(1)) == (
        [],
        None,
        [],
        {},
    )
    assert (journal.derived(), journal.derive(10), journal.purge(1e9, 1, 10).more) == (0, False, False)
    assert load_state(journal) == State()


def test_a_commit_of_several_events_stands_at_its_last(reopen: Reopen) -> None:
    journal = reopen()
    journal.commit(commit_of(1, BrokerStarted("x"), queued("a"), queued("b")))
    assert [commit.seq for commit in journal.replay(0)] == [3]
    assert [message.seq for message in journal.messages([2, 3])] == [2, 3]


def test_a_message_is_found_by_its_sequence_whole_and_as_a_header(reopen: Reopen) -> None:
    journal = reopen()
    fill(journal, 3, body='{"x":1}')
    assert journal.header(2) == Header(2, "a1", "alice", "bob", ("a2",), 2.0)
    (stored,) = reopen().messages([2])
    assert stored == StoredMessage.of(2, 2.0, queued(), '{"x":1}')
    record = stored.record()
    assert (record.id, record.body, record.context, record.re, record.mode) == (
        "m2",
        {"x": 1},
        [1],
        "m0",
        "agree",
    )


@pytest.mark.parametrize("seq", [0, 4, 2**60 - 1, 2**63 - 1])
def test_a_message_that_never_was_is_not_found(reopen: Reopen, seq: int) -> None:
    journal = reopen()
    fill(journal, 3)
    assert (journal.header(seq), journal.messages([seq]), journal.settled(seq)) == (None, [], {})


def test_many_messages_are_found_at_once_oldest_first(reopen: Reopen) -> None:
    journal = reopen()
    fill(journal, 1200)
    wanted = [*range(1200, 0, -1), 5000]
    found = [message.seq for message in journal.messages(wanted)]
    assert sorted(found) == list(range(1, 1201))
    assert journal.messages([]) == []


@pytest.mark.parametrize("body", ["", "\x00", "ä𝄞", "x" * 65536])
def test_any_text_comes_back_as_it_was(reopen: Reopen, body: str) -> None:
    journal = reopen()
    journal.commit(commit_of(1, queued(), body=body))
    assert reopen().messages([1])[0].body == body


# -- final receipts -----------------------------------------------------------------------------------


def settle_some(journal: Journal) -> None:
    fill(journal, 3)
    journal.commit(commit_of(4, MessagesRead("a2", [1, 2], "confirm"), at=10.0))
    journal.commit(commit_of(5, MessageAnswered("a2", 1), at=11.0))
    journal.commit(commit_of(6, MessagesExpired("a2", [3]), MessagesRead("a3", [1], "reply"), at=12.0))


def expect_settled(journal: Journal) -> None:
    assert journal.settled(1) == {
        "a2": FinalState("answered", "confirm", 11.0),
        "a3": FinalState("read", "reply", 12.0),
    }
    assert journal.settled(2) == {"a2": FinalState("read", "confirm", 10.0)}
    assert journal.settled(3) == {"a2": FinalState("expired", "", 12.0)}
    assert journal.settled(4) == {}


@pytest.mark.requirement("REC-1")
@pytest.mark.parametrize("step", [1, 2, 4, 100])
def test_final_receipts_are_the_same_before_during_and_after_deriving(reopen: Reopen, step: int) -> None:
    journal = reopen()
    settle_some(journal)
    expect_settled(journal)
    cursor = journal.derived()
    for _ in range(10):
        more = journal.derive(step)
        assert journal.derived() > cursor or not more
        cursor = journal.derived()
        expect_settled(journal)
        if not more:
            break
    assert journal.derived() == 7
    assert not journal.derive(step)
    expect_settled(reopen())


def test_what_settles_after_deriving_is_known_too(reopen: Reopen) -> None:
    journal = reopen()
    settle_some(journal)
    while journal.derive(100):
        pass
    journal.commit(commit_of(8, MessageAnswered("a2", 2), at=20.0))
    assert journal.settled(2) == {"a2": FinalState("answered", "confirm", 20.0)}
    while journal.derive(1):
        pass
    assert reopen().settled(2) == {"a2": FinalState("answered", "confirm", 20.0)}


# -- snapshots ----------------------------------------------------------------------------------------


def test_the_newest_two_snapshots_are_kept_newest_first(reopen: Reopen) -> None:
    journal = reopen()
    for seq in (1, 2, 3):
        fill(journal, 1, start=seq)
        snapshot_at(journal, seq)
    assert [seq for seq, _ in reopen().snapshots()] == [3, 2]


def test_a_snapshot_saved_twice_pushes_no_older_one_out(reopen: Reopen) -> None:
    journal = reopen()
    for seq in (1, 2):
        fill(journal, 1, start=seq)
        snapshot_at(journal, seq)
    snapshot_at(journal, 2)
    assert [seq for seq, _ in journal.snapshots()] == [2, 1]


def joined(journal: Journal, count: int) -> None:
    for seq in range(1, count + 1):
        journal.commit(commit_of(seq, AgentRegistered(f"n{seq}", "script", f"s{seq}")))


def test_a_state_is_the_same_from_a_snapshot_and_from_the_whole_journal(reopen: Reopen) -> None:
    journal = reopen()
    joined(journal, 5)
    whole = load_state(journal)
    joined_up_to_five = format_snapshot(whole)
    journal.save_snapshot(5, joined_up_to_five)
    journal.commit(commit_of(6, AgentRegistered("n6", "script", "s6")))
    state = load_state(reopen())
    assert (state.seq, list(state.names)) == (6, [f"n{number}" for number in range(1, 7)])


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x80", b"\x81\xa7version\x63"])
def test_a_snapshot_that_cannot_be_read_is_passed_over(reopen: Reopen, data: bytes) -> None:
    journal = reopen()
    joined(journal, 3)
    snapshot = format_snapshot(load_state(journal))
    journal.save_snapshot(3, snapshot)
    journal.commit(commit_of(4, AgentRegistered("n4", "script", "s4")))
    journal.save_snapshot(4, data)
    assert len(load_state(reopen()).agents) == 4


def test_a_snapshot_that_says_another_sequence_is_passed_over(reopen: Reopen) -> None:
    journal = reopen()
    joined(journal, 2)
    journal.save_snapshot(2, format_snapshot(State(seq=1)))
    assert len(load_state(reopen()).agents) == 2


# -- letting go ---------------------------------------------------------------------------------------


def prunable(journal: Journal, count: int = 10) -> None:
    fill(journal, count)
    snapshot_at(journal, count - 1)
    fill(journal, 1, start=count + 1)
    snapshot_at(journal, count + 1)
    while journal.derive(100):
        pass


def prune_all(journal: Journal, before: float, open_from: int) -> None:
    for _ in range(100):
        if not journal.purge(before, open_from, 3).more:
            return
    pytest.fail("pruning does not end")


def test_old_history_goes_in_bounded_steps_and_the_rest_can_be_replayed(reopen: Reopen) -> None:
    journal = reopen()
    prunable(journal)
    assert journal.purge(6.0, 100, 3).more
    assert [journal.header(seq) is None for seq in range(1, 12)] == [True] * 3 + [False] * 8
    prune_all(journal, 6.0, 100)
    journal = reopen()
    assert [seq for seq in range(1, 12) if journal.header(seq)] == [6, 7, 8, 9, 10, 11]
    assert [commit.seq for commit in journal.replay(9)] == [10, 11]
    journal.commit(commit_of(12, BrokerStarted("x")))
    assert load_state(reopen()).seq == 12


def test_history_grows_old_on_the_awake_clock(reopen: Reopen) -> None:
    journal = reopen()
    prunable(journal)  # each commit is half as old on the awake clock as by the time of day
    while journal.prune(3.0, 100, 3).more:
        pass
    assert [seq for seq in range(1, 12) if reopen().header(seq)] == [6, 7, 8, 9, 10, 11]


def test_what_was_written_while_the_clock_was_wrong_takes_nothing_younger_along(reopen: Reopen) -> None:
    journal = reopen()
    for seq, at in enumerate((100.0, 101.0, 5.0, 6.0, 102.0), 1):
        journal.commit(commit_of(seq, queued(), at=at))
    snapshot_at(journal, 5)
    while journal.derive(100):
        pass
    prune_all(journal, 50.0, 100)
    assert [seq for seq in range(1, 6) if journal.header(seq)] == [1, 2, 3, 4, 5]
    prune_all(journal, 102.0, 100)
    assert [seq for seq in range(1, 6) if journal.header(seq)] == [5]


def test_open_messages_stay_however_old_they_are(reopen: Reopen) -> None:
    journal = reopen()
    prunable(journal)
    prune_all(journal, 1e9, 4)
    assert [seq for seq in range(1, 12) if journal.header(seq)] == list(range(4, 12))


@pytest.mark.parametrize("missing", ["snapshot", "derived"])
def test_what_no_snapshot_or_derived_table_has_passed_stays(reopen: Reopen, missing: str) -> None:
    journal = reopen()
    fill(journal, 5)
    if missing == "snapshot":
        journal.derive(100)
    else:
        snapshot_at(journal, 5)
    assert not journal.purge(1e9, 100, 100).more
    assert len(list(reopen().replay(0))) == 5


def test_a_journal_goes_on_after_all_of_its_history_is_gone(reopen: Reopen) -> None:
    journal = reopen()
    fill(journal, 3)
    snapshot_at(journal, 3)
    while journal.derive(100):
        pass
    prune_all(journal, 1e9, 100)
    journal = reopen()
    assert (list(journal.replay(3)), journal.header(3)) == ([], None)
    journal.commit(commit_of(4, BrokerStarted("x")))
    journal = reopen()
    assert [commit.seq for commit in journal.replay(3)] == [4]
    assert load_state(journal).seq == 4


def test_history_that_is_gone_is_not_silently_replayed_from_its_middle(reopen: Reopen) -> None:
    journal = reopen()
    prunable(journal)
    prune_all(journal, 6.0, 100)
    with refused("database_corrupt"):
        list(reopen().replay(2))


# -- when it cannot be written ------------------------------------------------------------------------


def test_a_probe_changes_nothing(reopen: Reopen) -> None:
    journal = reopen()
    commits = fill(journal, 2)
    journal.probe()
    assert list(reopen().replay(0)) == kept(commits)


def test_a_fault_of_the_twin_leaves_nothing_of_the_commit() -> None:
    faults = [TellwireError("storage_full", "No room.")]

    def fault() -> None:
        if faults:
            raise faults[0]

    journal = MemoryJournal(fault=fault)
    for act in (lambda: fill(journal, 1), journal.probe):
        with refused("storage_full"):
            act()
    assert (list(journal.replay(0)), journal.header(1)) == ([], None)
    faults.clear()
    journal.probe()
    commits = fill(journal, 1)
    assert list(journal.replay(0)) == kept(commits)


# -- how much of whom ---------------------------------------------------------------------------------


def test_the_bytes_of_a_sender_are_counted_wherever_they_stand(reopen: Reopen) -> None:
    journal = reopen()
    for seq in range(1, 9):
        journal.commit(commit_of(seq, queued("x" * seq)))
    assert journal.kept() == {"a1": 36}
    while journal.derive(3):
        journal = reopen()
        assert journal.kept() == {"a1": 36}
    snapshot_at(journal, 8)
    assert journal.purge(4.0, 100, 2).freed == {"a1": 1 + 2}
    journal = reopen()
    assert journal.kept() == {"a1": 33}
    assert journal.prune(2.5, 100, 10).freed == {"a1": 3 + 4}
    journal = reopen()
    assert journal.kept() == {"a1": 26}
    journal.commit(commit_of(9, queued("xx")))
    assert journal.kept() == {"a1": 28}
    prune_all(journal, 8.5, 100)
    assert reopen().kept() == {"a1": 2}
