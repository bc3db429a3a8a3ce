"""Sending: bounds, repeats, correlation. What is refused leaves nothing behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.context import OfferWaiting
from tellwire.core.limits import DEPTH_MAX, Limits
from tellwire.core.mail.drafts import REQUESTS_KEPT
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageAnswered, MessageQueued
from tests.unit.mesh import Mesh, refused


def pair(limits: Limits | None = None) -> Mesh:
    mesh = Mesh(limits)
    mesh.register("alice")
    mesh.register("bob")
    return mesh


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# -- the text -----------------------------------------------------------------------------------------


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ).filter(lambda body: body not in (None, [], {}) and not (isinstance(body, str) and not body.strip()))
)
@pytest.mark.requirement("NET-2", "F2-3")
def test_any_body_arrives_as_it_was_sent(body: Any) -> None:
    mesh = pair()
    mesh.send("alice", "bob", body, context=body, mode="challenge", kind="notification", re="x")
    (seq,) = mesh.agent("bob").pending
    record = mesh.stored[seq].record()
    assert (record.body, record.context) == (body, body)
    assert (record.mode, record.kind, record.re, record.sent_at) == (
        "challenge",
        "notification",
        "x",
        mesh.now,
    )


@pytest.mark.requirement("F2-3")
def test_the_kind_of_content_follows_from_re_if_it_is_left_out() -> None:
    mesh = pair()
    first = mesh.send("alice", "bob").id
    mesh.send("bob", "alice", re=first)
    mesh.send("bob", "alice", re=first, kind="notification")
    assert [event.kind for event in mesh.of_type(MessageQueued)] == ["request", "response", "notification"]


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("body", "fits"), [("x" * 10, True), ("x" * 11, False), ("ä" * 5, True), ("ä" * 6, False)]
)
def test_the_bound_of_a_body_counts_bytes(body: str, fits: bool) -> None:
    mesh = pair(Limits(body_bytes_max=10))
    if fits:
        mesh.send("alice", "bob", body)
    else:
        with refused("body_too_large"):
            mesh.send("alice", "bob", body)
    assert mesh.agent("bob").pending_bytes == (10 if fits else 0)


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"body": {"x": "y" * 20}}, "body_too_large"),
        ({"context": "x" * 10}, "body_too_large"),
        ({"ttl_s": 0}, "bad_request"),
        ({"ttl_s": -1}, "bad_request"),
        ({"ttl_s": 101}, "bad_request"),
        ({"ttl_s": float("inf")}, "bad_request"),
        ({"ttl_s": float("nan")}, "bad_request"),
        ({"re": "r" * 65}, "limit_exceeded"),
        ({"key": "k"}, "bad_request"),
        ({"key": "-k"}, "bad_request"),
        ({"key": "xyz-k"}, "bad_request"),
        ({"key": "1" * 13 + "-k"}, "bad_request"),
        ({"key": "f-" + "k" * 200}, "bad_request"),
        ({"body": nested(DEPTH_MAX + 1)}, "limit_exceeded"),
        ({"context": nested(DEPTH_MAX + 1)}, "limit_exceeded"),
        ({"body": nested(900)}, "limit_exceeded"),
    ],
)
def test_a_send_beyond_its_bounds_is_refused_and_nothing_is_stored(fields: dict[str, Any], code: str) -> None:
    mesh = pair(Limits(body_bytes_max=16, context_bytes_max=8, ttl_s_max=100.0))
    with refused(code):
        mesh.send("alice", "bob", **fields)
    assert mesh.state.waiting() == 0


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("mode", "kib"), [(None, 16), ("challenge", 16), ("collaborate", 16), ("deduce", 4), ("agree", 1)]
)
def test_a_mode_bounds_how_much_context_comes_along(mode: str | None, kib: int) -> None:
    mesh = pair()
    mesh.send("alice", "bob", mode=mode, context="c" * (kib * 1024 - 2))
    with refused("body_too_large"):
        mesh.send("alice", "bob", mode=mode, context="c" * (kib * 1024 - 1))
    assert len(mesh.bodies("bob")) == 1


@pytest.mark.requirement("SEC-3")
def test_the_limits_may_be_narrower_than_a_mode() -> None:
    mesh = pair(Limits(context_bytes_max=100))
    with refused("body_too_large"):
        mesh.send("alice", "bob", mode="agree", context="c" * 99)


@pytest.mark.requirement("SEC-3")
def test_a_full_mailbox_refuses_the_sender_and_opens_again_when_some_is_read() -> None:
    mesh = pair(Limits(mailbox_messages_max=2))
    first = mesh.send("alice", "bob").id
    mesh.send("alice", "bob")
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    with refused("mailbox_full") as caught:
        mesh.send("alice", "bob")
    assert "has read some of its mail" in caught.value.advice
    mesh.confirm("bob", first)
    assert mesh.send("alice", "bob").status == "received"


@pytest.mark.requirement("SEC-3")
def test_a_mailbox_is_bounded_in_bytes_with_all_that_it_holds() -> None:
    mesh = pair(Limits(mailbox_bytes_max=10))
    mesh.send("alice", "bob", "x" * 6)
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    with refused("mailbox_full"):
        mesh.send("alice", "bob", "x" * 5)
    with refused("mailbox_full"):
        mesh.send("alice", "bob", "x", context="yyyy")
    mesh.send("alice", "bob", "x" * 4)


@pytest.mark.requirement("SEC-3", "NET-4")
def test_one_full_mailbox_among_several_stops_only_itself() -> None:
    mesh = pair(Limits(mailbox_messages_max=1))
    mesh.register("carol")
    mesh.send("alice", "bob", "first")
    for to in (["bob", "carol"], "broadcast"):
        reply = mesh.send("alice", to)
        assert {outcome.name: outcome.status for outcome in reply.recipients}["bob"] == "denied"
    assert (len(mesh.agent("bob").pending), len(mesh.agent("carol").pending)) == (1, 1)


# -- repeats ------------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-3")
@pytest.mark.parametrize("to", ["bob", ["bob"], ["bob", "carol"], "broadcast"])
def test_a_repeat_with_the_same_key_gets_the_first_answer_and_sends_nothing(to: str | list[str]) -> None:
    mesh = pair()
    mesh.register("carol")
    key = mesh.key("one")
    first = mesh.send("alice", to, key=key)
    mesh.leave("bob")
    again = mesh.send("alice", to, key=key)
    assert (again.id, again.status) == (first.id, first.status)
    assert len(mesh.of_type(MessageQueued)) == 1


def test_a_repeat_is_recognised_after_a_replay_of_the_journal() -> None:
    mesh = pair()
    key = mesh.key("one")
    first = mesh.send("alice", "bob", key=key)
    mesh.state = mesh.replayed()
    assert mesh.send("alice", "bob", key=key).id == first.id


@pytest.mark.parametrize(("to", "body"), [("bob", "other"), ("carol", "hi"), (["bob", "carol"], "hi")])
def test_the_same_key_for_another_message_is_a_conflict(to: str | list[str], body: str) -> None:
    mesh = pair()
    mesh.register("carol")
    key = mesh.key("one")
    mesh.send("alice", "bob", "hi", key=key)
    with refused("conflict"):
        mesh.send("alice", to, body, key=key)
    assert len(mesh.of_type(MessageQueued)) == 1


def test_the_same_key_of_two_senders_means_two_messages() -> None:
    mesh = pair()
    mesh.register("carol")
    key = mesh.key("one")
    assert mesh.send("alice", "carol", key=key).id != mesh.send("bob", "carol", key=key).id


def test_without_a_key_every_send_is_a_message_of_its_own() -> None:
    mesh = pair()
    assert mesh.send("alice", "bob").id != mesh.send("alice", "bob").id


def test_a_send_that_was_refused_may_be_tried_again_with_its_key() -> None:
    mesh = pair(Limits(mailbox_messages_max=1))
    first = mesh.send("alice", "bob").id
    key = mesh.key("again")
    with refused("mailbox_full"):
        mesh.send("alice", "bob", key=key)
    mesh.confirm("bob", first)
    assert mesh.send("alice", "bob", key=key).status == "received"


def fill(mesh: Mesh, count: int) -> list[str]:
    keys: list[str] = []
    for number in range(count):
        mesh.pass_time(0.001)
        keys.append(mesh.key(f"k{number}"))
        mesh.confirm("bob", mesh.send("alice", "bob", key=keys[-1]).id)
    return keys


@pytest.mark.requirement("SEC-3")
def test_remembered_keys_are_bounded_and_a_forgotten_one_is_refused_never_carried_out_twice() -> None:
    mesh = pair()
    keys = fill(mesh, 2 * REQUESTS_KEPT)
    assert len(mesh.agent("alice").requests) < 2 * REQUESTS_KEPT
    sent = len(mesh.of_type(MessageQueued))
    for key in keys[-REQUESTS_KEPT:]:
        assert mesh.send("alice", "bob", key=key).note
    for key in keys[:REQUESTS_KEPT]:
        with pytest.raises(TellwireError) as caught:
            mesh.send("alice", "bob", key=key)
        assert caught.value.code == "conflict"
    assert len(mesh.of_type(MessageQueued)) == sent
    mesh.pass_time(0.001)
    assert mesh.send("alice", "bob", key=mesh.key("new")).status == "received"
    assert mesh.replayed() == mesh.state


def test_a_key_from_the_future_does_not_shut_its_sender_out() -> None:
    mesh = pair()
    mesh.send("alice", "bob", key=mesh.key("early", age_s=-1e6))
    fill(mesh, 2 * REQUESTS_KEPT)
    mesh.pass_time(0.001)
    assert mesh.send("alice", "bob", key=mesh.key("now")).status == "received"


def test_keys_that_are_all_from_the_future_do_no_harm() -> None:
    mesh = pair(Limits(mailbox_messages_max=10_000))
    for number in range(2 * REQUESTS_KEPT + 1):
        mesh.send("alice", "bob", key=mesh.key(str(number), age_s=-1_000.0))
    assert len(mesh.agent("alice").requests) <= REQUESTS_KEPT + 1
    assert mesh.replayed() == mesh.state


@pytest.mark.parametrize("to", ["bob", ["bob", "alice"]])
def test_a_message_that_shall_go_once_goes_once_within_its_time(to: str | list[str]) -> None:
    mesh = pair()
    first = mesh.send("alice", to, "look", key=mesh.key("1"), once_s=60.0)
    mesh.pass_time(59.0)
    count = len(mesh.events)
    again = mesh.send("alice", to, "look", key=mesh.key("2"), once_s=60.0)
    assert (again.id, again.status, len(mesh.events)) == (first.id, first.status, count)
    mesh.pass_time(2.0)
    assert mesh.send("alice", to, "look", key=mesh.key("3"), once_s=60.0).id != first.id


def test_who_does_not_ask_for_it_sends_the_same_again() -> None:
    mesh = pair()
    ids = {mesh.send("alice", "bob", "look", key=mesh.key(str(number))).id for number in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"to": "carol"},
        {"body": "see"},
        {"mode": "agree"},
        {"context": [1]},
        {"re": "m1"},
        {"sender": "bob"},
    ],
)
def test_only_the_very_same_message_of_the_same_sender_is_a_repeat(fields: dict[str, Any]) -> None:
    mesh = pair()
    mesh.register("carol")
    first = {"sender": "alice", "to": "carol" if "sender" in fields else "bob", "body": "look"}
    sent = mesh.send(**first, key=mesh.key("1"), once_s=60.0)
    assert mesh.send(**{**first, **fields}, key=mesh.key("2"), once_s=60.0).id != sent.id


def test_the_same_words_in_answer_to_another_message_are_no_repeat() -> None:
    mesh = pair()
    asked = [mesh.send("bob", "alice", text).id for text in ("this?", "that?")]
    for number, message in enumerate([*asked, *asked]):
        mesh.send("alice", "bob", "yes", re=message, key=mesh.key(str(number)), once_s=60.0)
    assert [mesh.states(message) for message in asked] == [{"alice": "answered"}] * 2
    assert mesh.bodies("bob") == ["yes", "yes"]


# -- correlation --------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-5")
@pytest.mark.parametrize("re", ["m7777", "ticket 5", "mvvvvvvvvvvvvv"])
def test_an_unknown_re_is_delivered_with_a_warning(re: str) -> None:
    mesh = pair()
    reply = mesh.send("alice", "bob", re=re)
    assert (reply.status, re in reply.note) == ("received", True)
    (seq,) = mesh.agent("bob").pending
    assert mesh.stored[seq].record().re == re
    assert not mesh.of_type(MessageAnswered)


@pytest.mark.requirement("NET-5")
def test_a_re_only_correlates_it_neither_routes_nor_needs_to_be_ones_own() -> None:
    mesh = pair()
    mesh.register("carol")
    first = mesh.send("alice", "bob").id
    reply = mesh.send("carol", "alice", re=first)
    assert (reply.status, reply.note) == ("received", "")
    assert mesh.states(first) == {"bob": "pending"}


@pytest.mark.requirement("NET-6")
def test_messages_of_a_pair_wait_in_the_order_they_were_sent() -> None:
    mesh = pair()
    mesh.register("carol")
    for number in range(20):
        mesh.send("carol" if number % 3 else "alice", "bob", str(number))
    assert mesh.bodies("bob") == [str(number) for number in range(20)]


def test_a_digest_stands_for_the_body_and_the_body_is_not_in_the_event() -> None:
    mesh = pair()
    mesh.send("alice", "bob", "a secret text")
    assert b"secret" not in b"".join(batch.data for batch in mesh.batches)
    assert len(mesh.of_type(MessageQueued)[0].digest) == 32
    assert "body" not in {field.name for field in msgspec.structs.fields(MessageQueued)}
