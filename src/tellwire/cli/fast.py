"""The everyday commands in the time a process takes to start: no click, msgspec, asyncio or json.

It knows the usual forms of five commands and a broker that runs. For anything else it says None before it
has changed anything, and the click commands do the whole work; they print the same words.
"""

from __future__ import annotations

import _socket  # what `socket` is made of; `socket` itself costs as much as the whole conversation
import os
import time

from tellwire.cli.render import (
    needs_somebody,
    render_agents,
    render_glance,
    render_inbox,
    render_json,
    render_sent,
    render_state,
    render_tmux,
)
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.shapes import COUNTS, STATE, whole_agents, whole_inbox, whole_sent
from tellwire.cli.words import (
    KINDS,
    MODES,
    SESSION,
    is_sendable,
    note_of_new,
    note_of_peek,
    note_unread,
    read_body,
    registration,
    split_names,
    tell_unread,
)
from tellwire.paths import connect_to_own, home_path, is_named, socket_path
from tellwire.system.quick_json import dumps, loads

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from tellwire.cli.shapes import Facts

ANSWER_S = 30.0
READ_BYTES = 1 << 20
FLAGS = {
    "send": ("--json", "--confirm"),
    "inbox": ("--json", "--peek"),
    "list": ("--json", "--all"),
    "glance": ("--json", "--tmux"),
    "status": ("--json",),
}
OPTIONS = {
    "send": ("--as", "--re", "--mode", "--kind", "--ttl"),
    "inbox": ("--as",),
    "list": ("--capability",),
    "glance": (),
    "status": (),
}
VALUES = {"--mode": MODES, "--kind": KINDS}


class RefusedError(Exception):
    """The broker's refusal of a call."""

    def __init__(self, fault: Facts) -> None:
        super().__init__(fault)
        self.fault = fault


class LostError(Exception):
    """The connection ended, or what answers is no broker: the whole client can deal with it."""


class UnusualError(Exception):
    """Not one of the usual forms."""


class Line:
    """One connection to the broker, and the offers that came on it."""

    def __init__(self) -> None:
        home = home_path(os.environ)
        path = socket_path(home, os.environ, named=is_named(os.environ))
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_S)
        connect_to_own(self._socket, path)
        self._rest = b""
        self._number = 0
        self._hello = b'{"tellwire":1,"program":"cli"}\n'
        self.awake = 0.0
        self.offers: list[Facts] = []

    def calls(self, *operations: Facts) -> list[Facts | RefusedError]:
        """Ask in one write; the answers in order, refusals among them."""
        first = self._number + 1
        data = [self._hello]
        for operation in operations:
            self._number += 1
            data.append(dumps({"n": self._number, "do": operation}).encode() + b"\n")
        try:
            self._socket.sendall(b"".join(data))
            if self._hello:
                self._hello = b""
                welcome = self._frame()
                if welcome.get("tellwire") != 1:
                    raise LostError
                self.awake = welcome["awake"]
            return [self._answer(number) for number in range(first, self._number + 1)]
        except (OSError, ValueError) as error:
            raise LostError from error

    def call(self, operation: Facts) -> Facts:
        """Ask for one operation.

        Raises:
            RefusedError: with what the broker said.
        """
        (answer,) = self.calls(operation)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    def offer(self) -> Facts:
        """The next offer, which must have been promised."""
        try:
            while not self.offers:
                self._frame()
        except (OSError, ValueError) as error:
            raise LostError from error
        return self.offers.pop(0)

    def _answer(self, number: int) -> Facts | RefusedError:
        while True:
            frame = self._frame()
            if frame.get("n") == number:
                note_unread(frame.get("unread", 0))
                return frame["ok"] if "ok" in frame else RefusedError(frame["error"])

    def _frame(self) -> Facts:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            chunk = self._socket.recv(READ_BYTES)
            if not chunk:
                raise LostError
            parts.append(chunk)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        frame = loads(line)
        if "offer" in frame:
            self.offers.append(frame["offer"])
        elif frame.get("n") == 0:
            raise LostError  # a farewell
        return frame


def run(argv: list[str]) -> int | None:
    """Carry a command out; its exit code, or None: the click commands have to, with what `argv` then says."""
    command = argv[0]
    try:
        values, names = parse_words(command, argv[1:])
        if command == "send":
            _complete_body(argv, values, names)
        line = Line()
    except (UnusualError, OSError):
        return None
    try:
        code = COMMANDS[command](line, argv, values, names)
    except (UnusualError, LostError):
        return None
    except RefusedError as refused:
        # Imported here for start-up speed: most commands are not refused.
        from tellwire.cli.refusals import tell_refusal  # noqa: PLC0415

        fault = refused.fault
        as_json = "--json" in values
        code = tell_refusal(fault["code"], fault["message"], fault.get("advice", ""), as_json=as_json)
    tell_unread(argv)
    return code


def parse_words(command: str, words: list[str]) -> tuple[Facts, list[str]]:
    """The options by name, and what is not an option.

    Raises:
        UnusualError: an option that only the click commands know, or a value that they have to explain.
    """
    values: Facts = {}
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if word == "-" or not word.startswith("-"):
            names.append(word)
        elif word in FLAGS[command]:
            values[word] = True
        elif option in OPTIONS[command]:
            values[option] = value = value if equals else next(rest, "")
            if not value or value not in VALUES.get(option, (value,)):
                raise UnusualError
        else:
            raise UnusualError
    if (len(names) not in (1, 2)) if command == "send" else names:
        raise UnusualError
    return values, names


def _complete_body(argv: list[str], values: Facts, names: list[str]) -> None:
    """Have the body, out of stdin if it is to come from there; `argv` then has it too, as it is read once."""
    if len(names) == 1 or names[1] == "-":
        if os.isatty(0):
            raise UnusualError
        body = read_body()
        if not body:
            raise UnusualError
        options = [word if value is True else f"{word}={value}" for word, value in values.items()]
        argv[1:] = [*options, "--", names[0], body]
        names[1:] = [body]
    if not is_sendable(names[1]):
        raise UnusualError


# -- the commands -------------------------------------------------------------------------------------


def run_list(line: Line, _argv: list[str], values: Facts, _names: list[str]) -> int:
    """`tellwire list`."""
    operation: Facts = {"op": "list_agents", "all": "--all" in values}
    if "--capability" in values:
        operation["capability"] = values["--capability"]
    reply = line.call(operation)
    if "--json" in values:
        write(render_json(whole_agents(reply)))
    else:
        write(render_agents(reply, now=time.time(), screen=find_screen()))
    return 0


def run_status(line: Line, _argv: list[str], values: Facts, _names: list[str]) -> int:
    """`tellwire status`."""
    state = line.call({"op": "broker_status"})
    if "--json" in values:
        write(render_json({**STATE, **state}))
    else:
        write(render_state({**STATE, **state}, find_screen()))
    return 0


def run_glance(line: Line, _argv: list[str], values: Facts, _names: list[str]) -> int:
    """`tellwire glance`."""
    if len(values) > 1:
        raise UnusualError
    counts = line.call({"op": "glance"})
    if "--json" in values:
        write(render_json({**COUNTS, **counts}))
    else:
        write((render_tmux if "--tmux" in values else render_glance)(counts))
    return int(needs_somebody(counts))


def run_send(line: Line, argv: list[str], values: Facts, names: list[str]) -> int:
    """`tellwire send TO BODY`."""
    to, body = names
    operation: Facts = {"op": "send_message", "to": split_names(to), "body": body}
    for option in ("--re", "--mode", "--kind"):
        if option in values:
            operation[option[2:]] = values[option]
    if "--confirm" in values:
        operation["confirm"] = True
    if "--ttl" in values:
        try:
            operation["ttl_s"] = float(values["--ttl"])
        except ValueError:
            raise UnusualError from None
    registered = line.call(_register(values))
    key = operation["key"] = f"{int(line.awake * 1_000_000):x}-{SESSION[:8]}1"
    # Should the broker go away now, a repeat with the same key is harmless.
    argv[1:1] = ["--key", key]
    # Beneath an agent it would be the agent itself that leaves.
    leave: list[Facts] = [] if registered.get("attached") else [{"op": "unregister_agent"}]
    sent, *_ = line.calls(operation, *leave)
    if isinstance(sent, RefusedError):
        raise sent
    if not sent.get("id"):
        from tellwire.cli.refusals import tell_unsent  # noqa: PLC0415 - for start-up speed, as above

        return tell_unsent(sent, as_json="--json" in values)
    if "--json" in values:
        write(render_json(whole_sent(sent)))
    else:
        write(render_sent(sent, to, screen=find_screen()))
    return 0


def run_inbox(line: Line, _argv: list[str], values: Facts, _names: list[str]) -> int:
    """`tellwire inbox`."""
    name = values.get("--as", "")
    if "--peek" in values:
        return _show(line.call(_peek(name)), values)
    registered = _look_or_join(line, _register(values))
    if isinstance(registered, RefusedError):
        if not name or registered.fault["code"] != "forbidden":
            raise registered
        (inbox,) = line.calls(_peek(name))
        if isinstance(inbox, RefusedError):
            raise registered
        write(note_of_peek(name), ERR)
        return _show(inbox, values)
    if registered.get("looking"):
        return _show({}, values)
    if registered.get("attached"):
        write(note_of_peek(registered["name"]), ERR)
        return _show(line.call(_peek("")), values)
    if not registered.get("resumed") and name:
        write(note_of_new(name), ERR)
    return _take(line, values, waiting=registered.get("waiting", 0))


def _look_or_join(line: Line, join: Facts) -> Facts | RefusedError:
    """Join if there is mail to take; to look leaves no trace."""
    (found,) = line.calls({**join, "looks": True})
    if isinstance(found, RefusedError):
        if found.fault["code"] == "unknown_agent" and join["name"]:
            raise UnusualError  # the click command says more
        if found.fault["code"] not in ("unknown_agent", "bad_request"):  # an older broker knows no looks
            return found
    elif not (found.get("looking") and found.get("waiting")):
        return found
    (joined,) = line.calls(join)
    return joined


def _take(line: Line, values: Facts, *, waiting: int) -> int:
    """Take over what was offered, write it out, and only then confirm it."""
    offer = line.offer() if waiting else {}
    messages: list[Facts] = offer.get("messages", [])
    if messages:
        granted = line.call({"op": "claim_messages", "ids": [message["id"] for message in messages]})
        messages = [message for message in messages if message["id"] in granted.get("ids", [])]
    code = _show({"messages": messages, "waiting": offer.get("waiting", 0)}, values)
    confirm = {"op": "confirm_messages", "ids": [message["id"] for message in messages]}
    try:
        answers = line.calls(*([confirm] if messages else []), {"op": "unregister_agent"})
    except LostError:
        return 75  # they were shown, but not confirmed: they will come again, marked as a repeat
    refusal = next((answer for answer in answers if isinstance(answer, RefusedError)), None)
    if refusal is not None:
        raise refusal
    return code


def _show(inbox: Facts, values: Facts) -> int:
    if "--json" in values:
        write(render_json(whole_inbox(inbox)))
    else:
        write(render_inbox(inbox, now=time.time(), screen=find_screen()))
    return 0


def _register(values: Facts) -> Facts:
    return {"op": "register_agent", **registration(values.get("--as", ""))}


def _peek(name: str) -> Facts:
    return {"op": "peek_messages", "name": name} if name else {"op": "peek_messages"}


COMMANDS = {
    "list": run_list,
    "glance": run_glance,
    "send": run_send,
    "inbox": run_inbox,
    "status": run_status,
}
