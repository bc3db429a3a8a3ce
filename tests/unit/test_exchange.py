"""The exchange of one pair: what each parcel comes to, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from tellwire.core.state import Machine, OutItem
from tellwire.federation.exchange import BEAT_S, RESEND_S_MIN, Exchange
from tellwire.protocol.parcels import (
    ANSWER,
    GO_BACK,
    ITEMS_MAX,
    WINDOW_ITEMS_MAX,
    ZERO,
    Message,
    Parcel,
    RemoteAgent,
    Skip,
    Unknown,
    format_item,
    format_parcel,
    next_mark,
    parse_item,
    parse_parcel,
)


def tag(number: int) -> bytes:
    return number.to_bytes(8)


def marked(*numbers: int) -> bytes:
    mark = ZERO
    for number in numbers:
        mark = next_mark(mark, tag(number))
    return mark


def machine(*, sent: int = 0, acked: int = 0, taken: int = 0, inc: int = 1, peer_inc: int = 1) -> Machine:
    """A machine that was sent so much, and from which so much was taken."""
    return Machine(
        id="k" + "0" * 16,
        label="desk",
        inc=inc,
        sent=sent,
        acked=acked,
        acked_mark=marked(*range(1, acked + 1)),
        out={number: OutItem("message", number, tag(number), 100) for number in range(acked + 1, sent + 1)},
        peer_inc=peer_inc if taken else 0,
        taken=taken,
        taken_mark=marked(*range(1, taken + 1)),
    )


def exchange(known: Machine) -> Exchange:
    return Exchange(known, 0.0, Random(1).random)


def items(first: int, last: int) -> list[Skip]:
    return [Skip(1, tag(number)) for number in range(first, last + 1)]


def parcel(
    first: int = 0,
    *,
    ack: int = 0,
    ack_inc: int = 1,
    mark: bytes | None = None,
    inc: int = 1,
    room: int = 256,
) -> Parcel:
    base = marked(*range(1, first)) if first else ZERO
    mark = marked(*range(1, ack + 1)) if mark is None else mark
    return Parcel(1, inc, 7, first=first, ack=ack, ack_inc=ack_inc, mark=mark, base=base, room=room)


# -- taking -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "taken"),
    [(1, 3, []), (4, 6, [4, 5, 6]), (2, 5, [4, 5]), (5, 6, []), (3, 3, [])],
    ids=["repeats", "the next", "some of both", "a gap", "the last one again"],
)
def test_only_the_next_numbers_are_taken(first: int, last: int, taken: Sequence[int]) -> None:
    known = machine(taken=3)
    heard = exchange(known).hear(known, parcel(first), items(first, last), 0.0)
    assert [int.from_bytes(item.tag) for item in heard.items] == list(taken)
    assert heard.answer is not bool(taken), "what is not taken is answered at once"


def test_a_gap_is_told_once_and_what_was_handed_on_is_not_a_gap() -> None:
    known = machine()
    pair = exchange(known)
    assert pair.hear(known, parcel(1), items(1, 2), 0.0).items
    assert pair.hear(known, parcel(3), items(3, 3), 0.0).first == 3, "the disk may be behind"
    pair.settle(known)
    assert not pair.hear(known, parcel(4), items(4, 4), 0.0).items
    assert pair.parcel(known, range(0), room=9).flags & GO_BACK


def test_what_continues_another_history_is_not_taken() -> None:
    known = machine(taken=3)
    stranger = msgspec.structs.replace(parcel(4), base=marked(9, 9, 9))
    heard = exchange(known).hear(known, stranger, items(4, 5), 0.0)
    assert (list(heard.items), heard.answer) == ([], True)


def test_an_older_incarnation_is_answered_and_never_taken_a_newer_one_begins_at_one() -> None:
    known = machine(taken=3, peer_inc=2)
    pair = exchange(known)
    old = pair.hear(known, parcel(4, inc=1), items(4, 4), 5.0)
    assert (list(old.items), old.answer) == ([], True)
    assert not pair.hear(known, parcel(4, inc=1), items(4, 4), 5.1).answer, "not a storm"
    assert pair.hear(known, parcel(1, inc=3), items(1, 1), 6.0).first == 1


# -- acknowledgements -------------------------------------------------------------------------------------


def test_what_is_acknowledged_is_not_sent_again_and_the_rest_is() -> None:
    known = machine(sent=4)
    pair = exchange(known)
    assert pair.plan(known, 0.0) == range(1, 5)
    pair.note_sent(known, range(1, 5), 0.0)
    assert not pair.plan(known, 0.1)
    assert pair.hear(known, parcel(ack=2), [], 0.2).acked == 2
    known = machine(sent=4, acked=2)
    assert not pair.plan(known, 0.3)
    assert pair.plan(known, 0.3 + RESEND_S_MIN) == range(3, 5), "nothing came"


@pytest.mark.parametrize(
    "told",
    [parcel(ack=5), parcel(ack=3, mark=marked(1, 2, 9)), parcel(ack=1, ack_inc=2)],
    ids=["more than was sent", "another history", "a newer incarnation"],
)
def test_what_we_never_sent_proves_that_our_store_was_put_back(told: Parcel) -> None:
    known = machine(sent=4, acked=2)
    assert exchange(known).hear(known, told, [], 0.0).begin == max(1, told.ack_inc) + 1


def test_an_acknowledgement_that_goes_back_is_believed_only_as_an_answer() -> None:
    known = machine(sent=4, acked=4)
    pair = exchange(known)
    old = parcel(ack=2)
    assert not pair.hear(known, old, [], 5.0).begin, "it may be an old word"
    asked = pair.parcel(known, range(0), room=9)
    assert asked.flags & ANSWER
    assert not pair.hear(known, old, [], 5.1).begin
    answer = msgspec.structs.replace(old, echo=asked.life)
    assert pair.hear(known, answer, [], 5.2).begin == 2
    fine = msgspec.structs.replace(parcel(ack=4), echo=asked.life)
    assert not pair.hear(known, fine, [], 5.3).begin


def test_more_that_was_acknowledged_meanwhile_renews_the_doubt() -> None:
    known = machine(sent=6, acked=4)
    pair = exchange(known)
    pair.hear(known, parcel(ack=2), [], 5.0)
    life = pair.parcel(known, range(0), room=9).life
    known = machine(sent=6, acked=6)
    late = msgspec.structs.replace(parcel(ack=5), echo=life)
    assert not pair.hear(known, late, [], 7.0).begin, "it was true when it was said"
    assert pair.parcel(known, range(0), room=9).life != life


def test_a_new_incarnation_takes_no_old_word_for_proof() -> None:
    known = machine(sent=2, acked=2)
    pair = exchange(known)
    life = pair.parcel(known, range(0), room=9).life
    begun = machine(sent=3, acked=1, inc=2)
    late = msgspec.structs.replace(parcel(ack=2, ack_inc=1), echo=life)
    assert not pair.hear(begun, late, [], 5.0).begin


# -- bounds and time --------------------------------------------------------------------------------------


def test_no_more_is_under_way_than_the_window_and_the_room_allow() -> None:
    known = machine(sent=1_000)
    pair = exchange(known)
    for first in (1, 1 + ITEMS_MAX):
        numbers = pair.plan(known, 0.0)
        assert numbers == range(first, first + ITEMS_MAX)
        pair.note_sent(known, numbers, 0.0)
    assert 2 * ITEMS_MAX == WINDOW_ITEMS_MAX
    assert not pair.plan(known, 0.0)
    known = machine(sent=1_000, acked=256)
    pair.hear(known, parcel(ack=256, room=3), [], 0.0)
    assert pair.plan(known, 0.0) == range(257, 260)


def test_resends_come_more_rarely_and_a_connection_starts_afresh() -> None:
    known = machine(sent=1)
    pair = exchange(known)
    now, gaps = 0.0, list[float]()
    pair.note_sent(known, pair.plan(known, now), now)
    for _ in range(12):
        before, now = now, pair.next_at(known)
        if numbers := pair.plan(known, now):
            gaps.append(now - before)
            pair.note_sent(known, numbers, now)
    assert gaps[0] == RESEND_S_MIN
    assert gaps[3] > 4 * gaps[0]
    pair.reconnect(known, now)
    assert pair.plan(known, now) == range(1, 2)


def test_a_beat_is_due_while_nothing_is_said_and_ever_more_rarely_while_nobody_answers() -> None:
    known = machine()
    pair = exchange(known)
    now, gaps = 0.0, list[float]()
    for _ in range(6):
        before, now = now, pair.next_at(known)
        assert pair.is_beat_due(now)
        pair.note_beat(now)
        pair.note_sent(known, range(0), now)
        gaps.append(now - before)
    assert gaps[-1] > 8 * BEAT_S
    pair.hear(known, parcel(), [], now)
    assert pair.next_at(known) <= now + BEAT_S


# -- what crosses -----------------------------------------------------------------------------------------


def test_items_of_another_version_are_understood_as_far_as_they_go() -> None:
    message = Message(1, tag(1), 5, RemoteAgent("a1", "bob"), ["a2"], "hi", 3.0)
    assert parse_item(format_item(message)) == message
    longer = [*msgspec.msgpack.decode(format_item(message)), "more"]
    assert parse_item(msgspec.Raw(msgspec.msgpack.encode(longer))) == message
    assert parse_item(msgspec.Raw(msgspec.msgpack.encode(["dance", 1, tag(2), 3]))) == Unknown(
        0, tag(2), "dance"
    )
    for garbage in (b"", b"\xc1", msgspec.msgpack.encode(7), msgspec.msgpack.encode(["message"])):
        assert parse_item(msgspec.Raw(garbage)) is None


def test_a_parcel_that_makes_no_sense_is_none() -> None:
    good = parcel(1)
    assert parse_parcel(format_parcel(good)) == good
    for bad in (
        msgspec.structs.replace(good, mark=b"short"),
        msgspec.structs.replace(good, ack=-1),
        msgspec.structs.replace(good, items=[msgspec.Raw(b"\x01")] * (ITEMS_MAX + 1)),
    ):
        assert parse_parcel(format_parcel(bad)) is None
    assert parse_parcel(b"\xc1 nothing") is None
