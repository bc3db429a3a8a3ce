"""The MCP server that an agent CLI starts: a pipe of lines between it and the broker, which does the work.

It reads no JSON. Each line of the client gets a number and goes to the broker; the broker tells by it
when a line is dealt with, what to say to the client, and which lines make a handshake. So when the connection
breaks, this program knows what to do: connect again, starting a broker if need be, say the handshake again
without letting the client hear the answer, and send every line that is still open as it was. The broker knows
a line it had already by the number, and by the `instance`, a random word that is this program's life.

    to the broker    12 5f3a1c 10,11 {"jsonrpc":"2.0","id":7,...}    number, birth, answers written, line
                     ~1 5e0000 - {...}                               of the handshake, said again
                     !13 5f3a2d - {"jsonrpc":"2.0","id":8 ...        both ends of a line that is too long
    from the broker  12 . {"jsonrpc":"2.0","id":7,...}               say this; line 12 is done
                     1 + {...}                                       the same; and line 1 is of the handshake
                     13 . ·                                          nothing to say; line 13 is done
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

from tellwire.paths import home_path, is_named, socket_path

TYPE_CHECKING = False  # importing it from typing would cost as much as all of this
if TYPE_CHECKING:
    from tellwire.relay.starter import Starter

VERSION = 1
LINE_BYTES_MAX = 1 << 20
HEAD_BYTES = 1_024
"""Of a line that is too long: enough for the broker to find its id."""
READ_BYTES = 1 << 16
PIPE_BYTES = 4_096
"""A pipe that is ready takes so many without blocking."""
OPEN_MAX = 1_000
"""While so many lines are open, no more are read."""
BUFFER_BYTES_MAX = 4 << 20
"""While so much waits to be written on one side, the other side is not read."""
GREETING_S = 10.0
GIVE_UP_S = 20.0
"""Without a broker for so long, open lines are answered with an error."""
FAREWELL_S = 5.0
RETRY_MS = 20
IDLE_RETRY_MS = 500


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
        self.socket_path = socket_path(home_path(env, home), env, named=is_named(env, home))
        self.starter: Starter | None = None
        """Made when there is no broker; most sessions never need it."""
        self.options = options
        self.instance = os.urandom(12).hex()
        self.socket: _socket.socket | None = None
        self.number = 0
        self.open: dict[int, Line] = {}
        """Lines that are not dealt with, by number."""
        self.handshake: dict[int, Line] = {}
        self.written: list[int] = []
        """Numbers whose answers were written since the last line to the broker."""
        self.heard = b""
        self.head = b""
        """The beginning of a line that is too long, while the rest of it is passed over."""
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
        self.write_client()

    def is_over(self) -> bool:
        """Whether the client has closed its end and all is said."""
        if not self.ended:
            return False
        if self.socket is None and not self.open:
            return True
        now = time.monotonic()
        if self.farewell_at is None and not self.to_broker and self.socket is not None:
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
            if self.heard or self.head:
                self.end_line(self.heard)
            return
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            self.end_line(line)
        if len(self.heard) > LINE_BYTES_MAX or self.head:
            self.head = self.head or self.heard[:HEAD_BYTES]
            self.heard = self.heard[-HEAD_BYTES:]

    def end_line(self, line: bytes) -> None:
        """A line is whole; of one that is too long, both ends go: one of them has its id."""
        head, self.head = self.head, b""
        if head or len(line) > LINE_BYTES_MAX:
            self.take_line((head or line[:HEAD_BYTES]) + b" " + line[-HEAD_BYTES:], too_long=True)
        elif line.strip():
            self.take_line(line)

    def take_line(self, text: bytes, *, too_long: bool = False) -> None:
        """Number a line and pass it on."""
        if self.socket is None and not self.open:
            self.lost_at = time.monotonic()
        self.number += 1
        self.open[self.number] = Line(text, too_long=too_long)
        if self.socket is not None:
            self.send(self.number)
            self.write_broker_or_lose()

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
        *lines, self.said = (self.said + data).split(b"\n")
        for line in lines:
            head, flag, text = line.split(b" ", 2)
            number = int(head)
            done = self.open.pop(number, None)
            if flag == b"+" and done is not None:
                self.handshake[number] = done
            elif flag == b"!":
                self.stopped = True
            if text:
                self.to_client.append((number, text + b"\n"))
        self.write_client()

    def lose(self) -> None:
        """The connection is broken; nothing else is lost."""
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.said = b""
        self.to_broker.clear()
        self.lost_at = time.monotonic()
        self.retry_at = 0.0

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
        """Connect, say who we are, say the handshake again and all that is open."""
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.settimeout(GREETING_S)
            sock.connect(self.socket_path)
            sock.sendall(self.hello())
            answer = b""
            while not answer.endswith(b"\n"):
                part = sock.recv(READ_BYTES)  # it says nothing more before we do
                if not part:
                    raise OSError("the broker hung up")
                answer += part
            words = answer.split()
            if words[:2] != [b"shim", b"%d" % VERSION]:
                self.excuse(words_of(answer))
                raise OSError("not welcome")
        except BaseException:
            sock.close()
            raise
        sock.setblocking(False)
        self.clock_us = int(words[2]) - int(time.monotonic() * 1e6)
        self.socket, self.stopped = sock, False
        if self.starter is not None:
            self.starter.succeed()
        for number in self.handshake:
            self.send(number, b"~")
        for number in self.open:
            self.send(number)
        self.write_broker_or_lose()

    def hello(self) -> bytes:
        """Who we are, without a JSON encoder."""
        from _json import encode_basestring_ascii as quote  # noqa: PLC0415 - json itself costs too much

        facts = {name: self.options.get(name, "") for name in ("name", "dialect", "tools")}
        facts["instance"] = self.instance
        try:
            facts["cwd"] = os.getcwd()
        except OSError:
            facts["cwd"] = ""
        words = ",".join(f"{quote(name)}:{quote(value)}" for name, value in facts.items() if value)
        numbers = ",".join(str(number) for number in self.open)
        unwritten = ",".join(str(number) for number, _ in self.to_client if number)
        shim = f'{{"version":{VERSION},{words},"open":[{numbers}],"unwritten":[{unwritten}]}}'
        return f'{{"tellwire":1,"program":"mcp shim","shim":{shim}}}\n'.encode()

    def excuse(self, trouble: str) -> None:
        """Answer what is open: a client must not wait for ever."""
        import json  # noqa: PLC0415 - hardly ever needed

        for number, line in list(self.open.items()):
            del self.open[number]
            try:
                message = json.loads(line.text)
                asked = message["id"] if "method" in message else None
            except (ValueError, TypeError, KeyError):
                asked = None
            if asked is not None:
                words = f"tellwire: {trouble} Run `tellwire up` in a terminal to see more."
                error = {"code": -32603, "message": words}
                answer = json.dumps({"jsonrpc": "2.0", "id": asked, "error": error})
                self.to_client.append((0, answer.encode() + b"\n"))
        self.write_client()
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


def main() -> int:
    """Options come as `--name=VALUE` or `--name VALUE`; whoever starts us has checked them."""
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
