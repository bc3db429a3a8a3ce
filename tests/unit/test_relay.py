"""The lines between a shim and the broker."""

import pytest

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import parse_hello
from tellwire.protocol.relay import (
    KEEP,
    LINE_BYTES_MAX,
    RELAY_VERSION,
    STOPPING,
    ShimHello,
    ShimLine,
    check_shim,
    format_shim_answer,
    format_shim_welcome,
    parse_shim_line,
)
from tellwire.relay import shim as relay

INSTANCE = "0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        (b'12 5f3a1c 10,11 {"id": 7}', ShimLine(12, 0x5F3A1C, [10, 11], b'{"id": 7}')),
        (b"1 0 - {}", ShimLine(1, 0, [], b"{}")),
        (b"1 0 -  {} ", ShimLine(1, 0, [], b" {} ")),
        (b"1 0 - ", ShimLine(1, 0, [], b"")),
        (b"~1 5e0000 - {}", ShimLine(1, 0x5E0000, [], b"{}", again=True)),
        (b'!13 5f3a2d 3 {"jso', ShimLine(13, 0x5F3A2D, [3], b'{"jso', cut=True)),
        (b"7 ff - \xff\x00\xfe", ShimLine(7, 255, [], b"\xff\x00\xfe")),
    ],
)
def test_a_line_is_its_header_and_the_clients_text_as_it_was(line: bytes, parsed: ShimLine) -> None:
    assert parse_shim_line(line) == parsed


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"12",
        b"12 5f3a1c",
        b"12 5f3a1c -",
        b"x 0 - {}",
        b"1 g - {}",
        b"1 0 x {}",
        b"1 0 1,,2 {}",
        b"1 0 , {}",
        b"~ 0 - {}",
        b"!~1 0 - {}",
        b" 1 0 - {}",
        b"1.5 0 - {}",
        b"\xff\xfe 0 - {}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params": {}}',
        b"9" * 10_000 + b" 0 - {}",
        b"1 0 " + b"9" * 10_000 + b" {}",
    ],
)
def test_a_line_without_its_header_ends_the_connection(line: bytes) -> None:
    with pytest.raises(TellwireError) as caught:
        parse_shim_line(line)
    assert caught.value.code == "bad_frame"


def test_a_greeting_in_the_brokers_version_is_welcome() -> None:
    check_shim(ShimHello(version=RELAY_VERSION, instance=INSTANCE))


@pytest.mark.parametrize("version", [0, -1, RELAY_VERSION + 1, 10**9])
def test_another_version_is_refused_as_such(version: int) -> None:
    with pytest.raises(TellwireError) as caught:
        check_shim(ShimHello(version=version, instance=INSTANCE))
    assert caught.value.code == "wrong_version"


@pytest.mark.parametrize(
    "hello",
    [
        ShimHello(version=RELAY_VERSION, instance=""),
        ShimHello(version=RELAY_VERSION, instance="short"),
        ShimHello(version=RELAY_VERSION, instance="x" * 65),
        ShimHello(version=RELAY_VERSION, instance=INSTANCE, cwd="/" * 4_097),
        ShimHello(version=RELAY_VERSION, instance=INSTANCE, open=list(range(10_001))),
    ],
)
def test_a_greeting_out_of_bounds_is_refused(hello: ShimHello) -> None:
    with pytest.raises(TellwireError) as caught:
        check_shim(hello)
    assert caught.value.code == "bad_frame"


def test_the_welcome_tells_version_and_clock_in_microseconds() -> None:
    assert format_shim_welcome(1.5) == b"shim 1 1500000\n"


def test_an_answer_is_number_flag_and_text() -> None:
    assert format_shim_answer(12, b'{"id":7}') == b'12 . {"id":7}\n'
    assert format_shim_answer(1, b"{}", KEEP) == b"1 + {}\n"
    assert format_shim_answer(13) == b"13 . \n"
    assert STOPPING == b"0 ! \n"


def test_the_shims_greeting_is_one_the_broker_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    name = 'a "quoted" näme\n'
    monkeypatch.setenv("TELLWIRE_HOME", "/nowhere")
    shim = relay.Shim({"name": name, "dialect": "f2", "tools": "all"})
    shim.take_line(b"{}")
    shim.take_line(b"{}")
    hello = parse_hello(shim.hello().rstrip(b"\n")).shim
    assert hello is not None
    check_shim(hello)
    assert (hello.name, hello.dialect, hello.tools, hello.open) == (name, "f2", "all", [1, 2])
    assert (hello.instance, relay.VERSION) == (shim.instance, RELAY_VERSION)
    assert relay.Shim({}).instance != shim.instance


def test_what_a_shim_sends_is_what_the_broker_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLWIRE_HOME", "/nowhere")
    shim = relay.Shim({})
    shim.lines.clock_us = 0
    shim.take_line(b'{"id": 1}')
    shim.client.written += [3, 4]
    shim.send(1)
    shim.take_line(b'{"id": 2, "x', too_long=True)
    shim.send(2)
    lines = [parse_shim_line(line) for line in bytes(shim.broker.outgoing).splitlines()]
    assert [(line.number, line.written, line.text, line.cut) for line in lines] == [
        (1, [3, 4], b'{"id": 1}', False),
        (2, [], b'{"id": 2, "x', True),
    ]
    assert 0 < lines[0].birth_us <= lines[1].birth_us


def test_a_line_of_a_client_fits_between_shim_and_broker() -> None:
    header = b"%b%d %x %b " % (b"~", 10**9, 1 << 62, b",".join(b"%d" % n for n in range(10**6, 10**6 + 400)))
    assert relay.LINE_BYTES_MAX + len(header) < LINE_BYTES_MAX
