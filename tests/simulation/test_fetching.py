"""Clients that fetch their mail, on the real engine: news after commits, crashes, full disks, take-overs."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller, MarkAlive, MarkSilent, NoteEvidence, ReturnLease
from tellwire.core.limits import Limits
from tellwire.protocol.operations.agents import GetAgent, RegisterAgent, UpdateAgent
from tellwire.protocol.operations.messages import (
    ConfirmMessages,
    MessageStatus,
    SendMessage,
    TakeMessages,
    Taken,
)
from tellwire.store.memory_journal import MemoryJournal
from tests.simulation.bench import Bench, offers, told
from tests.simulation.broker import Crash, Port


@pytest.fixture
def bench() -> Bench:
    return Bench(MemoryJournal(), Limits(window_messages_max=3))


def send(bench: Bench, port: Port, *bodies: str, to: str = "bob") -> list[str]:
    return [bench.call(port, SendMessage(to=to, body=body)).id for body in bodies]


def take(bench: Bench, port: Port, call: str, **fields: Any) -> list[str]:
    reply = bench.call(port, TakeMessages(call=call, **fields))
    assert isinstance(reply, Taken), reply
    return [record.body for record in reply.messages]


def note(bench: Bench, *calls: str, name: str = "bob") -> None:
    agent = bench.agent(name)
    bench.life.engine.submit_own(NoteEvidence(agent.id, agent.session, list(calls), "next_call"))
    bench.life.run()


def give_back(bench: Bench, call: str, name: str = "bob") -> None:
    agent = bench.agent(name)
    bench.life.engine.submit_own(ReturnLease(agent.id, agent.session, call))
    bench.life.run()


def status(bench: Bench, port: Port, message: str) -> str:
    return bench.call(port, MessageStatus(id=message)).recipients[0].state


# -- news ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-6")
def test_a_client_that_fetches_is_told_that_mail_waits_and_gets_none_unasked(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    assert told(bob) == [], "nothing waits"
    send(bench, alice, "a", "b")
    assert (offers(bob), told(bob), len(bench.agent("bob").pending)) == ([], [1, 2], 2)
    bench.call(bob, GetAgent(name="alice"))
    assert told(bob) == [1, 2], "told once"


def test_news_comes_whenever_something_can_be_fetched_anew(bench: Bench) -> None:
    alice, first = bench.join("alice"), bench.join("bob", pulls=True)
    bench.end(first, "bob")
    bench.life.run()
    send(bench, alice, "a", "b")
    assert told(first) == []
    bob = bench.join("bob", pulls=True)
    assert told(bob) == [2], "at coming back"
    take(bench, bob, "1", limit=1)
    assert told(bob) == [2], "who fetches knows what is left"
    note(bench, "1")
    assert told(bob) == [2, 1], "what waited for the first may come now"
    take(bench, bob, "2")
    note(bench, "2")
    assert told(bob) == [2, 1], "nothing waits"
    send(bench, alice, "c")
    take(bench, bob, "3")
    give_back(bench, "3")
    assert told(bob) == [2, 1, 1, 1], "what was given back waits"


def test_a_silent_client_is_told_when_it_shows_life(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    bench.life.engine.submit_own(MarkSilent(bob.caller.agent))
    send(bench, alice, "a")
    count = len(told(bob))
    bench.life.engine.submit_own(MarkAlive(bob.caller.agent))
    bench.life.run()
    assert len(told(bob)) == count + 1


def test_a_client_that_comes_back_to_be_pushed_to_gets_what_it_had_fetched(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    send(bench, alice, "a", "b")
    take(bench, bob, "1", limit=1)
    again = bench.join("bob")
    assert (offers(again), told(again)) == (["a", "b"], [])


# -- fetching -----------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-3", stage="mcp")
def test_what_is_sent_and_fetched_and_read_in_one_tick_is_one_commit(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    commits = len(list(bench.tap.replay(0)))
    sent = bench.submit(alice, SendMessage(to="bob", body="a"))
    taken = bench.submit(bob, TakeMessages(call="1"))
    bench.life.engine.submit_own(NoteEvidence(bob.caller.agent, "s-bob", ["1"], "next_call"))
    bench.life.run()
    reply: Any = dict(bob.heard)[taken]
    assert [record.body for record in reply.messages] == ["a"]
    message: Any = dict(alice.heard)[sent]
    assert status(bench, alice, message.id) == "read"
    assert len(list(bench.tap.replay(0))) == commits + 1
    assert bench.life.equals_journal()


@pytest.mark.requirement("REC-3", stage="mcp")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_sent_again_after_a_crash_gets_its_messages_once(bench: Bench, moment: str) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    messages = send(bench, alice, "a", "b")
    bench.tap.fate = lambda: moment
    bench.submit(bob, TakeMessages(call="1", limit=1))
    with pytest.raises(Crash):
        bench.life.run()
    assert not any(isinstance(said, Taken) for _, said in bob.heard), "spoke before it was on disk"
    bench.works()
    bench.restart()
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    assert take(bench, bob, "1", limit=1) == ["a"]
    assert take(bench, bob, "1", limit=1) == ["a"], "and again the same"
    assert take(bench, bob, "2") == [], "not by another call"
    note(bench, "1")
    assert [status(bench, alice, message) for message in messages] == ["read", "pending"]
    assert take(bench, bob, "3") == ["b"]
    assert bench.life.equals_journal()


@pytest.mark.requirement("REC-2", stage="mcp")
@pytest.mark.parametrize("command", ["evidence", "return"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_evidence_and_returns_can_be_said_again_after_a_crash(
    bench: Bench, moment: str, command: str
) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    (message,) = send(bench, alice, "a")
    take(bench, bob, "1")
    say = note if command == "evidence" else give_back
    bench.tap.fate = lambda: moment
    with pytest.raises(Crash):
        say(bench, "1")
    bench.works()
    bench.restart()
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    say(bench, "1")
    assert status(bench, alice, message) == ("read" if command == "evidence" else "pending")
    assert take(bench, bob, "2") == ([] if command == "evidence" else ["a"])


def test_the_window_counts_for_those_who_fetch_and_confirming_opens_it(bench: Bench) -> None:
    alice, bob, carol = bench.join("alice"), bench.join("bob", pulls=True), bench.join("carol")
    first = send(bench, alice, "a", "b", "c")
    send(bench, carol, "d")
    take(bench, bob, "1")
    assert take(bench, bob, "2") == []
    assert bench.call(bob, ConfirmMessages(ids=first[:1])).count == 1
    assert take(bench, bob, "3") == ["d"]


# -- a full disk --------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-3")
def test_on_a_full_disk_nothing_is_fetched_but_a_repeat_is_answered(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    send(bench, alice, "a", "b")
    assert take(bench, bob, "1", limit=1) == ["a"]
    note(bench, "1")
    assert take(bench, bob, "2") == ["b"]
    bench.full()
    bench.call(alice, SendMessage(to="bob", body="lost"))
    assert take(bench, bob, "2") == ["b"]
    carol = Port(bench.life)
    assert bench.call(carol, RegisterAgent(name="carol", session="c", pulls=True)).code == "storage_full"
    count = len(told(bob))
    bench.works()
    bench.life.engine.probe()
    send(bench, alice, "c")
    assert len(told(bob)) > count
    assert bench.life.equals_journal()


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("already", [True, False])
@pytest.mark.parametrize("command", ["evidence", "return"])
def test_evidence_and_returns_wait_for_a_full_disk(bench: Bench, command: str, already: bool) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    (message,) = send(bench, alice, "a")
    take(bench, bob, "1")
    bench.full()
    if already:
        bench.call(alice, SendMessage(to="bob", body="lost"))
    (note if command == "evidence" else give_back)(bench, "1")
    assert status(bench, alice, message) == "delivered"
    bench.works()
    bench.life.engine.probe()
    bench.life.run()
    assert status(bench, alice, message) == ("read" if command == "evidence" else "pending")
    assert bench.life.equals_journal()


# -- going on as another agent ------------------------------------------------------------------------


def absent(bench: Bench) -> tuple[Port, Port]:
    """Old has gone and mail waits for it; new fetches."""
    alice, old = bench.join("alice"), bench.join("old")
    bench.end(old, "old")
    bench.life.run()
    send(bench, alice, "waits", to="old")
    return alice, bench.join("new", pulls=True)


def operator(bench: Bench) -> Port:
    """Only the operator may have an agent go on as one that is away."""
    port = Port(bench.life)
    port.caller = Caller(kind="operator")
    return port


BY_OPERATOR = UpdateAgent(agent="new", name="old")


def test_a_connection_goes_along_when_its_agent_goes_on_as_another(bench: Bench) -> None:
    alice, new = absent(bench)
    before = new.caller.agent
    record = bench.call(operator(bench), BY_OPERATOR)
    assert (new.caller.agent, new.caller.is_own_client, told(new)) == (record.id, True, [1])
    assert set(bench.life.engine.delivery.sessions) == {alice.caller.agent, record.id}
    assert take(bench, new, "1") == ["waits"]
    send(bench, alice, "more", to="old")
    assert told(new) == [1, 1]
    assert before not in bench.life.state.agents
    bench.end(new, "new")
    bench.life.run()
    agent = bench.agent("old")
    assert (agent.online, len(agent.pending), new.caller.agent) == (False, 2, "")
    assert bench.life.equals_journal()


def test_an_update_that_is_no_take_over_leaves_the_session_as_it_is(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    before = bench.life.engine.delivery.sessions[bob.caller.agent]
    bench.call(bob, UpdateAgent(name="robert", metadata={"a": 1}))
    assert bench.life.engine.delivery.sessions[bob.caller.agent] is before, "with all that it has claimed"
    send(bench, alice, "a", to="robert")
    assert told(bob) == [1]


def test_who_only_speaks_for_an_agent_takes_neither_its_mail_nor_its_connection(bench: Bench) -> None:
    alice, bob = bench.join("alice"), bench.join("bob", pulls=True)
    send(bench, alice, "a")
    child = Port(bench.life)
    child.caller = Caller(kind="agent", agent=bob.caller.agent, ancestor=bob.caller.agent)
    assert bench.call(child, RegisterAgent(name="bob", session="child", pulls=True)).attached
    assert (child.caller.agent, child.caller.is_own_client) == (bob.caller.agent, False)
    assert bench.call(child, TakeMessages(call="1")).code == "forbidden"
    bench.call(child, UpdateAgent(metadata={"a": 1}))
    assert bench.life.engine.delivery.sessions[bob.caller.agent].source is bob
    assert take(bench, bob, "1") == ["a"]


def test_a_session_finds_the_other_agent_again_after_a_crash(bench: Bench) -> None:
    absent(bench)
    bench.tap.fate = lambda: "after"
    bench.submit(operator(bench), BY_OPERATOR)
    with pytest.raises(Crash):
        bench.life.run()
    bench.works()
    bench.restart()
    port = Port(bench.life)
    reply = bench.call(port, RegisterAgent(name="new", session="s-new", pulls=True))
    assert reply.name == "old"
    assert bench.call(port, UpdateAgent(name="old")).id == reply.id
    assert take(bench, port, "1") == ["waits"]


def test_a_take_over_that_cannot_be_stored_never_was(bench: Bench) -> None:
    alice, new = absent(bench)
    before = new.caller.agent
    bench.full()
    assert bench.call(operator(bench), BY_OPERATOR).code == "storage_full"
    assert (new.caller.agent, new.caller.is_own_client) == (before, True)
    assert set(bench.life.engine.delivery.sessions) == {alice.caller.agent, before}
    bench.works()
    bench.life.engine.probe()
    send(bench, alice, "mine", to="new")
    assert take(bench, new, "1") == ["mine"]
    assert bench.life.equals_journal()


def test_joining_and_a_take_over_in_one_tick_that_cannot_be_stored_never_were(bench: Bench) -> None:
    alice, _ = absent(bench)
    port = Port(bench.life)
    bench.full()
    bench.submit(port, RegisterAgent(name="third", session="3"))
    bench.submit(port, UpdateAgent(name="old"))
    bench.life.run()
    assert (port.caller.agent, port.caller.is_own_client) == ("", False)
    assert bench.agent("old").id not in bench.life.engine.delivery.sessions
    bench.works()
    bench.life.engine.probe()
    bench.life.run()
    assert bench.call(port, RegisterAgent(name="third", session="3")).name == "third"
    assert alice.caller.is_own_client


def test_who_was_silent_is_dismissed_when_another_goes_on_as_it(bench: Bench) -> None:
    old = bench.join("old")
    bench.join("new")
    bench.life.engine.submit_own(MarkSilent(old.caller.agent))
    bench.life.run()
    bench.call(operator(bench), BY_OPERATOR)
    assert (old.farewell, old.caller.agent) == ("session_replaced", "")
    bench.end(old, "old")
    bench.life.run()
    assert bench.agent("old").online, "the end of the old connection ends nothing"
