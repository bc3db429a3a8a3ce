"""Fetching mail: leases of calls, evidence for them, their return, and what a session's end does to them."""

from __future__ import annotations

import pytest

from tellwire.core.context import ExpireDue, NoteEvidence, OfferWaiting, ReturnLease, StartBroker
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.events import MessagesDelivered, MessagesRead, MessagesReturned
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.messages import TakeMessages
from tests.unit.fetching import Fetching, bodies, ids, repeats
from tests.unit.mesh import OPERATOR, SCRIPT, refused


@pytest.fixture
def mesh() -> Fetching:
    return Fetching()


# -- fetching -----------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-1", "REC-2", stage="mcp")
def test_a_fetched_message_goes_from_pending_over_delivered_and_read_to_answered(mesh: Fetching) -> None:
    (message,) = mesh.mail("hi")
    assert mesh.states(message) == {"bob": "pending"}
    taken = mesh.take("bob", "1")
    assert (bodies(taken), taken.large, taken.waiting, taken.next_offset) == (["hi"], [], 0, 0)
    assert mesh.states(message) == {"bob": "delivered"}
    mesh.note("bob", "1")
    assert (mesh.states(message), mesh.evidence(message)) == ({"bob": "read"}, {"bob": "next_call"})
    mesh.send("bob", "alice", "yes", re=message)
    assert (mesh.states(message), mesh.evidence(message)) == ({"bob": "answered"}, {"bob": "next_call"})


def test_an_empty_inbox_gives_nothing_and_makes_no_fact(mesh: Fetching) -> None:
    count = len(mesh.events)
    taken = mesh.take("bob", "1")
    assert (taken.messages, taken.large, taken.waiting) == ([], [], 0)
    assert len(mesh.events) == count
    mesh.mail("hi")
    assert bodies(mesh.take("bob", "1")) == ["hi"], "a call that waits asks again in the same words"


@pytest.mark.requirement("REC-3", stage="mcp")
def test_a_repeat_of_a_call_gets_the_same_and_a_new_call_does_not(mesh: Fetching) -> None:
    mesh.mail("a", "b")
    first = mesh.take("bob", "1")
    mesh.mail("c")
    mesh.mail("d", sender="carol")
    count = len(mesh.events)
    again = mesh.take("bob", "1", limit=1)
    assert (again.messages, again.waiting, len(mesh.events)) == (first.messages, 2, count)
    assert bodies(mesh.take("bob", "2")) == ["d"]
    assert bodies(mesh.take("bob", "1")) == ["a", "b"]
    assert bodies(mesh.take("bob", "2")) == ["d"]


def test_a_call_without_a_word_is_never_a_repeat(mesh: Fetching) -> None:
    mesh.mail("a")
    assert bodies(mesh.take("bob")) == ["a"]
    assert mesh.agent("bob").calls == {}
    mesh.mail("b", sender="carol")
    assert bodies(mesh.take("bob")) == ["b"]
    mesh.note("bob", "")
    mesh.give_back("bob", "")
    assert len(mesh.leased("bob")) == 2, "no evidence and no return reaches it"


def test_a_repeat_gets_what_is_still_on_its_lease(mesh: Fetching) -> None:
    first, _, _ = mesh.mail("a", "b", "c")
    mesh.take("bob", "1")
    mesh.send("bob", "alice", "yes", re=first)
    assert bodies(mesh.take("bob", "1")) == ["b", "c"]
    mesh.note("bob", "1")
    mesh.mail("d")
    count = len(mesh.events)
    assert (bodies(mesh.take("bob", "1")), len(mesh.events)) == ([], count), "its call is over"
    assert bodies(mesh.take("bob", "2")) == ["d"]


@pytest.mark.requirement("REC-3", stage="mcp")
def test_while_a_message_of_a_sender_is_on_a_lease_later_ones_of_that_sender_wait(mesh: Fetching) -> None:
    mesh.mail("a1", "a2")
    mesh.take("bob", "1", limit=1)
    mesh.mail("a3")
    mesh.mail("c1", sender="carol")
    other = mesh.take("bob", "2", limit=1)
    assert (bodies(other), other.waiting) == (["c1"], 2), "those that have to wait take nobody's place"
    assert mesh.take("bob", "3").messages == []
    mesh.note("bob", "1")
    assert bodies(mesh.take("bob", "4")) == ["a2", "a3"]


def test_the_brokers_own_notices_are_a_sender_like_any_other(mesh: Fetching) -> None:
    mesh.send("bob", "carol", "x", ttl_s=1.0)
    mesh.send("bob", "alice", "x", ttl_s=2.0)
    for call in ("1", "2"):
        mesh.pass_time(1.5)
        mesh.run(ExpireDue())
        mesh.take("bob", call)
    assert (len(mesh.leased("bob")), len(mesh.pending("bob"))) == (1, 1)
    mesh.note("bob", "1")
    assert len(mesh.take("bob", "3").messages) == 1


@pytest.mark.requirement("REC-3", stage="mcp")
def test_pushing_and_fetching_take_nothing_from_each_other(mesh: Fetching) -> None:
    mesh.mail("a1")
    mesh.take("bob", "1")
    mesh.mail("a2")
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    assert [event.seqs for event in mesh.of_type(MessagesDelivered)] == [
        [parse_message_id(message)] for message in mesh.leased("bob")
    ]
    mesh.mail("a3")
    assert mesh.take("bob", "2").messages == []
    mesh.note("bob", "1", "2")
    assert [mesh.stored[seq].body for seq in mesh.agent("bob").leased] == ["a2"]


def test_only_the_agents_own_client_fetches(mesh: Fetching) -> None:
    mesh.mail("a")
    with refused("forbidden"):
        mesh.run(TakeMessages(call="1"), mesh.caller("bob", is_own_client=False))
    for caller in (SCRIPT, OPERATOR):
        with refused("not_registered"):
            mesh.run(TakeMessages(call="1"), caller)
    assert mesh.take("alice", "1").messages == []
    assert len(mesh.pending("bob")) == 1


@pytest.mark.requirement("REC-5", stage="mcp")
def test_peeking_shows_what_is_fetched_and_what_is_not_and_changes_nothing(mesh: Fetching) -> None:
    messages = mesh.mail("a", "b")
    mesh.take("bob", "1", limit=1)
    before = format_snapshot(mesh.state)
    assert [record.id for record in mesh.peek("bob").messages] == messages
    assert format_snapshot(mesh.state) == before


# -- evidence -----------------------------------------------------------------------------------------


def test_evidence_holds_for_the_calls_it_names_and_for_no_other(mesh: Fetching) -> None:
    first, second = mesh.mail("a", "b")
    third = mesh.mail("c", sender="carol")[0]
    mesh.take("bob", "1", limit=2)
    mesh.take("bob", "2")
    mesh.take("bob", "3")
    mesh.note("bob", "2", "unknown")
    assert mesh.leased("bob") == [first, second]
    mesh.note("bob", "3", "1", "1")
    assert mesh.leased("bob") == []
    read = [event.seqs for event in mesh.of_type(MessagesRead)]
    assert read == [[parse_message_id(third)], [parse_message_id(first), parse_message_id(second)]]


@pytest.mark.requirement("REC-2", stage="mcp")
def test_evidence_of_another_session_an_unknown_call_or_agent_is_none(mesh: Fetching) -> None:
    (message,) = mesh.mail("a")
    mesh.take("bob", "1")
    count = len(mesh.events)
    mesh.note("bob", "1", session="elsewhere")
    mesh.note("bob", "2", "")
    mesh.note("bob")
    mesh.note("alice", "1")
    mesh.run(NoteEvidence("a999", "s-bob", ["1"], "next_call"))
    assert (mesh.states(message), len(mesh.events)) == ({"bob": "delivered"}, count)
    mesh.lose("bob")
    mesh.register("bob", session="second", pulls=True)
    mesh.take("bob", "1")
    mesh.note("bob", "1", session="s-bob")
    assert mesh.states(message) == {"bob": "delivered"}, "an old session's word is not the new one's"


@pytest.mark.requirement("REC-2", stage="mcp")
def test_time_alone_brings_neither_evidence_nor_a_return(mesh: Fetching) -> None:
    (message,) = mesh.mail("a")
    mesh.take("bob", "1")
    mesh.pass_time(1e7)
    mesh.run(ExpireDue())
    assert mesh.states(message) == {"bob": "delivered"}
    mesh.note("bob", "1")
    assert mesh.states(message) == {"bob": "read"}


def test_evidence_that_comes_twice_counts_once(mesh: Fetching) -> None:
    mesh.mail("a")
    mesh.take("bob", "1")
    mesh.note("bob", "1")
    mesh.note("bob", "1")
    mesh.give_back("bob", "1")
    assert (len(mesh.of_type(MessagesRead)), mesh.of_type(MessagesReturned)) == (1, [])


# -- a cancelled call ---------------------------------------------------------------------------------


@pytest.mark.requirement("REC-2", "REC-3", stage="mcp")
def test_a_cancelled_call_gives_its_messages_back_to_their_old_places(mesh: Fetching) -> None:
    a = mesh.mail("a1", "a2")
    c = mesh.mail("c1", sender="carol")
    a += mesh.mail("a3")
    mesh.take("bob", "1", limit=1)
    mesh.take("bob", "2")
    mesh.give_back("bob", "1")
    assert (mesh.pending("bob"), mesh.leased("bob")) == (a, c), "other calls keep theirs"
    assert set(mesh.states(a[0]).values()) == {"pending"}
    mesh.note("bob", "1")
    assert mesh.pending("bob") == a, "evidence comes too late for it"
    again = mesh.take("bob", "3")
    assert (ids(again), repeats(again)) == (a, [False] * 3)


def test_the_return_of_nothing_is_no_fact(mesh: Fetching) -> None:
    mesh.mail("a")
    mesh.take("bob", "1")
    count = len(mesh.events)
    mesh.give_back("bob", "2")
    mesh.give_back("bob", "1", session="elsewhere")
    mesh.give_back("alice", "1")
    mesh.run(ReturnLease("a999", "s-bob", "1"))
    assert len(mesh.events) == count
    mesh.give_back("bob", "1")
    mesh.give_back("bob", "1")
    assert len(mesh.events) == count + 1


@pytest.mark.parametrize("how", ["cancel", "lose"])
def test_the_time_to_live_stands_still_on_a_lease_and_goes_on_after_it(mesh: Fetching, how: str) -> None:
    (message,) = mesh.mail("a", ttl_s=100.0)
    mesh.pass_time(30.0)
    mesh.take("bob", "1")
    mesh.pass_time(1_000.0)
    mesh.run(ExpireDue())
    if how == "cancel":
        mesh.give_back("bob", "1")
    else:
        mesh.lose("bob")
    mesh.pass_time(69.0)
    mesh.run(ExpireDue())
    assert mesh.states(message) == {"bob": "pending"}
    mesh.pass_time(1.5)
    mesh.run(ExpireDue())
    assert mesh.states(message) == {"bob": "expired"}


# -- sessions -----------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-2", stage="mcp")
@pytest.mark.parametrize("end", ["leave", "lose", "replace", "push"])
def test_when_a_session_ends_all_its_calls_give_back_what_they_hold(mesh: Fetching, end: str) -> None:
    messages = mesh.mail("a1", "a2")
    messages += mesh.mail("c1", sender="carol")
    mesh.take("bob", "1", limit=1)
    mesh.take("bob", "2")
    match end:
        case "leave":
            mesh.leave("bob")
        case "lose":
            mesh.lose("bob")
        case "replace":
            mesh.run(StartBroker("0.2"))
            mesh.register("bob", session="other", pulls=True)
        case _:
            mesh.register("bob", session="s-bob", pulls=False)
    assert (mesh.pending("bob"), mesh.leased("bob"), mesh.agent("bob").calls) == (messages, [], {})


def test_the_calls_of_an_earlier_session_mean_nothing_to_the_next(mesh: Fetching) -> None:
    mesh.mail("a")
    mesh.take("bob", "1")
    mesh.note("bob", "1")
    mesh.lose("bob")
    mesh.register("bob", session="second", pulls=True)
    mesh.mail("b")
    assert bodies(mesh.take("bob", "1")) == ["b"], "another session counts its calls anew"


@pytest.mark.requirement("REC-3", stage="mcp")
@pytest.mark.parametrize("restarted", [True, False])
def test_a_session_that_comes_back_goes_on_with_its_leases(mesh: Fetching, restarted: bool) -> None:
    messages = mesh.mail("a", "b")
    first = mesh.take("bob", "1")
    if restarted:
        mesh.run(StartBroker("0.2"))
        mesh.state = parse_snapshot(format_snapshot(mesh.state))
    mesh.register("bob", pulls=True)
    assert mesh.leased("bob") == messages
    assert mesh.take("bob", "1").messages == first.messages, "the same, and no repeat to who asked again"
    mesh.note("bob", "1")
    assert set(mesh.states(messages[1]).values()) == {"read"}


def test_evidence_may_come_before_its_session_is_back(mesh: Fetching) -> None:
    (message,) = mesh.mail("a")
    mesh.take("bob", "1")
    mesh.run(StartBroker("0.2"))
    mesh.note("bob", "1")
    assert mesh.states(message) == {"bob": "read"}


def test_a_silent_session_keeps_its_leases(mesh: Fetching) -> None:
    messages = mesh.mail("a")
    mesh.take("bob", "1")
    mesh.silence("bob")
    assert (mesh.leased("bob"), mesh.agent("bob").online) == (messages, False)
    mesh.note("bob", "1")
    assert mesh.leased("bob") == []


def test_what_was_told_to_a_session_is_marked_for_the_next_one_and_not_for_itself(mesh: Fetching) -> None:
    told = mesh.mail("a")
    untold = mesh.mail("b", sender="carol")
    mesh.take("bob", "1", limit=1)
    mesh.take("bob", "2")
    mesh.claim("bob", *told)
    mesh.lose("bob")
    mesh.register("bob", pulls=True)
    itself = mesh.take("bob", "3")
    assert (ids(itself), repeats(itself)) == ([*told, *untold], [False, False])
    mesh.lose("bob")
    mesh.register("bob", session="second", pulls=True)
    other = mesh.take("bob", "1")
    assert repeats(other) == repeats(mesh.take("bob", "1")) == [True, False]
    assert mesh.take("bob", "x", id=told[0]).messages[0].repeat


def test_what_was_told_before_a_broken_connection_is_marked_for_the_next_session(mesh: Fetching) -> None:
    told = mesh.mail("a", "b")
    mesh.take("bob", "1")
    mesh.claim("bob", told[0])
    mesh.register("bob", pulls=True)
    assert repeats(mesh.take("bob", "1")) == [False, False], "it is the same session"
    mesh.lose("bob")
    mesh.register("bob", session="second", pulls=True)
    assert repeats(mesh.take("bob", "1")) == [True, False]


def test_after_a_restart_of_the_broker_any_lease_may_be_a_repeat_to_another_session(mesh: Fetching) -> None:
    mesh.mail("a")
    mesh.take("bob", "1")
    mesh.run(StartBroker("0.2"))
    mesh.register("bob", pulls=True)
    mesh.lose("bob")
    mesh.register("bob", session="second", pulls=True)
    assert repeats(mesh.take("bob", "1")) == [True]


# -- accounts -----------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-3")
def test_calls_are_remembered_as_long_as_they_hold_something(mesh: Fetching) -> None:
    mesh.mail("held", sender="carol")
    mesh.take("bob", "first")
    for number in range(5):
        mesh.mail("a")
        mesh.take("bob", str(number))
        mesh.note("bob", str(number))
    mesh.mail("a")
    mesh.take("bob", "last")
    assert list(mesh.agent("bob").calls) == ["first", "last"]


def test_what_is_on_a_lease_still_fills_the_mailbox() -> None:
    mesh = Fetching(Limits(mailbox_messages_max=2, mailbox_bytes_max=10))
    mesh.mail("12345")
    mesh.take("bob", "1")
    with refused("mailbox_full"):
        mesh.mail("123456")
    mesh.mail("1234")
    with refused("mailbox_full"):
        mesh.mail("1")
    mesh.note("bob", "1")
    mesh.mail("123456")


def test_an_agent_that_is_forgotten_takes_its_leases_along_and_the_senders_are_told(mesh: Fetching) -> None:
    messages = mesh.mail("a", "b")
    mesh.take("bob", "1", limit=1)
    mesh.forget("bob")
    assert {state for message in messages for state in mesh.states(message).values()} == {"expired"}
    assert len(mesh.bodies("alice")) == 1


# -- the last message a caller names ------------------------------------------------------------------


@pytest.mark.requirement("REC-1", "REC-4", stage="mcp")
def test_who_names_the_last_message_it_got_has_read_all_that_came_with_it(mesh: Fetching) -> None:
    first, second, third = mesh.mail("a", "b", "c")
    mesh.take("bob", "1", limit=2)
    taken = mesh.run(TakeMessages(call="2", after=second), mesh.caller("bob"))
    assert (bodies(taken), taken.waiting) == (["c"], 0), "what was read holds nothing of its sender back"
    assert [mesh.states(each) for each in (first, second, third)] == [
        {"bob": "read"},
        {"bob": "read"},
        {"bob": "delivered"},
    ]
    assert mesh.evidence(first) == {"bob": "next_call"}


@pytest.mark.parametrize("after", ["", "nonsense", "m9999", "a1"])
def test_a_name_that_means_nothing_proves_nothing(mesh: Fetching, after: str) -> None:
    (first,) = mesh.mail("a")
    mesh.take("bob", "1")
    mesh.mail("b", sender="carol")
    assert bodies(mesh.run(TakeMessages(call="2", after=after), mesh.caller("bob"))) == ["b"]
    assert mesh.states(first) == {"bob": "delivered"}


def test_a_call_that_is_sent_again_does_not_prove_its_own_answer(mesh: Fetching) -> None:
    (first,) = mesh.mail("a")
    mesh.take("bob", "1")
    again = mesh.run(TakeMessages(call="1", after=first), mesh.caller("bob"))
    assert (bodies(again), mesh.states(first)) == (["a"], {"bob": "delivered"})
