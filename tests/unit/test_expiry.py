"""Time to live: it runs only while a message waits, and its end is told once."""

from __future__ import annotations

import pytest

from tellwire.core.context import ExpireDue, OfferWaiting, StartBroker
from tellwire.core.limits import Limits
from tellwire.protocol.events import MessageQueued, MessagesExpired
from tellwire.protocol.ids import parse_id
from tellwire.protocol.operations.agents import UnregisterAgent
from tests.unit.mesh import OPERATOR, Mesh

HOUR = 3_600.0


def mail(count: int = 1, limits: Limits | None = None, ttl_s: float | None = None) -> tuple[Mesh, list[str]]:
    mesh = Mesh(limits)
    mesh.register("alice")
    mesh.register("bob")
    mesh.leave("bob")
    return mesh, [mesh.send("alice", "bob", str(number), ttl_s=ttl_s).id for number in range(count)]


def expire(mesh: Mesh, after_s: float) -> None:
    mesh.pass_time(after_s)
    mesh.run(ExpireDue())


@pytest.mark.requirement("F2-5")
def test_mail_for_the_absent_is_kept_for_an_hour_and_then_expires() -> None:
    mesh, (message,) = mail()
    expire(mesh, HOUR - 1)
    assert mesh.states(message) == {"bob": "pending"}
    expire(mesh, 1)
    assert mesh.states(message) == {"bob": "expired"}
    assert mesh.register("bob", session="back").waiting == 0


@pytest.mark.requirement("F2-5")
def test_a_message_may_bring_its_own_time_to_live() -> None:
    mesh, (message,) = mail(ttl_s=5.0)
    later = mesh.send("alice", "bob").id
    expire(mesh, 5)
    assert (mesh.states(message), mesh.states(later)) == ({"bob": "expired"}, {"bob": "pending"})


@pytest.mark.requirement("F2-5")
def test_each_message_expires_in_its_own_time_whatever_expired_before() -> None:
    mesh, (first,) = mail(ttl_s=5.0)
    third, second = mesh.send("alice", "bob", ttl_s=50.0).id, mesh.send("alice", "bob", ttl_s=10.0).id
    for message in (first, second, third):
        assert mesh.states(message) == {"bob": "pending"}
        expire(mesh, 5.0 if message != third else 40.0)
        assert mesh.states(message) == {"bob": "expired"}


@pytest.mark.requirement("F2-5")
def test_the_sender_is_told_once_in_one_notice_for_all() -> None:
    mesh, messages = mail(12)
    expire(mesh, HOUR)
    (seq,) = mesh.agent("alice").pending
    notice = mesh.stored[seq].record()
    assert (notice.sender, notice.kind, notice.re, notice.to) == (
        "tellwire",
        "notification",
        messages[0],
        "alice",
    )
    assert f"{messages[0]}, {messages[1]}" in notice.body
    assert (
        notice.body
        == f"Not delivered to bob: {', '.join(messages[:10])} and 2 more (its time to live ran out)."
    )
    expire(mesh, 1)
    assert len(mesh.agent("alice").pending) == 1


def held(mesh: Mesh) -> None:
    """Bob comes back and is handed what waits."""
    mesh.register("bob", session="back")
    mesh.run(OfferWaiting(mesh.agent("bob").id))


@pytest.mark.requirement("REC-2")
def test_what_was_handed_over_is_not_called_undelivered_when_its_recipient_is_forgotten() -> None:
    mesh, (first,) = mail(limits=Limits(window_messages_max=1))
    second = mesh.send("alice", "bob").id
    held(mesh)
    mesh.run(UnregisterAgent(name="bob", forget=True), OPERATOR)
    why = "(the agent was removed)"
    assert mesh.bodies("alice") == [
        f"Not delivered to bob: {second} {why}. Handed over to bob, but not confirmed: {first} {why}."
    ]
    assert [event.shown for event in mesh.of_type(MessagesExpired)] == [[parse_id("m", first)]]


@pytest.mark.requirement("REC-2")
def test_what_a_session_may_have_shown_before_it_ended_is_not_called_undelivered_in_the_end() -> None:
    mesh, (message,) = mail()
    held(mesh)
    mesh.claim("bob", message)
    mesh.lose("bob")
    expire(mesh, HOUR)
    why = "(its time to live ran out)"
    assert mesh.bodies("alice") == [f"Handed over to bob, but not confirmed: {message} {why}."]


@pytest.mark.requirement("REC-2")
@pytest.mark.parametrize("shown", [True, False])
def test_who_forgets_itself_says_what_it_has_shown(shown: bool) -> None:
    mesh, (message,) = mail()
    held(mesh)
    words = [message] if shown else []
    mesh.run(UnregisterAgent(forget=True, shown=words), mesh.caller("bob"))
    (text,) = mesh.bodies("alice")
    assert text.startswith("Handed over" if shown else "Not delivered")


def test_each_sender_hears_of_its_own_messages_only() -> None:
    mesh, (message,) = mail()
    mesh.register("carol")
    other = mesh.send("carol", "bob").id
    expire(mesh, HOUR)
    for name, own in (("alice", message), ("carol", other)):
        (text,) = mesh.bodies(name)
        assert text == f"Not delivered to bob: {own} (its time to live ran out)."


def test_the_expiry_of_a_notice_is_not_told() -> None:
    mesh, _ = mail()
    expire(mesh, HOUR)
    assert len(mesh.bodies("alice")) == 1
    count = len(mesh.of_type(MessageQueued))
    expire(mesh, HOUR)
    assert mesh.state.waiting() == 0
    assert len(mesh.of_type(MessageQueued)) == count


def test_a_sender_that_is_gone_is_not_told() -> None:
    mesh, (message,) = mail()
    mesh.forget("alice")
    expire(mesh, HOUR)
    assert mesh.states(message, OPERATOR) == {"bob": "expired"}
    assert mesh.state.waiting() == 0


@pytest.mark.requirement("SEC-3")
def test_a_notice_does_not_overfill_the_senders_mailbox() -> None:
    mesh, messages = mail(limits=Limits(mailbox_messages_max=2))
    mesh.register("carol")
    for _ in range(2):
        mesh.send("carol", "alice", ttl_s=HOUR * 9)
    expire(mesh, HOUR)
    assert mesh.states(messages[0]) == {"bob": "expired"}
    assert len(mesh.agent("alice").pending) == 2


@pytest.mark.requirement("F2-5")
def test_time_on_a_lease_does_not_count() -> None:
    mesh, (message,) = mail()
    mesh.pass_time(HOUR / 2)
    mesh.register("bob", session="back")
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    expire(mesh, HOUR * 10)
    assert mesh.states(message) == {"bob": "delivered"}
    mesh.lose("bob")
    expire(mesh, HOUR / 2 - 1)
    assert mesh.states(message) == {"bob": "pending"}
    expire(mesh, 1)
    assert mesh.states(message) == {"bob": "expired"}


@pytest.mark.requirement("F2-5")
def test_wall_clock_time_alone_expires_nothing() -> None:
    mesh, (message,) = mail()
    mesh.now += 100 * HOUR
    mesh.run(ExpireDue())
    assert mesh.states(message) == {"bob": "pending"}


def test_a_restart_of_the_broker_neither_expires_nor_renews() -> None:
    mesh, (message,) = mail()
    mesh.pass_time(HOUR / 2)
    mesh.run(StartBroker("0.2"))
    mesh.state = mesh.replayed()
    expire(mesh, HOUR / 2 - 1)
    assert mesh.states(message) == {"bob": "pending"}
    expire(mesh, 1)
    assert mesh.states(message) == {"bob": "expired"}


@pytest.mark.requirement("SEC-3")
def test_expiry_goes_on_in_bounded_steps_until_nothing_is_due() -> None:
    mesh, _ = mail(5, Limits(expire_batch_max=2))
    mesh.pass_time(HOUR)
    left: list[int] = []
    for _ in range(4):
        mesh.run(ExpireDue())
        left.append(len(mesh.agent("bob").pending))
        assert mesh.agent("bob").earliest <= mesh.awake or not mesh.agent("bob").pending
    assert left == [3, 1, 0, 0]
    assert [len(event.seqs) for event in mesh.of_type(MessagesExpired)] == [2, 2, 1]


def test_the_bytes_of_what_expired_are_free_again() -> None:
    mesh, _ = mail(3)
    assert mesh.agent("bob").pending_bytes == 3
    expire(mesh, HOUR)
    assert mesh.agent("bob").pending_bytes == 0
    assert mesh.replayed() == mesh.state
