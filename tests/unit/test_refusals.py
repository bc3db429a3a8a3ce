"""Refusals are counted, closed after a second, and bounded whatever callers do."""

from __future__ import annotations

from tellwire.broker.refusals import KEYS_MAX, Refusals
from tellwire.core.context import Caller
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import CallRefused
from tellwire.protocol.operations.agents import Done, GetAgent
from tellwire.protocol.operations.messages import Outcome, SendMessage, Sent

ALICE = Caller(kind="agent", agent="a1")
SCRIPT = Caller(kind="script")
SEND = SendMessage(to="x", body="y")
NO = TellwireError("forbidden", "No.")


def test_equal_refusals_of_a_second_are_one_row_with_a_count() -> None:
    refusals = Refusals()
    for now in (10.0, 10.4, 10.9):
        refusals.note(ALICE, SEND, NO, now)
    refusals.note(SCRIPT, SEND, NO, 10.9)
    refusals.note(ALICE, GetAgent(name="x"), NO, 10.9)
    refusals.note(ALICE, SEND, TellwireError("conflict", "No."), 10.9)
    assert refusals.take(10.95) == []
    assert refusals.take(11.0) == [CallRefused("a1", "send_message", "forbidden", 3, 10.0)]
    assert refusals.take() == [
        CallRefused("script", "send_message", "forbidden", 1, 10.9),
        CallRefused("a1", "get_agent", "forbidden", 1, 10.9),
        CallRefused("a1", "send_message", "conflict", 1, 10.9),
    ]
    assert refusals.take() == []


def test_a_second_that_is_over_gets_a_row_of_its_own() -> None:
    refusals = Refusals()
    for now in (10.0, 10.5, 11.5, 11.6):
        refusals.note(ALICE, SEND, NO, now)
    assert [(row.count, row.since) for row in refusals.take(11.6)] == [(2, 10.0)]
    assert [(row.count, row.since) for row in refusals.take()] == [(2, 11.5)]


def test_a_send_that_reached_nobody_counts_and_one_that_did_does_not() -> None:
    refusals = Refusals()
    missed = [Outcome(name="x", status="denied"), Outcome(name="y", status="received")]
    for reply in (
        Sent(status="denied"),
        Sent(status="refused"),
        Sent(id="m1", status="sent", recipients=missed),
        Sent(id="m1", status="queued"),
        Done(),
    ):
        refusals.note(ALICE, SEND, reply, 1.0)
    assert {(row.code, row.count) for row in refusals.take()} == {("denied", 2), ("refused", 1)}


def test_what_could_not_be_read_has_no_operation_and_only_sends_are_limited_in_rate() -> None:
    refusals = Refusals()
    for code in ("bad_request", "rate_limited"):
        error = TellwireError(code, "No.")
        refusals.note(ALICE, error, error, 1.0)
    assert {(row.operation, row.code) for row in refusals.take()} == {
        ("", "bad_request"),
        ("send_message", "rate_limited"),
    }


def test_memory_is_bounded_and_nothing_goes_uncounted() -> None:
    refusals = Refusals()
    for place in range(KEYS_MAX * 3):
        refusals.note(Caller(kind="agent", agent=f"a{place}"), SEND, NO, 1.0)
    rows = refusals.take()
    assert len(rows) == KEYS_MAX + 1
    assert sum(row.count for row in rows) == KEYS_MAX * 3
    assert rows[-1] == CallRefused("", "", "", KEYS_MAX * 2, 1.0)
