"""The wire: one JSON object per line, a greeting first. Bytes in, frames out; no sockets here.

    client  {"tellwire":1,"program":"sdk 0.1.0"}
    broker  {"tellwire":1,"version":"0.1.0","awake":86400.5,"heartbeat_s":30.0}
    client  {"n":1,"do":{"op":"send_message","to":"bob","body":"hi"}}
    broker  {"n":1,"ok":{"id":"m4f2k","status":"received"}}
    broker  {"offer":{"messages":[{"id":"m4f2k","from":"alice","to":"bob","body":"hi","at":1760000000.0}]}}
    broker  {"feed":{"seq":81,"at":1760000000.0,"type":"message_queued","who":"alice","text":"hi"}}
    broker  {"rows":{"seq":81,"agents":{"a3":{"name":"bob","kind":"codex","pending":1}}}}
    broker  {"pulse":{"agent":"a3","activity":"busy","since":1760000000.0}}
    broker  {"n":2,"error":{"code":"mailbox_full","message":"...","advice":"..."}}

An error with `n` 0 concerns the whole connection, which is closed after it. A call with `n` 0 gets no
answer. Replies come in the order of the calls; offers and feed events come between them at any time.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import OPERATIONS, AnyOperation
from tellwire.protocol.operations.feed import FeedEvent, Pulse, Rows
from tellwire.protocol.operations.messages import Offer
from tellwire.protocol.operations.needs import Notice
from tellwire.protocol.relay import (
    HookHello,
    ShimHello,
    WaiterHello,
    WireHello,
    check_relay,
    check_shim,
    check_wire,
)
from tellwire.protocol.suggestions import nearest

PROTOCOL = 1
FRAME_BYTES_MAX = 1 << 20
"""Room for the largest body in its longest escaped form, and for any listing page."""
CALL_NUMBER_MAX = 2**53
EXPLANATION_LENGTH_MAX = 300
"""Of a validation error, which quotes the caller's own words."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame of a client: what it is and what it wants."""

    tellwire: int
    program: str = ""
    shim: ShimHello | None = None
    """Set by a shim, which speaks the lines of `protocol/relay` from here on."""
    hook: HookHello | None = None
    """Set by a hook of an agent CLI; its payload follows."""
    waiter: WaiterHello | None = None
    """Set by a program that waits for mail while an agent CLI is idle."""
    wire: WireHello | None = None
    """Set by the far end of an ssh carrier; sealed blobs of another machine follow."""

    @property
    def door(self) -> str:
        """Whose connection this is: empty for the server's own protocol."""
        special = {"shim": self.shim, "hook": self.hook, "waiter": self.waiter, "wire": self.wire}
        return next((name for name, words in special.items() if words is not None), "")


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's greeting: what a client must know to behave."""

    tellwire: int
    version: str
    awake: float
    """The clock of request ids: seconds; it never jumps."""
    heartbeat_s: float
    pid: int = 0
    clock: float = 0.0
    """The machine's monotonic clock as the broker reads it: shared by a client that reads the same."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request, with a number that its answer repeats."""

    n: Annotated[int, msgspec.Meta(ge=0, le=CALL_NUMBER_MAX)]
    do: AnyOperation


class Fault(msgspec.Struct, frozen=True):
    """An error on the wire: code, message and advice."""

    code: str
    message: str
    advice: str = ""

    @classmethod
    def of(cls, error: TellwireError) -> Fault:
        return cls(error.code, error.message, error.advice)

    def error(self) -> TellwireError:
        """The exception that this refusal means."""
        return TellwireError(self.code, self.message, self.advice)


class BrokerFrame(msgspec.Struct, frozen=True, gc=False):
    """Anything the broker sends after its greeting; one of `ok`, `error`, `offer` and the rest is set."""

    n: int = 0
    unread: int = 0
    """With `ok` or `error`, to a person: how many messages to the operator are unread."""
    ok: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Fault | None = None
    offer: Offer | None = None
    feed: FeedEvent | None = None
    rows: Rows | None = None
    """To a watcher with `live`: the state behind the events before it, where it changed."""
    pulse: Pulse | None = None
    """To a watcher with `live`: what an agent is doing now."""
    notice: Notice | None = None
    """To a console that can notify the person: do so now."""


class CallError(Exception):
    """A call that could be numbered but not understood: refused, and the connection goes on."""

    def __init__(self, n: int, error: TellwireError) -> None:
        super().__init__(n, error)
        self.n = n
        self.error = error


class LineDecoder:
    """Cuts a byte stream into lines and holds the unfinished one, up to a bound."""

    __slots__ = ("_bytes_max", "_rest")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rest = bytearray()  # it grows in place: a large line may come in very many pieces

    @property
    def rest(self) -> bytes:
        """The bytes of a line that has not ended yet."""
        return bytes(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes in and return the lines they complete.

        Raises:
            TellwireError: `frame_too_large`; the stream cannot be read on.
        """
        rest, end = self._rest, data.find(b"\n")
        if not rest and 0 < end == len(data) - 1 <= self._bytes_max:
            return [data]  # the usual case: one whole line; its newline is white space to a JSON parser
        lines: list[bytes] = []
        size = len(rest) + len(data)
        if end >= 0:
            lines = (bytes(rest) + data if rest else data).split(b"\n")
            data = lines.pop()
            rest.clear()
        rest += data
        if size > self._bytes_max and max(map(len, [*lines, rest])) > self._bytes_max:
            rest.clear()
            raise TellwireError("frame_too_large", f"A line is longer than {self._bytes_max} bytes.")
        return lines


_encoder = msgspec.json.Encoder()
_hello_decoder = msgspec.json.Decoder(Hello)
_welcome_decoder = msgspec.json.Decoder(Welcome)
_call_decoder = msgspec.json.Decoder(Call)
_broker_decoder = msgspec.json.Decoder(BrokerFrame)


def format_frame(frame: msgspec.Struct) -> bytes:
    """Encode any frame with its newline."""
    return _encoder.encode(frame) + b"\n"


def format_ok(n: int, reply: msgspec.Struct, unread: int = 0) -> bytes:
    """Encode the answer to call `n`; to a person, with how much of the operator's mail is unread."""
    if unread:
        return b'{"n":%d,"ok":%b,"unread":%d}\n' % (n, _encoder.encode(reply), unread)
    return b'{"n":%d,"ok":%b}\n' % (n, _encoder.encode(reply))


def format_error(n: int, error: TellwireError, unread: int = 0) -> bytes:
    """Encode the refusal of call `n`; `unread` as in `format_ok`."""
    if unread:
        return b'{"n":%d,"error":%b,"unread":%d}\n' % (n, _encoder.encode(Fault.of(error)), unread)
    return b'{"n":%d,"error":%b}\n' % (n, _encoder.encode(Fault.of(error)))


def format_offer(messages: list[bytes], waiting: int, until: float = 0.0) -> bytes:
    """Encode messages, already encoded one by one, as one offer."""
    words = messages[0] if len(messages) == 1 else b",".join(messages)
    return b'{"offer":{"messages":[%b],"waiting":%d,"until":%.3f}}\n' % (words, waiting, until)


def format_feed(event: FeedEvent) -> bytes:
    return b'{"feed":%b}\n' % _encoder.encode(event)


def format_rows(rows: Rows) -> bytes:
    """Encode changed state for a watcher."""
    return b'{"rows":%b}\n' % _encoder.encode(rows)


def format_pulse(pulse: Pulse) -> bytes:
    """Encode what an agent does for a watcher."""
    return b'{"pulse":%b}\n' % _encoder.encode(pulse)


def format_notice(notice: Notice) -> bytes:
    """Encode what a console is to notify the person of."""
    return b'{"notice":%b}\n' % _encoder.encode(notice)


def format_call(n: int, operation: msgspec.Struct) -> bytes:
    return b'{"n":%d,"do":%b}\n' % (n, _encoder.encode(operation))


def parse_hello(line: bytes) -> Hello:
    """Read the client's greeting.

    Raises:
        TellwireError: `greeting_missing` or `wrong_version`.
    """
    try:
        hello = _hello_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TellwireError("greeting_missing", "The connection did not begin with a greeting.") from error
    _check_version(hello.tellwire, "client")
    if hello.shim is not None:
        check_shim(hello.shim)
    for relay in (hello.hook, hello.waiter):
        if relay is not None:
            check_relay(relay)
    if hello.wire is not None:
        check_wire(hello.wire)
    return hello


def parse_welcome(line: bytes) -> Welcome:
    """Read the broker's greeting, or its refusal.

    Raises:
        TellwireError: what the broker refused with, `bad_frame` or `wrong_version`.
    """
    try:
        welcome = _welcome_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refusal = parse_broker_frame(line).error
        if refusal is not None:
            raise refusal.error() from error
        raise TellwireError("bad_frame", "What answers on the socket is not a tellwire broker.") from error
    _check_version(welcome.tellwire, "broker")
    return welcome


def parse_broker_frame(line: bytes) -> BrokerFrame:
    """Read one frame of the broker's.

    Raises:
        TellwireError: `bad_frame`.
    """
    try:
        return _broker_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TellwireError("bad_frame", "The broker sent a line that is not a frame.") from error


def parse_call(line: bytes) -> Call:
    """Read one call.

    Raises:
        CallError: the frame has a number, but the operation or a field of it is wrong.
        TellwireError: `bad_frame`; the connection cannot go on.
    """
    try:
        return _call_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explain(line, error) from error


def _check_version(version: int, side: str) -> None:
    if version != PROTOCOL:
        raise TellwireError(
            "wrong_version",
            f"The {side} speaks version {version} of the protocol, this side version {PROTOCOL}.",
        )


def _explain(line: bytes, error: Exception) -> CallError | TellwireError:
    """The error for a frame that cannot be parsed, by call number if it has one."""
    try:
        frame = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.ValidationError:
        frame = {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return TellwireError("bad_frame", "The line is not valid JSON in UTF-8.")
    n = frame.get("n")
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= CALL_NUMBER_MAX:
        return TellwireError("bad_frame", "The frame has no call number `n`.")
    try:
        word = msgspec.convert(frame.get("do"), dict[str, Any]).get("op")
    except msgspec.ValidationError:
        word = None
    if isinstance(word, str) and word not in OPERATIONS:
        near = nearest(word, OPERATIONS)
        advice = f"Did you mean {', '.join(near)}?" if near else None
        return CallError(
            n, TellwireError("unknown_operation", f"There is no operation {word[:40]!r}.", advice)
        )
    return CallError(n, TellwireError("bad_request", f"{str(error)[:EXPLANATION_LENGTH_MAX]}."))
