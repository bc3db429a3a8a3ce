"""The wire: cutting bytes into lines, and reading each line or saying clearly why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import (
    CALL_NUMBER_MAX,
    FRAME_BYTES_MAX,
    PROTOCOL,
    BrokerFrame,
    CallError,
    Hello,
    LineDecoder,
    Welcome,
    format_call,
    format_error,
    format_frame,
    format_offer,
    format_ok,
    parse_broker_frame,
    parse_call,
    parse_hello,
    parse_welcome,
)
from tellwire.protocol.operations.agents import Done, Heartbeat
from tellwire.protocol.operations.messages import SendMessage
from tests.unit.mesh import refused

BEAT = b'{"n":1,"do":{"op":"heartbeat"}}'
DEEP = b"[" * 5000 + b"]" * 5000


def lines_of(decoder: LineDecoder, chunks: list[bytes]) -> list[bytes]:
    """What a reader gets; whether a line still bears its newline does not matter to it."""
    return [line.removesuffix(b"\n") for chunk in chunks for line in decoder.feed(chunk)]


@given(st.lists(st.binary(max_size=20).map(lambda part: part.replace(b"\n", b"")), max_size=8), st.data())
def test_however_a_stream_is_cut_the_same_lines_come_out(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert lines_of(LineDecoder(), chunks) == lines


def test_an_unfinished_line_waits_for_its_end() -> None:
    decoder = LineDecoder()
    assert decoder.feed(BEAT[:10]) == []
    assert decoder.feed(BEAT[10:]) == []
    assert lines_of(decoder, [b"\n"]) == [BEAT]


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_beyond_the_bound_is_refused_and_not_kept(end: bytes) -> None:
    decoder = LineDecoder(10)
    with refused("frame_too_large"):
        decoder.feed(b"x" * 11 + end)
    assert lines_of(decoder, [b"ok\n"]) == [b"ok"]


@pytest.mark.requirement("SEC-3")
def test_a_line_that_grows_beyond_the_bound_in_parts_is_refused() -> None:
    decoder = LineDecoder(10)
    assert decoder.feed(b"x" * 6) == []
    with refused("frame_too_large"):
        decoder.feed(b"x" * 6)


def test_a_line_of_exactly_the_bound_passes() -> None:
    assert lines_of(LineDecoder(10), [b"x" * 10 + b"\n"]) == [b"x" * 10]


def test_the_largest_body_in_its_longest_escaped_form_fits_a_frame() -> None:
    frame = format_call(CALL_NUMBER_MAX, SendMessage(to="bob", body="\x01" * 64 * 1024))
    assert len(frame) < FRAME_BYTES_MAX


# -- greetings ----------------------------------------------------------------------------------------


def test_greetings_round_trip() -> None:
    assert parse_hello(format_frame(Hello(tellwire=PROTOCOL, program="p"))).program == "p"
    welcome = Welcome(tellwire=PROTOCOL, version="1", awake=1.5, heartbeat_s=30.0, pid=7)
    assert parse_welcome(format_frame(welcome)) == welcome


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1\r",
        b"[]",
        b'{"n":1}',
        b"\xff\xfe",
        b'{"tellwire":"1"}',
        b'{"tellwire":1,"x":' + DEEP + b"}",
    ],
    ids=["empty", "http", "list", "call", "bytes", "text", "deep"],
)
def test_a_connection_that_does_not_begin_with_a_greeting_is_told_so(line: bytes) -> None:
    with refused("greeting_missing"):
        parse_hello(line)


@pytest.mark.parametrize("version", [0, -1, PROTOCOL + 1, 10**30])
def test_another_version_of_the_protocol_is_refused_by_both_sides(version: int) -> None:
    with refused("wrong_version") as caught:
        parse_hello(b'{"tellwire":%d}' % version)
    assert str(version) in caught.value.message
    with refused("wrong_version"):
        parse_welcome(b'{"tellwire":%d,"version":"9","awake":0.0,"heartbeat_s":1.0}' % version)


def test_a_refusal_in_place_of_the_welcome_is_raised_as_it_was_meant() -> None:
    said = TellwireError("too_many_connections", "Full.", "Wait.")
    with refused("too_many_connections") as caught:
        parse_welcome(format_error(0, said))
    assert (caught.value.message, caught.value.advice) == ("Full.", "Wait.")


@pytest.mark.parametrize("line", [b"SSH-2.0-x", b"{}", b'{"x":' + DEEP + b"}"], ids=["ssh", "empty", "deep"])
def test_a_stranger_on_the_socket_is_not_taken_for_a_broker(line: bytes) -> None:
    with refused("bad_frame"):
        parse_welcome(line)


# -- calls --------------------------------------------------------------------------------------------


def test_a_call_round_trips() -> None:
    call = parse_call(format_call(7, SendMessage(to=["a", "b"], body={"x": [1, None]}, re="m1")))
    assert (call.n, call.do) == (7, SendMessage(to=["a", "b"], body={"x": [1, None]}, re="m1"))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"null",
        b'{"do":{"op":"heartbeat"}}',
        b'{"n":-1,"do":{"op":"heartbeat"}}',
        b'{"n":true,"do":{"op":"heartbeat"}}',
        b'{"n":"1","do":{"op":"heartbeat"}}',
        b'{"n":null,"do":{"op":"heartbeat"}}',
        b'{"n":9007199254740993,"do":{"op":"heartbeat"}}',
        b'{"n":-5,"do":{"op":"nothing"}}',
        BEAT + BEAT,
        BEAT[:-1],
        b'{"n":1,"do":{"op":"send_message","to":"b","body":"\xff\xfe"}}',
        b'{"n":1,"do":{"op":"send_message","to":"b","body":"\\ud800"}}',
        b'{"n":1,"do":{"op":"send_message","to":"b","body":' + DEEP + b"}}",
        DEEP,
    ],
)
def test_a_line_that_cannot_be_numbered_ends_the_connection_with_a_reason(line: bytes) -> None:
    with refused("bad_frame") as caught:
        parse_call(line)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("do", "hint"),
    [
        (b'{"op":"send_message","to":"bob"}', "body"),
        (b'{"op":"send_message","to":5,"body":"x"}', "to"),
        (b'{"op":"send_message","to":"b","body":"x","mode":"shout"}', "mode"),
        (b'{"op":"send_message","to":"b","body":"x","from":"eve"}', "from"),
        (b'{"op":"peek_messages","limit":"many"}', "limit"),
        (b"5", "do"),
        (b"null", "do"),
        (b'{"op":null}', "op"),
        (b"{}", "op"),
    ],
)
def test_a_numbered_call_with_a_wrong_field_is_refused_by_its_number(do: bytes, hint: str) -> None:
    with pytest.raises(CallError) as caught:
        parse_call(b'{"n":42,"do":' + do + b"}")
    assert caught.value.n == 42
    assert caught.value.error.code == "bad_request"
    assert hint in caught.value.error.message


def test_an_unknown_operation_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(CallError) as caught:
        parse_call(b'{"n":3,"do":{"op":"send_mesage"}}')
    assert caught.value.error.code == "unknown_operation"
    assert "send_message" in caught.value.error.advice


def test_an_operation_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(CallError) as caught:
        parse_call(b'{"n":3,"do":{"op":"%s"}}' % (b"q" * 9000))
    assert caught.value.error.code == "unknown_operation"
    assert "Did you mean" not in caught.value.error.advice


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    "do",
    [
        b'{"op":"%s"}' % (b"z" * 9000),
        b'{"op":"heartbeat","%s":1}' % (b"z" * 9000),
        b'{"op":"send_message","to":"b","body":1,"mode":"%s"}' % (b"z" * 9000),
    ],
    ids=["operation", "field", "value"],
)
def test_a_refusal_is_short_whatever_it_refuses(do: bytes) -> None:
    with pytest.raises(CallError) as caught:
        parse_call(b'{"n":1,"do":' + do + b"}")
    assert len(caught.value.error.message) < 1000


@given(st.binary(max_size=200))
def test_noise_is_refused_clearly_whatever_it_is(line: bytes) -> None:
    with pytest.raises((TellwireError, CallError)):
        parse_call(line)


# -- the broker's frames ------------------------------------------------------------------------------


def test_an_answer_a_refusal_and_an_offer_are_told_apart() -> None:
    answer = parse_broker_frame(format_ok(5, Done(note="done")))
    assert (answer.n, bytes(answer.ok)) == (5, b'{"note":"done"}')  # pyright: ignore[reportArgumentType]  # set
    refusal = parse_broker_frame(format_error(6, TellwireError("conflict", "Twice.")))
    assert refusal.error is not None
    assert (refusal.n, refusal.error.code, refusal.error.error().advice) == (
        6,
        "conflict",
        refusal.error.advice,
    )
    record = b'{"id":"m1","from":"alice","to":"bob","body":"hi","at":1.0}'
    offer = parse_broker_frame(format_offer([record, record], 3)).offer
    assert offer is not None
    assert ([message.sender for message in offer.messages], offer.waiting) == (["alice", "alice"], 3)


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"[]", b'{"n":"1"}', b"\xff", b'{"n":1,"ok":' + DEEP + b"}", b'{"offer":' + DEEP + b"}"],
    ids=["empty", "word", "list", "text", "bytes", "deep answer", "deep offer"],
)
def test_a_broken_frame_of_the_brokers_is_a_clear_error(line: bytes) -> None:
    with refused("bad_frame"):
        parse_broker_frame(line)


def test_a_call_without_a_number_asks_for_no_answer() -> None:
    assert parse_call(format_call(0, Heartbeat())).n == 0
    assert parse_broker_frame(b"{}") == BrokerFrame()
