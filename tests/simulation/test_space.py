"""Room on the disk: what one sender may fill of it, and what is taken below the floor of free space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tellwire.broker.housekeeping import Housekeeping
from tellwire.broker.ownership import Space
from tellwire.core.context import Caller
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import ListAgents, RegisterAgent, UnregisterAgent, UpdateAgent
from tellwire.protocol.operations.history import PurgeHistory
from tellwire.protocol.operations.links import OpenLink
from tellwire.protocol.operations.messages import ConfirmMessages, PeekMessages, SendMessage, Sent
from tellwire.protocol.operations.topics import Subscribe
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.simulation.bench import Bench, offers
from tests.simulation.broker import Port

BODY = "x" * 40
MIB = 1 << 20


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "tellwire.db")
    yield Bench(journal, Limits(sender_bytes_max=100))
    journal.close()


def keeping_of(bench: Bench) -> Housekeeping:
    def fail(error: TellwireError) -> None:
        raise AssertionError(error)

    return Housekeeping(
        bench.life.engine,
        bench.tap.journal,
        retention_s=1e9,
        call_later=lambda _delay, _action: None,
        fatal=fail,
    )


# -- what one sender may fill -------------------------------------------------------------------------


@pytest.mark.requirement("SEC-3")
def test_a_sender_has_no_more_stored_than_it_may_and_others_have_their_own_room(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    first = SendMessage(to="bob", body=BODY, key="f4240-k")
    sent: Sent = bench.call(alice, first)
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).status == "received"
    refused = bench.call(alice, SendMessage(to="bob", body=BODY))
    assert (refused.code, "tellwire purge" in refused.advice) == ("storage_full", True)
    assert bench.call(alice, SendMessage(to=["bob"], body=BODY)).code == "storage_full"
    assert bench.call(alice, SendMessage(to="bob", body=BODY, direct=True)).code == "storage_full"
    assert bench.call(alice, first).id == sent.id, "a repeat is no further message"
    assert bench.call(alice, SendMessage(to="bob", body="x" * 20)).status == "received", "it fits"
    assert bench.call(bob, SendMessage(to="alice", body=BODY)).status == "received"
    assert bench.life.equals_journal()


@pytest.mark.requirement("SEC-3")
def test_what_is_sent_in_one_tick_counts_together(bench: Bench) -> None:
    alice = bench.join("alice")
    bench.join("bob")
    calls = [bench.submit(alice, SendMessage(to="bob", body=BODY)) for _ in range(5)]
    bench.life.run()
    said = dict(alice.heard)
    assert [isinstance(said[n], Sent) for n in calls] == [True, True, False, False, False]


@pytest.mark.requirement("SEC-3")
def test_the_bound_survives_a_restart_and_a_purge_makes_room(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    ids = [bench.call(alice, SendMessage(to="bob", body=BODY)).id for _ in range(2)]
    bench.call(bob, ConfirmMessages(ids=ids))
    for derived in (False, True):
        if derived:
            while bench.tap.journal.derive(10):
                pass
        bench.restart()
        alice, bob = bench.join("alice"), bench.join("bob")
        assert bench.call(alice, SendMessage(to="bob", body=BODY)).code == "storage_full"
    bench.time.pass_by(10.0)
    keeping = keeping_of(bench)
    while keeping.purge(PurgeHistory(older_than_s=0.0)).more:
        pass
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).status == "received"
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).status == "received"
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).code == "storage_full"
    bench.restart()
    alice = bench.join("alice")
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).code == "storage_full"


def test_a_tick_that_was_taken_back_does_not_count(bench: Bench) -> None:
    alice = bench.join("alice")
    bench.join("bob")
    bench.full()
    assert bench.call(alice, SendMessage(to="bob", body=BODY)).code == "storage_full"
    bench.works()
    bench.life.engine.probe()
    assert [bench.call(alice, SendMessage(to="bob", body=BODY)).status for _ in range(2)] == ["received"] * 2


# -- the floor ----------------------------------------------------------------------------------------


class Disk:
    """A disk of 10 GiB."""

    def __init__(self, bench: Bench, free: int = 1 << 30) -> None:
        self.free = free
        self.total = 10 << 30
        self.space = Space(
            bench.life.engine, Path("/home"), 256 * MIB, look=lambda _: (self.total, 0, self.free)
        )

    def has(self, free: int) -> None:
        self.free = free
        self.space.beat()


@pytest.mark.requirement("SEC-3")
def test_below_the_floor_receipts_and_the_operators_mail_are_taken_and_nothing_else(bench: Bench) -> None:
    disk = Disk(bench)
    alice, bob = bench.join("alice"), bench.join("bob")
    sent = bench.call(alice, SendMessage(to="bob", body="before"))
    person = Port(bench.life)
    person.caller = Caller(kind="operator")
    disk.has(255 * MIB)
    for refused in (
        SendMessage(to="bob", body="x"),
        Subscribe(topic="t"),
        UpdateAgent(metadata={"x": "y"}),
        OpenLink(members=["bob"]),
    ):
        said = bench.call(alice, refused)
        assert (said.code, "tellwire purge" in said.advice) == ("storage_full", True), refused
    assert bench.call(Port(bench.life), RegisterAgent(name="new", session="s")).code == "storage_full"
    assert bench.call(bob, ConfirmMessages(ids=[sent.id])).count == 1
    assert [each.body for each in bench.call(bob, PeekMessages()).messages] == []
    assert [each.name for each in bench.call(alice, ListAgents()).agents] == ["bob"]
    bench.call(person, RegisterAgent(name="operator", session="s-op"))
    assert bench.call(person, SendMessage(to="bob", body="make room")).status == "received"
    assert offers(bob) == ["before", "make room"]
    assert not isinstance(bench.call(bob, UnregisterAgent()), TellwireError)
    assert not isinstance(bench.join("bob").caller.agent, TellwireError), "who is known can come back"
    assert bench.life.engine.storage.error is None
    disk.has(260 * MIB)
    assert bench.call(alice, SendMessage(to="bob", body="x")).code == "storage_full", "not at the very edge"
    disk.has(300 * MIB)
    assert bench.call(alice, SendMessage(to="bob", body="x")).status == "received"
    assert bench.life.equals_journal()


def test_a_session_that_breaks_off_below_the_floor_is_over(bench: Bench) -> None:
    disk = Disk(bench)
    bench.join("alice")
    bob = bench.join("bob")
    disk.has(MIB)
    bench.end(bob, "bob")
    bench.life.run()
    assert not bench.agent("bob").online


def test_of_a_small_disk_only_a_small_share_is_kept_free(bench: Bench) -> None:
    disk = Disk(bench)
    disk.total = 100 * MIB
    disk.has(6 * MIB)
    assert bench.life.engine.storage.low is None
    disk.has(4 * MIB)
    assert bench.life.engine.storage.low is not None
