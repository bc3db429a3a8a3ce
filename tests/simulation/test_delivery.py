"""Hand-over in the tick, slow readers, takeovers, and the work done in idle moments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tellwire.broker import housekeeping
from tellwire.broker.housekeeping import Housekeeping
from tellwire.core.limits import Limits
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import RegisterAgent, UnregisterAgent
from tellwire.protocol.operations.base import Reply
from tellwire.protocol.operations.broker import BrokerStatus
from tellwire.protocol.operations.messages import ClaimMessages, ConfirmMessages, Offer, SendMessage
from tellwire.store.chain import load_head
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.simulation.bench import Bench, offers, repeats
from tests.simulation.broker import Port


@pytest.fixture
def bench() -> Bench:
    return Bench(MemoryJournal(), Limits(window_messages_max=3))


def send(bench: Bench, port: Port, *bodies: str, to: str = "bob") -> list[str]:
    return [bench.call(port, SendMessage(to=to, body=body)).id for body in bodies]


@pytest.mark.requirement("AUD-6")
def test_a_message_and_its_hand_over_share_one_commit(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    before = len(list(bench.tap.replay(0)))
    send(bench, alice, "hi")
    assert (offers(bob), len(list(bench.tap.replay(0)))) == (["hi"], before + 1)


def test_a_client_that_does_not_read_is_offered_nothing_until_it_does(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bob.writable = False
    send(bench, alice, "one", "two")
    assert (offers(bob), len(bench.agent("bob").pending)) == ([], 2)
    bob.writable = True
    bench.life.engine.delivery.dirty.add(bob.caller.agent)
    bench.life.engine.wake()
    bench.life.run()
    assert offers(bob) == ["one", "two"]


@pytest.mark.requirement("SEC-3", "NET-6")
def test_the_window_moves_on_as_messages_are_confirmed_and_says_what_waits(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    messages = send(bench, alice, *"abcde")
    assert offers(bob) == ["a", "b", "c"]
    bench.call(bob, ConfirmMessages(ids=messages[:2]))
    assert offers(bob) == ["a", "b", "c", "d", "e"]
    alone = bench.join("carol")
    bench.end(alone, "carol")
    bench.life.run()
    send(bench, alice, *"vwxyz", to="carol")
    again = bench.join("carol")
    first = next(said for _, said in again.heard if isinstance(said, Offer))
    assert (offers(again), first.waiting) == (["v", "w", "x"], 2)


def test_a_takeover_dismisses_the_old_connection_and_offers_to_the_new_one_only(bench: Bench) -> None:
    alice, old = bench.join("alice"), bench.join("bob")
    (message,) = send(bench, alice, "hi")
    bench.call(old, ClaimMessages(ids=[message]))
    new = bench.join("bob")
    assert (old.farewell, old.caller.agent, new.caller.is_own_client) == ("session_replaced", "", True)
    assert (offers(new), repeats(new)) == (["hi"], [False]), "the same session knows what it has shown"
    send(bench, alice, "more")
    assert (offers(old), offers(new)) == (["hi"], ["hi", "more"])
    bench.end(old, "bob")
    bench.life.run()
    assert bench.agent("bob").online, "the end of the old connection ends nothing"


@pytest.mark.requirement("REC-3")
def test_two_connections_of_one_session_in_one_tick_get_a_message_once(bench: Bench) -> None:
    alice, first = bench.join("alice"), bench.join("bob")
    bench.end(first, "bob")
    bench.life.run()
    send(bench, alice, "hi")
    ports = [Port(bench.life), Port(bench.life)]
    for port in ports:
        bench.submit(port, RegisterAgent(name="bob", session="s-bob"))
    bench.life.run()
    assert [offers(port) for port in ports] == [[], ["hi"]]
    assert ports[0].farewell == "session_replaced"


def test_who_has_left_speaks_as_nobody_and_may_join_again(bench: Bench) -> None:
    bench.join("alice")
    bob = bench.join("bob")
    bench.call(bob, UnregisterAgent())
    assert bob.caller.agent == ""
    assert bench.call(bob, SendMessage(to="alice", body="hi")).code == "not_registered"
    assert bench.call(bob, RegisterAgent(name="bob", session="again")).name == "bob"
    assert bob.caller.is_own_client


def test_the_broker_survives_a_decision_that_fails(bench: Bench) -> None:
    alice = bench.join("alice")
    bench.join("bob")

    def broken(_command: object) -> Reply:
        raise RuntimeError("as the test wants it")

    bench.life.engine.handlers.answer(BrokerStatus, broken)
    assert bench.call(alice, BrokerStatus()).code == "internal"
    assert send(bench, alice, "hi")
    assert bench.life.equals_journal()


# -- idle moments -------------------------------------------------------------------------------------


class Idle:
    """Housekeeping with a hand-turned timer."""

    def __init__(self, bench: Bench) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.time = bench.time
        self.keeping = Housekeeping(
            bench.life.engine,
            bench.tap.journal,
            retention_s=100.0,
            call_later=lambda delay, act: self.timers.append((delay, act)),
            fatal=self._die,
        )
        bench.life.engine.commits.observe(self.keeping.after_commit)

    def rest(self) -> None:
        for _ in range(1000):
            if not self.timers:
                return
            delay, act = self.timers.pop(0)
            self.time.pass_by(delay)
            act()
        pytest.fail("housekeeping never rests")

    def _die(self, error: TellwireError) -> None:
        raise AssertionError(error)


@pytest.mark.requirement("NET-11", stage="shell")
def test_the_proof_follows_the_journal_also_if_it_is_never_idle(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    bench = Bench(SqliteJournal(path), Limits())
    idle = Idle(bench)
    alice, _bob = bench.join("alice"), bench.join("bob")
    for _ in range(300):  # 20 ms each: six seconds in which something is committed before every look
        send(bench, alice, "more")
        delay, act = idle.timers.pop(0)
        idle.time.pass_by(delay)
        act()
    head = load_head(path)
    assert head is not None
    assert bench.life.engine.state.seq - head.seq <= 150  # two seconds' worth


def test_the_proof_is_written_once_a_second_under_load_for_it_costs_a_sync(tmp_path: Path) -> None:
    path = tmp_path / "tellwire.db"
    bench = Bench(SqliteJournal(path), Limits())
    idle = Idle(bench)
    alice, _bob = bench.join("alice"), bench.join("bob")
    monotonic = bench.life.engine.clock.monotonic
    began, heads = monotonic(), set[int]()
    while monotonic() - began < 6.0:
        send(bench, alice, "more")
        delay, act = idle.timers.pop(0)
        idle.time.pass_by(delay)
        act()
        heads |= {head.seq for head in [load_head(path)] if head is not None}
    assert len(heads) <= 8


def test_idle_moments_fill_the_derived_tables_and_come_to_rest(bench: Bench) -> None:
    idle = Idle(bench)
    alice, bob = bench.join("alice"), bench.join("bob")
    messages = send(bench, alice, "a", "b")
    bench.call(bob, ConfirmMessages(ids=messages))
    idle.rest()
    assert bench.tap.derived() == bench.life.state.seq


def test_a_snapshot_at_a_clean_stop_leaves_nothing_to_replay(bench: Bench) -> None:
    idle = Idle(bench)
    alice = bench.join("alice")
    bench.join("bob")
    send(bench, alice, "a")
    idle.keeping.finish()
    (newest, _data), *_rest = bench.tap.snapshots()
    assert newest == bench.life.state.seq
    assert list(bench.tap.replay(newest)) == []
    assert bench.life.equals_journal()


def test_a_full_disk_puts_housekeeping_off_and_harms_nothing(bench: Bench) -> None:
    idle = Idle(bench)
    alice = bench.join("alice")
    bench.full()
    bench.call(alice, SendMessage(to="nobody", body="x"))
    bench.call(alice, RegisterAgent(name="x", session="y"))
    idle.rest()
    idle.keeping.finish()
    bench.works()
    bench.life.engine.probe()
    bench.join("bob")
    idle.rest()
    assert bench.tap.derived() == bench.life.state.seq


def test_history_goes_after_its_time_and_open_mail_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SNAPSHOT_EVENTS", 5)
    journal = SqliteJournal(tmp_path / "tellwire.db")
    bench = Bench(journal, Limits(ttl_s=1e6))
    idle = Idle(bench)
    alice, bob = bench.join("alice"), bench.join("bob")
    old = send(bench, alice, *"abcdef")
    bench.call(bob, ConfirmMessages(ids=old[:5]))
    idle.rest()
    bench.life.engine.clock.awake += 1e6  # it ran for so long
    for _ in range(3):
        recent = send(bench, alice, *"uvwxyz", to="bob")
        bench.call(bob, ConfirmMessages(ids=recent))
        idle.rest()
    bench.life.engine.clock.awake += 4000
    send(bench, alice, "last")
    idle.rest()
    kept = {message.body for message in journal.messages(list(range(1, bench.life.state.seq + 1)))}
    assert "f" in kept, "open mail stays however old it is"
    assert "a" not in kept
    assert bench.life.equals_journal()
    journal.close()
