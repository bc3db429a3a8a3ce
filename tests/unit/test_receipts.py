"""Leases, claims, evidence, and what becomes of a lease without evidence."""

from __future__ import annotations

import pytest

from tellwire.core.context import OfferWaiting, StartBroker
from tellwire.core.kernel import apply_batch
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import Audience, MessagesRead, parse_batch
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.agents import UnregisterAgent
from tellwire.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    Inbox,
    MessageStatus,
    PeekMessages,
)
from tests.unit.mesh import OPERATOR, SCRIPT, Mesh, refused


def mail(count: int = 1, limits: Limits | None = None) -> tuple[Mesh, list[str]]:
    """Alice has sent `count` messages to bob."""
    mesh = Mesh(limits)
    mesh.register("alice")
    mesh.register("bob")
    return mesh, [mesh.send("alice", "bob", str(number)).id for number in range(count)]


def hand_over(mesh: Mesh, name: str = "bob") -> None:
    mesh.run(OfferWaiting(mesh.agent(name).id))


def seen_by(mesh: Mesh, message: str, name: str = "bob") -> str:
    agent = mesh.agent(name)
    seq = parse_message_id(message)
    return (agent.pending.get(seq) or agent.leased[seq]).seen_by


# -- handing over -------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-1")
def test_a_message_goes_from_pending_over_delivered_and_read_to_answered() -> None:
    mesh, (message,) = mail()
    assert mesh.states(message) == {"bob": "pending"}
    hand_over(mesh)
    assert mesh.states(message) == {"bob": "delivered"}
    mesh.confirm("bob", message)
    assert (mesh.states(message), mesh.evidence(message)) == ({"bob": "read"}, {"bob": "confirm"})
    mesh.send("bob", "alice", "yes", re=message)
    assert (mesh.states(message), mesh.evidence(message)) == ({"bob": "answered"}, {"bob": "confirm"})


@pytest.mark.requirement("REC-3")
def test_what_is_handed_over_is_handed_over_once() -> None:
    mesh, messages = mail(3)
    hand_over(mesh)
    count = len(mesh.events)
    hand_over(mesh)
    assert (mesh.leased("bob"), mesh.pending("bob"), len(mesh.events)) == (messages, [], count)


@pytest.mark.requirement("SEC-3", "NET-6")
def test_the_window_bounds_how_much_a_client_holds_and_goes_on_in_order() -> None:
    mesh, messages = mail(5, Limits(window_messages_max=2))
    hand_over(mesh)
    assert mesh.leased("bob") == messages[:2]
    mesh.confirm("bob", messages[0])
    hand_over(mesh)
    assert (mesh.leased("bob"), mesh.pending("bob")) == (messages[1:3], messages[3:])


@pytest.mark.requirement("SEC-3")
def test_the_window_bounds_bytes_but_a_large_message_still_goes_alone() -> None:
    mesh = Mesh(Limits(window_bytes_max=10))
    mesh.register("alice")
    mesh.register("bob")
    small, large, last = (mesh.send("alice", "bob", "x" * size).id for size in (4, 30, 4))
    hand_over(mesh)
    assert mesh.leased("bob") == [small]
    mesh.confirm("bob", small)
    hand_over(mesh)
    assert mesh.leased("bob") == [large]
    mesh.confirm("bob", large)
    hand_over(mesh)
    assert mesh.leased("bob") == [last]


def test_nothing_is_handed_to_an_agent_that_is_offline() -> None:
    mesh, messages = mail(2)
    mesh.leave("bob")
    hand_over(mesh)
    assert (mesh.leased("bob"), mesh.pending("bob")) == ([], messages)


# -- claims and confirmations -------------------------------------------------------------------------


def test_a_claim_grants_what_this_session_holds_and_is_no_fact() -> None:
    mesh, messages = mail(2)
    assert mesh.claim("bob", *messages) == []
    hand_over(mesh)
    count = len(mesh.events)
    assert mesh.claim("bob", messages[1], "nonsense", "m7777", messages[0]) == [messages[1], messages[0]]
    assert len(mesh.events) == count


def test_a_claim_of_a_lease_from_an_earlier_life_of_the_broker_is_dropped() -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    mesh.run(StartBroker("0.2"))
    assert mesh.claim("bob", message) == []
    mesh.register("bob", session="s-bob")
    hand_over(mesh)
    assert mesh.claim("bob", message) == [message]


def test_a_confirmation_counts_once_and_a_repeat_is_harmless() -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    assert mesh.confirm("bob", messages[0], messages[0]) == 1
    count = len(mesh.events)
    assert mesh.confirm("bob", messages[0]) == 0
    assert len(mesh.events) == count


def test_a_confirmation_holds_although_the_lease_has_returned_meanwhile() -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    mesh.lose("bob")
    mesh.register("bob", session="s-bob")
    assert mesh.confirm("bob", message) == 1
    assert mesh.states(message) == {"bob": "read"}


@pytest.mark.parametrize("operation", [ClaimMessages, ConfirmMessages])
def test_only_the_agents_own_client_takes_its_mail_over(
    operation: type[ClaimMessages] | type[ConfirmMessages],
) -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    with refused("forbidden"):
        mesh.run(operation(ids=[message]), mesh.caller("bob", is_own_client=False))
    with refused("not_registered"):
        mesh.run(operation(ids=[message]), SCRIPT)
    assert mesh.states(message) == {"bob": "delivered"}


def test_the_mail_of_others_cannot_be_confirmed_or_claimed() -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    assert (mesh.confirm("alice", message), mesh.claim("alice", message)) == (0, [])
    assert mesh.states(message) == {"bob": "delivered"}


@pytest.mark.requirement("SEC-3")
def test_ids_in_one_call_are_bounded_and_malformed_ones_are_refused() -> None:
    mesh, (message,) = mail(limits=Limits(ids_max=2))
    for operation in (ClaimMessages(ids=[message] * 3), ConfirmMessages(ids=[message] * 3)):
        with refused("limit_exceeded"):
            mesh.run(operation, mesh.caller("bob"))
    with refused("unknown_message"):
        mesh.confirm("bob", "nonsense")


@pytest.mark.requirement("REC-2")
def test_nothing_but_evidence_makes_a_message_read() -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    mesh.claim("bob", message)
    mesh.pass_time(1e6)
    mesh.run(PeekMessages(), mesh.caller("bob"))
    mesh.send("bob", "alice", "unrelated")
    mesh.lose("bob")
    mesh.register("bob", session="s-bob")
    hand_over(mesh)
    assert mesh.states(message) == {"bob": "delivered"}
    assert not mesh.of_type(MessagesRead)


# -- replies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handed", [True, False])
def test_a_reply_to_the_sender_is_itself_evidence(handed: bool) -> None:
    mesh, (message,) = mail()
    if handed:
        hand_over(mesh)
    mesh.send("bob", "alice", "yes", re=message)
    assert (mesh.states(message), mesh.evidence(message)) == ({"bob": "answered"}, {"bob": "reply"})
    assert mesh.bodies("bob") == []


def test_a_reply_to_somebody_else_is_no_evidence() -> None:
    mesh, (message,) = mail()
    mesh.register("carol")
    mesh.send("bob", "carol", "look", re=message)
    assert mesh.states(message) == {"bob": "pending"}


def test_an_answer_among_several_recipients_is_that_recipients_alone() -> None:
    mesh = Mesh()
    for name in ("alice", "bob", "carol"):
        mesh.register(name)
    message = mesh.send("alice", ["bob", "carol"]).id
    mesh.send("bob", "alice", re=message)
    assert mesh.states(message) == {"bob": "answered", "carol": "pending"}


# -- a session ends -----------------------------------------------------------------------------------


@pytest.mark.requirement("REC-2", "NET-6")
@pytest.mark.parametrize("end", ["leave", "lose", "replace"])
def test_when_a_session_ends_without_evidence_its_leases_return_to_their_places(end: str) -> None:
    mesh, messages = mail(4, Limits(window_messages_max=2))
    hand_over(mesh)
    if end == "replace":
        mesh.register("bob", session="s-bob")
    else:
        (mesh.leave if end == "leave" else mesh.lose)("bob")
    assert (mesh.pending("bob"), mesh.leased("bob")) == (messages, [])
    assert set(mesh.states(messages[0]).values()) == {"pending"}


def test_only_what_the_session_had_claimed_may_be_a_repeat() -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    mesh.claim("bob", messages[0])
    mesh.lose("bob")
    assert [seen_by(mesh, message) for message in messages] == ["s-bob", ""]


@pytest.mark.parametrize("shown", [[], [0], [1, 0], [0, 7]])
def test_a_client_that_takes_its_leave_knows_best_what_it_has_shown(shown: list[int]) -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    mesh.claim("bob", *messages)
    words = [[*messages, *["nonsense"] * 6][number] for number in shown]
    mesh.run(UnregisterAgent(shown=words), mesh.caller("bob"))
    expected = ["s-bob" if number in shown else "" for number in range(2)]
    assert [seen_by(mesh, message) for message in messages] == expected


@pytest.mark.parametrize("caller", ["operator", "beneath"])
def test_who_makes_another_leave_cannot_say_what_that_has_shown(caller: str) -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    mesh.claim("bob", messages[0])
    who = OPERATOR if caller == "operator" else mesh.caller("bob", is_own_client=False)
    mesh.run(UnregisterAgent(name="bob", shown=[messages[1]]), who)
    assert [seen_by(mesh, message) for message in messages] == ["s-bob", ""]


def test_after_a_restart_of_the_broker_every_lease_may_be_a_repeat() -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    mesh.run(StartBroker("0.2"))
    assert mesh.leased("bob") == messages, "the session may still come back and confirm"
    mesh.register("bob", session="other")
    assert [seen_by(mesh, message) for message in messages] == ["s-bob", "s-bob"]


def test_a_mark_of_a_possible_repeat_stays_through_later_sessions() -> None:
    mesh, (message,) = mail()
    hand_over(mesh)
    mesh.claim("bob", message)
    mesh.lose("bob")
    mesh.register("bob", session="second")
    hand_over(mesh)
    mesh.lose("bob")
    assert seen_by(mesh, message) == "s-bob"


# -- looking ------------------------------------------------------------------------------------------


@pytest.mark.requirement("REC-5")
def test_peeking_shows_what_is_open_oldest_first_and_changes_nothing() -> None:
    mesh, messages = mail(5, Limits(window_messages_max=2))
    hand_over(mesh)
    before, count = format_snapshot(mesh.state), len(mesh.events)
    for _ in range(2):
        inbox: Inbox = mesh.run(PeekMessages(limit=3), mesh.caller("bob", is_own_client=False))
        assert ([record.id for record in inbox.messages], inbox.waiting) == (messages[:3], 2)
    assert (format_snapshot(mesh.state), len(mesh.events)) == (before, count)


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_peek_is_bounded(limit: int) -> None:
    mesh, _ = mail()
    with refused("limit_exceeded"):
        mesh.run(PeekMessages(limit=limit), mesh.caller("bob"))


@pytest.mark.requirement("REC-1")
def test_the_sender_the_recipients_and_the_operator_may_ask_how_far_a_message_got() -> None:
    mesh, (message,) = mail()
    mesh.register("carol")
    for caller in (mesh.caller("alice"), mesh.caller("bob"), OPERATOR):
        assert mesh.states(message, caller) == {"bob": "pending"}
    for caller in (mesh.caller("carol"), SCRIPT):
        with pytest.raises(TellwireError) as caught:
            mesh.states(message, caller)
        assert caught.value.code == "unknown_message"


def test_nobody_but_its_recipient_and_the_operator_may_ask_about_a_notice() -> None:
    mesh, _ = mail()
    mesh.forget("bob")
    (notice,) = mesh.pending("alice")
    assert mesh.states(notice) == {"alice": "pending"}
    with refused("unknown_message"):
        mesh.states(notice, SCRIPT)


@pytest.mark.parametrize("word", ["", "nonsense", "m7777", "a1", "mvvvvvvvvvvvvv"])
def test_the_status_of_what_is_no_message_is_refused(word: str) -> None:
    mesh, _ = mail()
    with refused("unknown_message"):
        mesh.run(MessageStatus(id=word), OPERATOR)


@pytest.mark.requirement("REC-1")
def test_the_status_tells_each_recipient_of_a_message_to_several_apart() -> None:
    mesh = Mesh()
    for name in ("alice", "bob", "carol", "dave"):
        mesh.register(name)
    message = mesh.send("alice", ["bob", "carol", "dave"]).id
    hand_over(mesh, "bob")
    hand_over(mesh, "carol")
    mesh.confirm("carol", message)
    assert mesh.states(message) == {"bob": "delivered", "carol": "read", "dave": "pending"}


# -- applying -----------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-2")
def test_a_commit_replayed_again_changes_nothing_whatever_its_audience() -> None:
    mesh, messages = mail(2)
    hand_over(mesh)
    mesh.confirm("bob", messages[0])
    mesh.lose("bob")
    audiences = {event.audience for _, event in mesh.events}
    assert audiences == {Audience.AGENT, Audience.CONTROL}
    before = format_snapshot(mesh.state)
    for batch in mesh.batches:
        apply_batch(mesh.state, parse_batch(batch.data), seq=batch.seq, now=batch.now, awake=batch.awake)
    assert format_snapshot(mesh.state) == before
    assert parse_snapshot(before) == mesh.replayed() == mesh.state
