"""What a shim says to its client by itself, while the broker says nothing; imported only then.

A client gives a server up whose first answers do not come within seconds, for the whole session. They are the
same for every session of a version, so each broker leaves them in its home (`mcp/bootstrap`).

A call that was sent and not answered may have been carried out. The error says so, and if its client makes
the same call again, that goes under the number of the first: the broker does not carry one number out twice.
"""

from __future__ import annotations

import json
import os
import time

from tellwire.relay.ids import find_ids, is_sayable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "first_answers.json"
FILE_BYTES_MAX = 4 << 20
LATE_S = 60.0
"""How long an answer that came too late is kept for the same call."""
NOT_DONE = "Nothing was done."
UNKNOWN = (
    "Nobody knows whether this call was carried out. It is safe to make the same call again: it is not "
    "carried out twice."
)


class LateCall:
    """A call whose client got the error that its outcome is unknown."""

    __slots__ = ("answer", "asked", "at", "call", "greeting", "heir", "line")

    def __init__(self, line: Any, call: str, asked: Any, greeting: int) -> None:
        self.line = line
        """As the shim has it."""
        self.call = call
        """Tool and arguments."""
        self.asked = asked
        """The client's id of it."""
        self.greeting = greeting
        """The connection on which it was sent last."""
        self.heir: Any = None
        """The client's id of the same call, made again."""
        self.answer = b""
        self.at = 0.0
        """Since when it waits for the client alone."""


class Alone:
    """The answers that one shim gives by itself."""

    def __init__(self, home: str, options: dict[str, str]) -> None:
        self._path = os.path.join(home, FILE)
        self._which = f"{options.get('dialect') or 'tellwire'} {options.get('tools') or 'core'}"
        self._answers: dict[str, Any] | None = None
        self.is_open = False
        """The handshake was answered here."""
        self.late: dict[int, LateCall] = {}
        """By number."""
        self.tried = 0
        """The last line that was looked at."""

    # -- the first answers

    def first(self, text: bytes) -> tuple[bytes, bool] | None:
        """The answer to a session's first lines, and whether it is of the handshake; None to others."""
        message = _parsed(text)
        method, asked = message.get("method"), message.get("id")
        if method == "notifications/initialized" and asked is None and self.is_open:
            return b"", True
        if asked is None or not self._known():
            return None
        answers = self._answers or {}
        if method == "initialize":
            version = _mapping(message.get("params")).get("protocolVersion")
            if version not in answers["versions"]:
                return None
            self.is_open = True
            return _answer(asked, {**answers["initialize"], "protocolVersion": version}), True
        if not self.is_open or method not in ("tools/list", "ping"):
            return None
        return _answer(asked, {"tools": answers["tools"]} if method == "tools/list" else {}), False

    def _known(self) -> bool:
        if self._answers is None:
            try:
                with open(self._path, "rb") as file:
                    found = json.loads(file.read(FILE_BYTES_MAX))
                self._answers = {"versions": found["versions"], **found[self._which]}
            except (OSError, ValueError, KeyError, TypeError):
                self._answers = {}
        return bool(self._answers)

    # -- calls that were given up

    def give_up(self, number: int, line: Any, trouble: str, greeting: int) -> bytes:
        """What the client hears of a line that was not answered; nothing if it waits for no answer."""
        message = _parsed(line.text)
        if line.too_long or not message:
            return _refusals(line.text, f"tellwire: {trouble} {NOT_DONE}")
        late = self.late.get(number)
        asked = message.get("id") if late is None else late.heir
        if asked is None or "method" not in message:
            return b""  # nobody waits for an answer
        was_sent = line.birth_us >= 0
        if late is not None:
            late.heir = None
        elif was_sent and message["method"] == "tools/call":
            self.late[number] = LateCall(line, _call_of(message), asked, greeting)
        words = f"tellwire: {trouble} {UNKNOWN if was_sent else NOT_DONE}"
        error = {"code": -32603, "message": words}
        return json.dumps({"jsonrpc": "2.0", "id": asked, "error": error}).encode() + b"\n"

    def repeated(self, text: bytes) -> tuple[int, LateCall] | None:
        """The call that a line makes again; its answer goes to this line from now on."""
        message = _parsed(text)
        if message.get("method") != "tools/call" or message.get("id") is None:
            return None
        call = _call_of(message)
        for number, late in self.late.items():
            if late.call == call and late.heir is None:
                late.heir = message["id"]
                return number, late
        return None

    def translate(self, number: int, text: bytes) -> bytes:
        """What to send the client of the broker's answer to a line; nothing if it has an answer already."""
        late = self.late.get(number)
        if late is None:
            return text
        if not text:  # it was cancelled
            del self.late[number]
            return text
        late.answer, late.at = text, time.monotonic()
        return b"" if late.heir is None else self.pass_on(number)

    def pass_on(self, number: int) -> bytes:
        """An answer for the call that was made again."""
        late = self.late.pop(number)
        message = json.loads(late.answer)
        message["id"] = late.heir
        return json.dumps(message).encode()

    def reconnected(self) -> None:
        """What was not answered on the last connection will not be, unless it is asked again."""
        for late in self.late.values():
            late.at = late.at or time.monotonic()

    def expired(self) -> bytes:
        """A cancellation, if an answer was kept for long enough: what the call fetched waits again."""
        now = time.monotonic()
        for number, late in self.late.items():
            if late.heir is None and late.at and now - late.at > LATE_S:
                del self.late[number]
                params = {"requestId": late.asked, "reason": "no answer in time"}
                line = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                return json.dumps(line).encode()
        return b""


def _refusals(text: bytes, words: str) -> bytes:
    """To a line that cannot be read as a call: a refusal by each id that it bears."""
    error = json.dumps({"code": -32603, "message": words}).encode()
    ids = filter(is_sayable, find_ids(text))
    return b"".join(b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (asked, error) for asked in ids)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    found: Any = value
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]  # no typing.cast here


def _call_of(message: dict[str, Any]) -> str:
    params = _mapping(message.get("params"))
    return json.dumps([params.get("name"), params.get("arguments")], sort_keys=True)


def _answer(asked: Any, result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked, "result": result}).encode() + b"\n"
