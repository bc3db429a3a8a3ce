"""When the disk says no: the tick never was, reads go on, and everything resumes once it clears."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.core.context import ExpireDue, MarkSilent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import BrokerStarted, SessionStarted, parse_batch
from tellwire.protocol.operations.agents import (
    GetAgent,
    Heartbeat,
    ListAgents,
    RegisterAgent,
    UnregisterAgent,
)
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus, StopBroker
from tellwire.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    MessageStatus,
    PeekMessages,
    SendMessage,
    Sent,
)
from tellwire.protocol.operations.topics import Subscribe
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.simulation.bench import Bench, offers, repeats
from tests.simulation.broker import Crash, Life, Port, Time


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "tellwire.db")
    yield Bench(journal)
    journal.close()


@pytest.mark.requirement("AUD-6", "SEC-3")
def test_a_tick_that_cannot_be_stored_is_refused_whole_and_leaves_no_trace(bench: Bench) -> None:
    alice, bob, stranger = bench.join("alice"), bench.join("bob"), Port(bench.life)
    bench.full()
    calls = {
        bench.submit(alice, SendMessage(to="bob", body="lost")): alice,
        bench.submit(bob, Subscribe(topic="t")): bob,
        bench.submit(stranger, RegisterAgent(name="carol", session="c")): stranger,
    }
    bench.life.run()
    for n, port in calls.items():
        said = dict(port.heard)[n]
        assert isinstance(said, TellwireError)
        assert said.code == "storage_full"
    assert offers(bob) == []
    assert (stranger.caller.agent, stranger.caller.is_own_client) == ("", False)
    assert bench.life.state.find("carol") is None
    assert bench.life.equals_journal()
    assert bench.life.engine.storage.error is not None


def test_while_nothing_can_be_stored_everything_can_be_read(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    message = bench.call(alice, SendMessage(to="bob", body="hi")).id
    bench.full()
    assert bench.call(alice, SendMessage(to="bob", body="lost")).code == "storage_full"
    assert bench.call(alice, SendMessage(to="bob", body="lost too")).code == "storage_full"
    assert [record.name for record in bench.call(alice, ListAgents()).agents] == ["bob"]
    assert bench.call(alice, GetAgent(name="bob")).status == "online"
    assert [record.body for record in bench.call(bob, PeekMessages()).messages] == ["hi"]
    assert bench.call(alice, MessageStatus(id=message)).recipients[0].state == "delivered"
    assert bench.call(bob, ClaimMessages(ids=[message])).ids == [message]
    assert not isinstance(bench.call(bob, Heartbeat()), TellwireError)
    assert bench.life.equals_journal()


def test_a_repeat_of_what_was_stored_before_is_answered_although_the_disk_is_full(bench: Bench) -> None:
    alice = bench.join("alice")
    bench.join("bob")
    send = SendMessage(to="bob", body="hi", key="f4240-k")
    first: Sent = bench.call(alice, send)
    bench.full()
    assert bench.call(alice, SendMessage(to="bob", body="lost")).code == "storage_full"
    assert bench.call(alice, send).id == first.id


def test_a_repeat_in_the_very_tick_that_fails_is_not_told_that_nothing_was_stored(bench: Bench) -> None:
    alice = bench.join("alice")
    bench.join("bob")
    send = SendMessage(to="bob", body="hi", key="f4240-k")
    first: Sent = bench.call(alice, send)
    bench.full()
    repeat = bench.submit(alice, send)
    fresh = bench.submit(alice, SendMessage(to="bob", body="lost"))
    bench.life.run()
    heard: dict[int, Any] = dict(alice.heard)
    assert heard[fresh].code == "storage_full"
    assert isinstance(heard[repeat], Sent)
    assert heard[repeat].id == first.id


def test_after_recovery_everything_goes_on(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.full()
    bench.call(alice, SendMessage(to="bob", body="lost"))
    assert not bench.life.engine.probe()
    bench.works()
    assert bench.call(alice, SendMessage(to="bob", body="too early")).code == "storage_full"
    assert bench.life.engine.probe()
    assert bench.life.engine.storage.error is None
    assert bench.call(alice, SendMessage(to="bob", body="now")).status == "received"
    assert offers(bob) == ["now"]
    assert bench.life.equals_journal()


def test_mail_that_waited_is_offered_after_recovery(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bob.writable = False
    bench.call(alice, SendMessage(to="bob", body="waits"))
    bench.full()
    bench.call(alice, SendMessage(to="bob", body="lost"))
    bob.writable = True
    bench.life.engine.delivery.dirty.add(bob.caller.agent)
    bench.life.engine.wake()
    bench.life.run()
    assert offers(bob) == []
    bench.works()
    bench.life.engine.probe()
    bench.life.run()
    assert offers(bob) == ["waits"]


@pytest.mark.parametrize("already_full", [True, False])
def test_a_session_that_ends_meanwhile_ends_after_recovery(bench: Bench, already_full: bool) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.full()
    if already_full:
        bench.call(alice, SendMessage(to="bob", body="lost"))
    bench.end(bob, "bob")
    bench.life.run()
    agent = bench.agent("bob")
    assert agent.online, "nothing was stored, so nothing happened yet"
    bench.works()
    bench.life.engine.probe()
    bench.life.run()
    agent = bench.agent("bob")
    assert (agent.online, agent.offline_reason) == (False, "disconnected")
    assert bench.life.engine.delivery.sessions.keys() == {alice.caller.agent}
    assert bench.life.equals_journal()


def test_a_session_that_ends_in_a_tick_that_fails_by_a_bug_ends_at_the_next_beat(bench: Bench) -> None:
    bench.join("alice")
    bob = bench.join("bob")
    bench.full("internal")
    bench.end(bob, "bob")
    bench.life.run()
    bench.works()
    assert bench.life.engine.probe()
    bench.life.run()
    agent = bench.agent("bob")
    assert not agent.online


def test_the_end_of_a_session_that_came_back_meanwhile_is_void(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.full()
    bench.call(alice, SendMessage(to="bob", body="lost"))
    bench.end(bob, "bob")
    bench.life.run()
    bench.works()
    bench.life.engine.storage.error = None
    again = bench.join("bob")
    bench.life.engine.probe()
    bench.life.run()
    agent = bench.agent("bob")
    assert agent.online
    assert again.caller.is_own_client


@pytest.mark.requirement("REC-2")
@pytest.mark.parametrize("way", ["confirm", "leave"])
def test_what_was_shown_is_marked_as_a_repeat_although_a_failed_tick_came_between(
    bench: Bench, way: str
) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    message = bench.call(alice, SendMessage(to="bob", body="hi")).id
    bench.call(bob, ClaimMessages(ids=[message]))
    bench.full()
    refused = ConfirmMessages(ids=[message]) if way == "confirm" else UnregisterAgent()
    assert bench.call(bob, refused).code == "storage_full"
    bench.works()
    bench.life.engine.probe()
    bench.end(bob, "bob")
    bench.life.run()
    other = bench.join("bob", "another")
    assert (offers(other), repeats(other)) == (["hi"], [True])


def test_a_refused_takeover_leaves_the_earlier_session_in_place(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.full()
    again = Port(bench.life)
    assert bench.call(again, RegisterAgent(name="bob", session="s-bob")).code == "storage_full"
    assert (again.caller.is_own_client, bob.caller.is_own_client, bob.farewell) == (False, True, "")
    bench.works()
    bench.life.engine.probe()
    assert bench.call(alice, SendMessage(to="bob", body="hi")).status == "received"
    assert (offers(bob), offers(again)) == (["hi"], [])


def test_the_brokers_own_commands_may_fail_without_harm(bench: Bench) -> None:
    bob = bench.join("bob")
    bench.full()
    bench.life.engine.submit_own(MarkSilent(bob.caller.agent))
    bench.life.engine.submit_own(ExpireDue())
    bench.life.run()
    assert bench.life.equals_journal()
    bench.works()
    assert bench.life.engine.probe()
    bench.life.engine.submit_own(MarkSilent(bob.caller.agent))
    bench.life.run()
    assert not bench.life.state.agents[bob.caller.agent].online


@pytest.mark.parametrize("at", ["commit", "probe"])
def test_an_error_of_the_sync_itself_stops_the_broker_at_once(bench: Bench, at: str) -> None:
    alice = bench.join("alice")
    if at == "probe":
        bench.full()
        bench.call(alice, Subscribe(topic="t"))
    bench.full("storage_broken")
    heard = len(alice.heard)
    act = bench.life.engine.probe if at == "probe" else lambda: bench.call(alice, Subscribe(topic="t"))
    with pytest.raises(Crash, match="storage_broken"):
        act()
    assert len(alice.heard) == heard, "nobody hears of what may not be on disk"


def test_a_broker_that_cannot_store_its_start_does_not_start(bench: Bench) -> None:
    bench.full()
    with pytest.raises(TellwireError) as caught:
        Life(bench.tap, Time())
    assert caught.value.code == "storage_full"


def test_the_broker_answers_for_itself_to_whom_it_may(bench: Bench) -> None:
    status = BrokerState(
        pid=1, version="x", uptime_s=0.0, agents=0, online=0, pending=0, connections=0, sequence=0
    )
    for operation in (BrokerStatus, StopBroker):
        bench.life.engine.handlers.answer(operation, lambda _: status)
    alice = bench.join("alice")
    assert bench.call(alice, BrokerStatus()) is status
    assert bench.call(alice, StopBroker()).code == "forbidden"
    assert bench.call(Port(bench.life), StopBroker()) is status


def test_every_life_begins_with_one_commit(bench: Bench) -> None:
    seq = bench.life.state.seq
    Life(bench.tap, bench.life.time)
    (commit,) = bench.tap.replay(seq)
    began, operator = parse_batch(commit.data)
    assert (commit.seq, began) == (seq + 2, BrokerStarted("simulated"))
    assert isinstance(operator, SessionStarted), "a person can be written to from the beginning"
