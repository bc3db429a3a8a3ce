"""The MCP server that an agent CLI starts: a pipe of lines between it and the broker, which does the work.

It reads no JSON. Each line of the client gets a number and goes to the broker; the broker tells by it
when a line is dealt with, what to say to the client, and which lines make a handshake. So when the connection
breaks, this program knows what to do: connect again, starting a broker if need be, say the handshake again
without letting the client hear the answer, and send every line that is still open as it was. The broker knows
a line it had already by the number, and by the `instance`, a random word that is this program's life.

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
what the client can have read. This protocol is frozen: a change needs a new VERSION beside the old one.
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


class Line:
    """One line of the client's that is not dealt with, or is of the handshake."""

    __slots__ = ("birth_us", "text", "too_long")

    def __init__(self, text: bytes, *, too_long: bool) -> None:
        self.text = text
        self.too_long = too_long
        self.birth_us = -1
        """Set when it is first sent."""


class Shim:
    """One client's pipe to the broker."""

    def __init__(self, options: dict[str, str]) -> None:
        env = os.environ
        home = options.get("home")
        self.home = home_path(env, home)
        self.socket_path = socket_path(self.home, env, named=is_named(env, home))
        self.starter: Starter | None = None
        """Made when there is no broker; most sessions never need it."""
        self.alone: Alone | None = None
        """Made when the broker is silent for long."""
        self.is_untold = False
        """The broker does not know yet that the client had its first answers from here."""
        self.options = options
        self.instance = os.urandom(12).hex()
        self.socket: _socket.socket | None = None
        self.is_greeting = False
        """Connected, and the broker has not answered the greeting."""
        self.greeted_at = 0.0
        self.greetings = 0
        self.heard_at = 0.0
        """When the broker last said something, or the first of the open lines came."""
        self.probe = 0
        """The line of our own that asks for a sign of life."""
        self.number = 0
        self.open: dict[int, Line] = {}
        """Lines that are not dealt with, by number."""
        self.handshake: dict[int, Line] = {}
        self.written: list[int] = []
        """Numbers whose answers were written since the last line to the broker."""
        self.heard = b""
        self.finder: IdFinder | None = None
        """Looks for the ids of a line that is too long, while it is passed over."""
        self.said = b""
        self.to_broker = bytearray()
        self.to_client: list[tuple[int, bytes]] = []
        """Bytes for the client, each with the number it answers."""
        self.clock_us = 0
        self.ended = False
        self.farewell_at: float | None = None
        self.stopped = False
        self.lost_at = time.monotonic()
        self.retry_at = 0.0

    # -- the loop

    def run(self) -> None:
        """Pump until the client is gone."""
        while not self.is_over():
            if self.socket is None:
                self.reach()
            self.step()
            if self.open or self.alone is not None:
                self.mind_silence()
        self.write_client()

    def is_over(self) -> bool:
        """Whether the client has closed its end and all is said."""
        if not self.ended:
            return False
        if (self.socket is None or self.is_greeting) and not self.open:
            return True
        now = time.monotonic()
        is_heard = self.socket is not None and not self.is_greeting and not self.to_broker
        if self.farewell_at is None and is_heard and self.socket is not None:
            self.farewell_at = now
            self.socket.shutdown(_socket.SHUT_WR)
        return self.farewell_at is not None and (self.socket is None or now - self.farewell_at > FAREWELL_S)

    def step(self) -> None:
        """Wait for one thing to happen, and deal with it."""
        if self.starter is not None:
            self.starter.bury()
        poll = select.poll()
        if not self.ended and len(self.to_broker) < BUFFER_BYTES_MAX and len(self.open) < OPEN_MAX:
            poll.register(0, select.POLLIN)
        if self.to_client:
            poll.register(1, select.POLLOUT)
        wait_ms = None
        if self.socket is not None:
            reads = select.POLLIN if len(self.to_client) < 1_000 else 0
            poll.register(self.socket.fileno(), reads | (select.POLLOUT if self.to_broker else 0))
            if self.farewell_at is not None:
                wait_ms = FAREWELL_S * 1_000
            elif self.open or self.is_greeting or (self.alone is not None and self.alone.late):
                wait_ms = LOOK_MS
        else:
            wait_ms = RETRY_MS if self.is_wanted() or self.is_starting() else IDLE_RETRY_MS
        ready = dict(poll.poll(wait_ms))
        if ready.get(0):
            self.hear_client()
        if ready.get(1):
            self.write_client()
        if self.socket is not None and ready.get(self.socket.fileno()):
            try:
                self.write_broker()
                self.hear_broker()
            except OSError:
                self.lose()

    def mind_silence(self) -> None:
        """No line waits for ever for a broker that says nothing."""
        now = time.monotonic()
        quiet_s = now - self.heard_at
        is_apart = self.socket is None or self.is_greeting
        is_alone = self.is_untold or (is_apart and self.alone is not None and self.alone.is_open)
        if self.open and (is_alone or (quiet_s > ALONE_S and not self.handshake)):
            self.answer_alone()
        if is_apart:
            if self.open and now - self.lost_at > GIVE_UP_S:
                self.excuse((self.starter and self.starter.trouble) or "The broker does not answer.")
            if self.is_greeting and now - self.greeted_at > GREETING_S:
                self.hang_up()
            return
        if self.open and quiet_s > STALLED_S and self.probe:
            self.excuse(f"The broker has not answered for {STALLED_S:.0f} s.")
        elif self.open and quiet_s > ASK_S and not self.probe:
            self.probe = self.say_own(PING)
        if self.alone is not None and (line := self.alone.expired()):
            self.say_own(line)

    def answer_alone(self) -> None:
        """Answer what every session asks first, as the last broker would have."""
        alone = self.make_alone()
        for number in [each for each in self.open if each > alone.tried]:
            alone.tried = number
            answer = alone.first(self.open[number].text)
            if answer is None:
                continue
            text, is_handshake = answer
            line = self.open.pop(number)
            if is_handshake:
                self.handshake[number] = line
                self.is_untold = True
            if text:
                self.to_client.append((0, text))
        self.write_client()

    def make_alone(self) -> Alone:
        """The part that speaks for itself."""
        if self.alone is None:
            from tellwire.relay.alone import Alone  # noqa: PLC0415 - hardly ever needed

            self.alone = Alone(self.home, self.options)
        return self.alone

    def say_own(self, text: bytes) -> int:
        """Say something to the broker that the client has not said; its number."""
        self.take_line(text)
        return self.number

    def is_wanted(self) -> bool:
        """Whether a broker is to be started if there is none: not for one that was stopped on purpose."""
        return bool(self.open) or not self.stopped

    def is_starting(self) -> bool:
        """Whether a broker is just being started."""
        return self.starter is not None and self.starter.busy

    # -- the client

    def hear_client(self) -> None:
        """Take lines of the client."""
        data = os.read(0, READ_BYTES)
        if not data:
            self.ended = True
            if self.heard or self.finder is not None:
                self.end_line(self.heard)
            return
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            self.end_line(line)
        if len(self.heard) > LINE_BYTES_MAX or self.finder is not None:
            self.pass_over(self.heard)
            self.heard = b""

    def end_line(self, line: bytes) -> None:
        """A line is whole; of one that is too long, its ids go."""
        if self.finder is None and len(line) <= LINE_BYTES_MAX:
            if line.strip():
                self.take_line(line)
            return
        from tellwire.relay.ids import IDS_MAX, is_sayable  # noqa: PLC0415 - hardly ever needed

        ids = self.pass_over(line).finish()
        self.finder = None
        if len(ids) > IDS_MAX or not all(map(is_sayable, ids)):
            self.to_client.append((0, UNANSWERABLE))
            self.ended = True
            return
        objects = [b'{"id":%b}' % each for each in ids] or [b"{}"]
        text = objects[0] if len(objects) == 1 else b"[%b]" % b",".join(objects)
        self.take_line(text, too_long=True)

    def pass_over(self, data: bytes) -> IdFinder:
        """Keep of a line that is too long only what it needs to be refused."""
        if self.finder is None:
            from tellwire.relay.ids import IdFinder  # noqa: PLC0415 - as above

            self.finder = IdFinder()
        self.finder.feed(data)
        return self.finder

    def take_line(self, text: bytes, *, too_long: bool = False) -> None:
        """Number a line and pass it on."""
        if not self.open:
            self.heard_at = time.monotonic()
            if self.socket is None or self.is_greeting:
                self.lost_at = self.heard_at
        if self.alone is not None and self.alone.late and self.repeat(text):
            return
        self.number += 1
        self.open[self.number] = Line(text, too_long=too_long)
        self.pass_on(self.number)

    def pass_on(self, number: int) -> None:
        """Send a line, if somebody is there to send it to; else it goes with the greeting."""
        if self.socket is not None and not self.is_greeting:
            self.send(number)
            self.write_broker_or_lose()

    def repeat(self, text: bytes) -> bool:
        """Whether a line makes a call again that was given up: it goes on under the number of the first."""
        alone = self.make_alone()
        found = alone.repeated(text)
        if found is None:
            return False
        number, late = found
        if late.answer:
            self.to_client.append((number, alone.pass_on(number) + b"\n"))
            self.write_client()
            return True
        self.open[number] = late.line
        if late.greeting != self.greetings:
            late.greeting = self.greetings
            self.pass_on(number)
        return True

    def write_client(self) -> None:
        """Write to the client what its pipe takes now."""
        ready = select.poll()
        ready.register(1, select.POLLOUT)
        while self.to_client and ready.poll(0 if not self.ended else 1_000):
            number, data = self.to_client[0]
            count = os.write(1, data[:PIPE_BYTES])
            if count < len(data):
                self.to_client[0] = (number, data[count:])
                continue
            del self.to_client[0]
            if number:
                self.written.append(number)

    # -- the broker

    def send(self, number: int, mark: bytes = b"") -> None:
        """Put a line into what goes to the broker."""
        line = self.open.get(number) or self.handshake[number]
        if line.birth_us < 0:
            line.birth_us = self.clock_us + int(time.monotonic() * 1e6)
        written = b",".join(b"%d" % each for each in self.written) or b"-"
        self.written.clear()
        mark = b"!" if line.too_long else mark
        self.to_broker += b"%b%d %x %b %b\n" % (mark, number, line.birth_us, written, line.text)

    def write_broker(self) -> None:
        """Write to the broker what its socket takes now."""
        while self.to_broker and self.socket is not None:
            try:
                count = self.socket.send(self.to_broker)
            except BlockingIOError:
                return
            del self.to_broker[:count]

    def write_broker_or_lose(self) -> None:
        """The same; a broken connection is no error."""
        try:
            self.write_broker()
        except OSError:
            self.lose()

    def hear_broker(self) -> None:
        """Take answers."""
        if self.socket is None:
            return
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.lose()
            return
        self.heard_at = time.monotonic()
        if self.is_untold:
            self.lose()  # the next greeting tells it, and what is open goes with that
            return
        *lines, self.said = (self.said + data).split(b"\n")
        if lines and self.is_greeting:
            self.hear_welcome(lines.pop(0))
        for line in lines:
            head, flag, text = line.split(b" ", 2)
            number = int(head)
            done = self.open.pop(number, None)
            if number and number == self.probe:
                self.probe, text = 0, b""
            elif self.alone is not None:
                text = self.alone.hear(number, text)
            if flag == b"+" and done is not None:
                self.handshake[number] = done
            elif flag == b"!":
                self.stopped = True
            elif flag == b"x":
                self.ended = True
            if text:
                self.to_client.append((number, (for_person(text) if os.isatty(1) else text) + b"\n"))
        self.write_client()

    def lose(self) -> None:
        """The connection is broken; nothing else is lost."""
        now = time.monotonic()
        self.retry_at = 0.0
        if self.is_greeting:
            self.retry_at = now + RETRY_MS / 1_000
        else:
            self.lost_at = now
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.is_greeting = None, False
        self.said = b""
        self.to_broker.clear()
        self.open.pop(self.probe, None)
        self.probe = 0

    # -- finding a broker, or starting one

    def reach(self) -> None:
        """Try to connect; if nobody listens, see to it that a broker is started."""
        now = time.monotonic()
        starter = self.starter
        if self.open and ((starter and starter.failures > 1) or now - self.lost_at > GIVE_UP_S):
            self.excuse((starter and starter.trouble) or "The broker cannot be reached.")
        if now < self.retry_at:
            return
        try:
            self.greet()
        except OSError:
            self.socket = None
            if self.is_wanted() or self.is_starting():
                self.start()
            else:
                self.retry_at = now + IDLE_RETRY_MS / 1_000

    def start(self) -> None:
        """See to it that a broker is started; returns at once."""
        if self.starter is None:
            from tellwire.relay.starter import Starter  # noqa: PLC0415 - hardly ever needed

            self.starter = Starter(os.environ, self.options.get("home"))
        self.starter.step()

    def greet(self) -> None:
        """Connect and say who we are; the rest goes when the broker has answered."""
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            connect_to_own(sock, self.socket_path)
        except BaseException:
            sock.close()
            raise
        self.socket, self.is_greeting = sock, True
        self.greeted_at = time.monotonic()
        self.to_broker += self.hello()
        self.is_untold = False

    def hear_welcome(self, answer: bytes) -> None:
        """Repeat the handshake and all unanswered lines, now that a broker answers."""
        words = answer.split()
        if words[:2] != [b"shim", b"%d" % VERSION]:
            self.hang_up()
            self.excuse(words_of(answer))
            self.retry_at = time.monotonic() + IDLE_RETRY_MS / 1_000
            return
        self.is_greeting = False
        self.clock_us = int(words[2]) - int(time.monotonic() * 1e6)
        self.stopped = False
        self.greetings += 1
        if self.starter is not None:
            self.starter.succeed()
        for number in self.handshake:
            self.send(number, b"~")
        for number in self.open:
            self.send(number)
        if self.alone is not None:
            self.alone.reconnected()
        self.write_broker()

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
        numbers = ",".join(str(number) for number in self.open)
        late = () if self.alone is None else self.alone.late
        unwritten = ",".join({str(number) for number in (*dict(self.to_client), *late) if number})
        alone = "true" if self.alone is not None and self.alone.is_open else "false"
        more = f'"open":[{numbers}],"unwritten":[{unwritten}],"alone":{alone}'
        shim = f'{{"version":{VERSION},{words},{more}}}'
        return f'{{"tellwire":1,"program":"mcp shim","shim":{shim}}}\n'.encode()

    def excuse(self, trouble: str) -> None:
        """Answer what is open: a client must not wait for ever."""
        alone = self.make_alone()
        for number, line in list(self.open.items()):
            del self.open[number]
            if number != self.probe:
                answer = alone.give_up(number, line, trouble, self.greetings)
                if answer:
                    self.to_client.append((0, answer))
        self.write_client()
        if self.socket is not None and not self.is_greeting:
            return
        self.lost_at = time.monotonic()
        self.stopped = True  # no more starts before somebody asks for something
        if self.starter is not None:
            self.starter.failures = 0


def words_of(refusal: bytes) -> str:
    """What the broker said when it did not let us in."""
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
