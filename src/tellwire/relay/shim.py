"""The MCP server that an agent CLI starts: a pipe of lines between it and the broker, which does the work.

It reads no JSON. Each line of the client gets a number and goes to the broker; the broker tells by it
when a line is dealt with, what to say to the client, and which lines make a handshake. So when the connection
breaks, this program knows what to do: connect again, starting a broker if need be, say the handshake again
without letting the client hear the answer, and send every line that is still open as it was. The broker knows
a line it had already by the number, and by the `instance`, a random id of this run of the program.

    to the broker    12 5f3a1c 10,11 {"jsonrpc":"2.0","id":7,...}    number, birth, answers written, line
                     ~1 5e0000 - {...}                               of the handshake, said again
                     !13 5f3a2d - {"id":8}                           the ids of a line that is too long
    from the broker  12 . {"jsonrpc":"2.0","id":7,...}               say this; line 12 is done
                     1 + {...}                                       the same; and line 1 is of the handshake
                     13 . ·                                          nothing to say; line 13 is done
                     14 x {...}                                      say this, and end: its id cannot be said
                     0 . {...}                                       say this
                     0 ! ·                                           the broker stops: wait for the next one

The birth of a line is in microseconds on the broker's clock. Which answers were written tells the broker
what the client can have read. This protocol is frozen: a change needs a new VERSION next to the old one.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

from tellwire.paths import connect_to_own, home_path, is_named, socket_path

TYPE_CHECKING = False  # importing it from typing would cost as much as all of this
if TYPE_CHECKING:
    from tellwire.relay.alone import Alone
    from tellwire.relay.ids import IdFinder
    from tellwire.relay.starter import Starter

VERSION = 1
LINE_BYTES_MAX = 1 << 20
READ_BYTES = 1 << 16
PIPE_BYTES = 4_096
"""Bytes that a writable pipe accepts without blocking."""
OPEN_MAX = 1_000
"""With this many unanswered lines, no more are read."""
BUFFER_BYTES_MAX = 4 << 20
"""With this much unwritten output on one side, the other side is not read."""
GREETING_S = 10.0
GIVE_UP_S = 20.0
"""After this long without a broker, unanswered lines get an error."""
ALONE_S = 2.0
"""After this long without an answer, the shim itself answers a session's first requests."""
ASK_S = 10.0
"""A broker that is silent for this long, while a line is unanswered, is pinged."""
STALLED_S = 30.0
"""If no answer comes for this long in all, unanswered lines get an error."""
FAREWELL_S = 5.0
LOOK_MS = 250
UNANSWERABLE = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The message is longer than 1 MiB and has '
    b'an id that cannot be answered: the connection ends."}}\n'
)
RETRY_MS = 20
IDLE_RETRY_MS = 500


PING = b'{"jsonrpc":"2.0","id":"tellwire shim","method":"ping"}'


class ClientLine:
    """One line of the client's that is unanswered, or belongs to the handshake."""

    __slots__ = ("birth_us", "text", "too_long")

    def __init__(self, text: bytes, *, too_long: bool) -> None:
        self.text = text
        self.too_long = too_long
        self.birth_us = -1
        """Set when it is first sent."""


class ClientLines:
    """The client's lines by number, as far as the broker has to know them, and how they are sent."""

    def __init__(self) -> None:
        self.number = 0
        self.open: dict[int, ClientLine] = {}
        """Lines that are not dealt with."""
        self.handshake: dict[int, ClientLine] = {}
        self.clock_us = 0
        """What to add to our clock to get the broker's."""

    def add(self, text: bytes, *, too_long: bool = False) -> int:
        """Number a line, and keep it until it is answered."""
        self.number += 1
        self.open[self.number] = ClientLine(text, too_long=too_long)
        return self.number

    def encode(self, number: int, written: list[int], mark: bytes = b"") -> bytes:
        """A line as it goes to the broker, with the numbers of the answers that were `written`."""
        line = self.open.get(number) or self.handshake[number]
        if line.birth_us < 0:
            line.birth_us = self.clock_us + int(time.monotonic() * 1e6)
        numbers = b",".join(b"%d" % each for each in written) or b"-"
        written.clear()
        mark = b"!" if line.too_long else mark
        return b"%b%d %x %b %b\n" % (mark, number, line.birth_us, numbers, line.text)


class ClientPipe:
    """The client's end: its lines on stdin, and what goes to it on stdout."""

    def __init__(self) -> None:
        self._rest = b""
        self._finder: IdFinder | None = None
        """Looks for the ids of a line that is too long, while it is passed over."""
        self.outgoing: list[tuple[int, bytes]] = []
        """Bytes for the client, each with the number it answers."""
        self.written: list[int] = []
        """Numbers whose answers were written since the last line to the broker."""
        self.ended = False

    def read(self) -> list[tuple[bytes, bool]]:
        """The lines that have come; of one that is too long, which is marked, only its ids."""
        data = os.read(0, READ_BYTES)
        if not data:
            self.ended = True
            is_cut = bool(self._rest) or self._finder is not None
            return self._end_line(self._rest) if is_cut else []
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = [each for line in lines for each in self._end_line(line)]
        if len(self._rest) > LINE_BYTES_MAX or self._finder is not None:
            self._pass_over(self._rest)
            self._rest = b""
        return found

    def _end_line(self, line: bytes) -> list[tuple[bytes, bool]]:
        if self._finder is None and len(line) <= LINE_BYTES_MAX:
            return [(line, False)] if line.strip() else []
        from tellwire.relay.ids import IDS_MAX, is_sayable  # noqa: PLC0415 - hardly ever needed

        ids = self._pass_over(line).finish()
        self._finder = None
        if len(ids) > IDS_MAX or not all(map(is_sayable, ids)):
            self.outgoing.append((0, UNANSWERABLE))
            self.ended = True
            return []
        objects = [b'{"id":%b}' % each for each in ids] or [b"{}"]
        return [(objects[0] if len(objects) == 1 else b"[%b]" % b",".join(objects), True)]

    def _pass_over(self, data: bytes) -> IdFinder:
        """Keep of a line that is too long only what it needs to be refused."""
        if self._finder is None:
            from tellwire.relay.ids import IdFinder  # noqa: PLC0415 - as above

            self._finder = IdFinder()
        self._finder.feed(data)
        return self._finder

    def write(self) -> None:
        """Write to the client what its pipe takes now."""
        ready = select.poll()
        ready.register(1, select.POLLOUT)
        while self.outgoing and ready.poll(0 if not self.ended else 1_000):
            number, data = self.outgoing[0]
            count = os.write(1, data[:PIPE_BYTES])
            if count < len(data):
                self.outgoing[0] = (number, data[count:])
                continue
            del self.outgoing[0]
            if number:
                self.written.append(number)


class BrokerSocket:
    """The connection to the broker."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rest = b""
        self.socket: _socket.socket | None = None
        self.is_greeting = False
        """Connected, and the broker has not answered the greeting."""
        self.greeted_at = 0.0
        self.outgoing = bytearray()

    @property
    def is_ready(self) -> bool:
        """Whether a broker takes lines: it is connected and has answered the greeting."""
        return self.socket is not None and not self.is_greeting

    def connect(self) -> None:
        """Connect; the greeting has to be the first that is sent."""
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            connect_to_own(sock, self._path)
        except BaseException:
            sock.close()
            raise
        self.socket, self.is_greeting = sock, True
        self.greeted_at = time.monotonic()

    def write(self) -> None:
        """Write to the broker what its socket takes now."""
        while self.outgoing and self.socket is not None:
            try:
                count = self.socket.send(self.outgoing)
            except BlockingIOError:
                return
            del self.outgoing[:count]

    def read(self) -> bytes | None:
        """Bytes that have come; None if there are none now, empty at the end."""
        try:
            return None if self.socket is None else self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None

    def split(self, data: bytes) -> list[bytes]:
        """The lines that are whole with these bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def close(self) -> None:
        """Hang up; what was not sent yet is forgotten."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.is_greeting = None, False
        self._rest = b""
        self.outgoing.clear()


class Shim:
    """One client's pipe to the broker."""

    def __init__(self, options: dict[str, str]) -> None:
        env, home = os.environ, options.get("home")
        self.options = options
        self.instance = os.urandom(12).hex()
        self.lines = ClientLines()
        self.client = ClientPipe()
        self.broker = BrokerSocket(socket_path(home_path(env, home), env, named=is_named(env, home)))
        self.starter: Starter | None = None
        """Made when there is no broker; most sessions never need it."""
        self.alone: Alone | None = None
        """Made when the broker is silent for long."""
        self.is_untold = False
        """The broker does not know yet that the client had its first answers from here."""
        self.greetings = 0
        self.heard_at = 0.0
        """When the broker last said something, or the first of the open lines came."""
        self.probe = 0
        """The line of our own that asks for a sign of life."""
        self.farewell_at: float | None = None
        self.stopped = False
        """The broker was stopped on purpose: none is started before somebody asks for something."""
        self.lost_at = time.monotonic()
        self.retry_at = 0.0

    # -- the loop

    def run(self) -> None:
        """Pump until the client is gone."""
        while not self.is_over():
            if self.broker.socket is None:
                self.reach()
            self.step()
            if self.lines.open or self.alone is not None:
                self.mind_silence()
        self.client.write()

    def is_over(self) -> bool:
        """Whether the client has closed its end and all is said."""
        broker = self.broker
        if not self.client.ended:
            return False
        if not broker.is_ready and not self.lines.open:
            return True
        now = time.monotonic()
        if self.farewell_at is None and broker.is_ready and not broker.outgoing and broker.socket is not None:
            self.farewell_at = now
            broker.socket.shutdown(_socket.SHUT_WR)
        return self.farewell_at is not None and (broker.socket is None or now - self.farewell_at > FAREWELL_S)

    def step(self) -> None:
        """Wait for one thing to happen, and deal with it."""
        if self.starter is not None:
            self.starter.reap()
        client, broker, poll = self.client, self.broker, select.poll()
        if not client.ended and len(broker.outgoing) < BUFFER_BYTES_MAX and len(self.lines.open) < OPEN_MAX:
            poll.register(0, select.POLLIN)
        if client.outgoing:
            poll.register(1, select.POLLOUT)
        wait_ms = None
        if broker.socket is not None:
            reads = select.POLLIN if len(client.outgoing) < 1_000 else 0
            poll.register(broker.socket.fileno(), reads | (select.POLLOUT if broker.outgoing else 0))
            if self.farewell_at is not None:
                wait_ms = FAREWELL_S * 1_000
            elif self.lines.open or broker.is_greeting or (self.alone is not None and self.alone.late):
                wait_ms = LOOK_MS
        else:
            wait_ms = RETRY_MS if self.is_wanted() or self.is_starting() else IDLE_RETRY_MS
        ready = dict(poll.poll(wait_ms))
        if ready.get(0):
            for text, too_long in client.read():
                self.take_line(text, too_long=too_long)
        if ready.get(1):
            client.write()
        if broker.socket is not None and ready.get(broker.socket.fileno()):
            try:
                broker.write()
                self.read_broker()
            except OSError:
                self.lose()

    def mind_silence(self) -> None:
        """No line waits for ever for a broker that says nothing."""
        now = time.monotonic()
        quiet_s = now - self.heard_at
        is_apart = not self.broker.is_ready
        is_alone = self.is_untold or (is_apart and self.alone is not None and self.alone.is_open)
        if self.lines.open and (is_alone or (quiet_s > ALONE_S and not self.lines.handshake)):
            self.answer_alone()
        if is_apart:
            if self.lines.open and now - self.lost_at > GIVE_UP_S:
                self.excuse((self.starter and self.starter.trouble) or "The broker does not answer.")
            if self.broker.is_greeting and now - self.broker.greeted_at > GREETING_S:
                self.hang_up()
            return
        if self.lines.open and quiet_s > STALLED_S and self.probe:
            self.excuse(f"The broker has not answered for {STALLED_S:.0f} s.")
        elif self.lines.open and quiet_s > ASK_S and not self.probe:
            self.probe = self.send_own(PING)
        if self.alone is not None and (line := self.alone.expired()):
            self.send_own(line)

    def answer_alone(self) -> None:
        """Answer what every session asks first, as the last broker would have."""
        alone = self.make_alone()
        for number in [each for each in self.lines.open if each > alone.tried]:
            alone.tried = number
            answer = alone.first(self.lines.open[number].text)
            if answer is None:
                continue
            text, is_handshake = answer
            line = self.lines.open.pop(number)
            if is_handshake:
                self.lines.handshake[number] = line
                self.is_untold = True
            if text:
                self.client.outgoing.append((0, text))
        self.client.write()

    def make_alone(self) -> Alone:
        """The part that answers without a broker; made on first use."""
        if self.alone is None:
            from tellwire.relay.alone import Alone  # noqa: PLC0415 - hardly ever needed

            self.alone = Alone(home_path(os.environ, self.options.get("home")), self.options)
        return self.alone

    def send_own(self, text: bytes) -> int:
        """Say something to the broker that the client has not said; its number."""
        self.take_line(text)
        return self.lines.number

    def is_wanted(self) -> bool:
        """Whether a broker is to be started if there is none: not for one that was stopped on purpose."""
        return bool(self.lines.open) or not self.stopped

    def is_starting(self) -> bool:
        """Whether a broker is just being started."""
        return self.starter is not None and self.starter.busy

    # -- the client

    def take_line(self, text: bytes, *, too_long: bool = False) -> None:
        """Number a line and pass it on."""
        if not self.lines.open:
            self.heard_at = time.monotonic()
            if not self.broker.is_ready:
                self.lost_at = self.heard_at
        if self.alone is not None and self.alone.late and self.repeat(text):
            return
        self.pass_on(self.lines.add(text, too_long=too_long))

    def pass_on(self, number: int) -> None:
        """Send a line, if somebody is there to send it to; else it goes with the greeting."""
        if self.broker.is_ready:
            self.send(number)
            try:
                self.broker.write()
            except OSError:
                self.lose()

    def repeat(self, text: bytes) -> bool:
        """Whether a line makes a call again that was given up: it goes on under the number of the first."""
        alone = self.make_alone()
        found = alone.repeated(text)
        if found is None:
            return False
        number, late = found
        if late.answer:
            self.client.outgoing.append((number, alone.pass_on(number) + b"\n"))
            self.client.write()
            return True
        self.lines.open[number] = late.line
        if late.greeting != self.greetings:
            late.greeting = self.greetings
            self.pass_on(number)
        return True

    # -- the broker

    def send(self, number: int, mark: bytes = b"") -> None:
        """Put a line into what goes to the broker."""
        self.broker.outgoing += self.lines.encode(number, self.client.written, mark)

    def read_broker(self) -> None:
        """Handle what the broker sent."""
        data = self.broker.read()
        if data is None:
            return
        if not data:
            self.lose()
            return
        self.heard_at = time.monotonic()
        if self.is_untold:
            self.lose()  # the next greeting tells it, and what is open goes with that
            return
        lines = self.broker.split(data)
        if lines and self.broker.is_greeting:
            self.on_welcome(lines.pop(0))
        for line in lines:
            head, flag, text = line.split(b" ", 2)
            number = int(head)
            done = self.lines.open.pop(number, None)
            if number and number == self.probe:
                self.probe, text = 0, b""
            elif self.alone is not None:
                text = self.alone.translate(number, text)
            if flag == b"+" and done is not None:
                self.lines.handshake[number] = done
            elif flag == b"!":
                self.stopped = True
            elif flag == b"x":
                self.client.ended = True
            if text:
                shown = for_person(text) if os.isatty(1) else text
                self.client.outgoing.append((number, shown + b"\n"))
        self.client.write()

    def lose(self) -> None:
        """The connection is broken; nothing else is lost."""
        now = time.monotonic()
        self.retry_at = 0.0
        if self.broker.is_greeting:
            self.retry_at = now + RETRY_MS / 1_000
        else:
            self.lost_at = now
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection; the next one is asked for a sign of life anew."""
        self.broker.close()
        self.lines.open.pop(self.probe, None)
        self.probe = 0

    # -- finding a broker, or starting one

    def reach(self) -> None:
        """Try to connect; if nobody listens, see to it that a broker is started."""
        now = time.monotonic()
        starter = self.starter
        if self.lines.open and ((starter and starter.failures > 1) or now - self.lost_at > GIVE_UP_S):
            self.excuse((starter and starter.trouble) or "The broker cannot be reached.")
        if now < self.retry_at:
            return
        try:
            self.broker.connect()
        except OSError:
            if self.is_wanted() or self.is_starting():
                self.start()
            else:
                self.retry_at = now + IDLE_RETRY_MS / 1_000
        else:
            self.broker.outgoing += self.hello()
            self.is_untold = False

    def start(self) -> None:
        """See to it that a broker is started; returns at once."""
        if self.starter is None:
            from tellwire.relay.starter import Starter  # noqa: PLC0415 - hardly ever needed

            self.starter = Starter(os.environ, self.options.get("home"))
        self.starter.step()

    def on_welcome(self, answer: bytes) -> None:
        """Repeat the handshake and all unanswered lines, now that a broker answers."""
        words = answer.split()
        if words[:2] != [b"shim", b"%d" % VERSION]:
            self.hang_up()
            self.excuse(text_of(answer))
            self.retry_at = time.monotonic() + IDLE_RETRY_MS / 1_000
            return
        self.broker.is_greeting = False
        self.lines.clock_us = int(words[2]) - int(time.monotonic() * 1e6)
        self.stopped = False
        self.greetings += 1
        if self.starter is not None:
            self.starter.succeed()
        for number in self.lines.handshake:
            self.send(number, b"~")
        for number in self.lines.open:
            self.send(number)
        if self.alone is not None:
            self.alone.reconnected()
        self.broker.write()

    def hello(self) -> bytes:
        """The greeting, written without a JSON encoder."""
        from _json import encode_basestring_ascii as quote  # noqa: PLC0415 - json itself costs too much

        facts = {name: self.options.get(name, "") for name in ("name", "dialect", "tools")}
        facts["instance"] = self.instance
        try:
            facts["cwd"] = os.getcwd()
        except OSError:
            facts["cwd"] = ""
        words = ",".join(f"{quote(name)}:{quote(value)}" for name, value in facts.items() if value)
        numbers = ",".join(str(number) for number in self.lines.open)
        late = () if self.alone is None else self.alone.late
        unwritten = ",".join({str(number) for number in (*dict(self.client.outgoing), *late) if number})
        alone = "true" if self.alone is not None and self.alone.is_open else "false"
        more = f'"open":[{numbers}],"unwritten":[{unwritten}],"alone":{alone}'
        shim = f'{{"version":{VERSION},{words},{more}}}'
        return f'{{"tellwire":1,"program":"mcp shim","shim":{shim}}}\n'.encode()

    def excuse(self, trouble: str) -> None:
        """Answer what is open: a client must not wait for ever."""
        alone = self.make_alone()
        for number, line in list(self.lines.open.items()):
            del self.lines.open[number]
            if number != self.probe:
                answer = alone.give_up(number, line, trouble, self.greetings)
                if answer:
                    self.client.outgoing.append((0, answer))
        self.client.write()
        if self.broker.is_ready:
            return
        self.lost_at = time.monotonic()
        self.stopped = True  # no more starts before somebody asks for something
        if self.starter is not None:
            self.starter.failures = 0


def text_of(refusal: bytes) -> str:
    """The message of a broker that refused the connection."""
    import json  # noqa: PLC0415 - hardly ever needed

    try:
        return str(json.loads(refusal)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return refusal.decode("utf-8", "replace").strip()


def for_person(line: bytes) -> bytes:
    """A line for somebody who tries it at a terminal: all that is not ASCII is escaped."""
    import json  # noqa: PLC0415 - no client has a terminal, and the shim starts faster without

    return json.dumps(json.loads(line)).replace("\x7f", "\\u007f").encode()


def main() -> int:
    """Options are `--name=VALUE` or `--name VALUE`; the program that starts us has checked them."""
    options: dict[str, str] = {}
    words = sys.argv[1:]
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            sys.stderr.write(f"tellwire mcp: unexpected {word!r}\n")
            return 64
        options[name[2:]] = value if equals else (words.pop(0) if words else "")
    try:
        Shim(options).run()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    return 0
