"""Takes the payload of an agent CLI's hook to the broker, and prints what the broker says.

It is never the reason that a turn waits or fails: without a broker, without an answer in time, or with
anything else wrong, it says nothing and exits 0. But a write of an agent that was given a scope it then
judges itself, by a file (`guard`); and the start of a session it notes for the broker that it starts
(`starts`). After one wait in vain no hook of that turn waits again; the broker hears them when it goes on.

    to the broker    {"tellwire":1,"program":"hook","hook":{"version":1,"client":"codex","bytes":812,…}}
                     and behind it the payload; nobody listens after `until`, on the machine's monotonic clock
    from the broker  what to print, then the end; `{}` for a write that may go on
"""

import os
import sys
import time

VERSION = 1
PAYLOAD_BYTES_MAX = 1 << 20
WHOLE_BYTES_MAX = 1 << 26
"""What the broker does not take whole is made short; of what is even larger only the beginning counts."""
HEAD_BYTES = 1 << 16
"""Of a payload that cannot be made short: enough for the broker to find out what it is."""
READ_BYTES = 1 << 16
ANSWER_S = 1.7
"""From when this program runs to the end of its patience: a hook costs two seconds at the most."""
RETRY_S = 0.02
NOTHING = b"{}"
REFUSED = 2
"""The exit code of a hook that keeps a tool from running, if it cannot say so in its client's words."""
REFUSAL = b'{"n":0,"error"'
START = b'"hook_event_name":"SessionStart"'
BEGINNINGS = (START, b'"hook_event_name":"UserPromptSubmit"', b'"hook_event_name":"BeforeAgent"')
STALLED = "stalled"
"""The folder of marks for clients whose hook has waited for the broker in vain in the current turn."""


def read_payload() -> tuple[bytes, bool]:
    """What the client says, all of it taken off its pipe, and whether it is only the beginning.

    Too much is made short: what is asked before a file is written must be judged, however long the text.
    """
    parts: list[bytes] = []
    size = 0
    while data := os.read(0, READ_BYTES):
        size += len(data)
        if size <= WHOLE_BYTES_MAX:
            parts.append(data)
    return fit(b"".join(parts), size)


def fit(payload: bytes, size: int) -> tuple[bytes, bool]:
    """The header for a payload of that size, and whether it is only the beginning."""
    if size <= PAYLOAD_BYTES_MAX:
        return payload, False
    from tellwire.relay.payloads import shorten  # noqa: PLC0415 - hardly ever needed

    short = shorten(payload, PAYLOAD_BYTES_MAX) if size <= WHOLE_BYTES_MAX else b""
    return (short, False) if short else (payload[:HEAD_BYTES], True)


def ask(path: str, hello: bytes, *, deadline: float, listen: bool = True) -> bytes:
    """The broker's answer; none if we do not listen for it.

    Raises:
        TimeoutError: it does not answer in time.
        OSError: there is none, or what is in its place is not ours.
    """
    import _socket  # noqa: PLC0415 - after the payload is off the client's hands

    from tellwire.paths import connect_to_own  # noqa: PLC0415 - as above

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(left(deadline))
        connect_to_own(sock, path)
        sock.sendall(hello)
        parts: list[bytes] = []
        while listen and (data := sock.recv(READ_BYTES)):
            parts.append(data)
            sock.settimeout(left(deadline))
        return b"".join(parts)
    finally:
        sock.close()


def greeting(client: str, payload: bytes, *, cut: bool, until: float) -> bytes:
    """The greeting. We listen up to `until` on the monotonic clock; with 0, not at all."""
    words = f'"version":{VERSION},"client":"{client}","bytes":{len(payload)},"cut":{str(cut).lower()}'
    words += f',"until":{until:.3f}' if until else ',"listens":false'
    return f'{{"tellwire":1,"program":"hook","hook":{{{words}}}}}\n'.encode() + payload


def left(deadline: float) -> float:
    """The seconds left until a deadline."""
    return max(deadline - time.monotonic(), 0.001)


def main() -> int:
    """Never fails."""
    deadline = time.monotonic() + ANSWER_S
    client = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].replace("-", "").isalnum() else "unknown"
    home = next((word[7:] for word in sys.argv[2:] if word.startswith("--home=")), None)
    payload, cut = read_payload()
    from tellwire.paths import StrangerError, home_path, is_named, socket_path  # noqa: PLC0415 - as above

    folder = home_path(os.environ, home)
    path = socket_path(folder, os.environ, named=is_named(os.environ, home))
    stalled = os.path.join(folder, STALLED, str(os.getppid()))
    begins = does_begin(payload)
    try:
        if os.path.exists(stalled) and not begins:
            ask(path, greeting(client, payload, cut=cut, until=0.0), deadline=deadline, listen=False)
            answer = b""
        else:
            answer = ask(path, greeting(client, payload, cut=cut, until=deadline), deadline=deadline)
            if begins:
                unlink(stalled)
    except OSError as error:
        answer = b""
        if isinstance(error, TimeoutError):
            mark(stalled)
        if begins and is_start(payload) and not isinstance(error, StrangerError):
            start(path, client, payload, folder, home, cut=cut, deadline=deadline)
    plain = False
    if not answer or answer.startswith(REFUSAL):
        answer, plain = judge(client, payload, folder, cut=cut)
    if plain:
        os.write(2, answer)
        os._exit(REFUSED)  # the only refusal that every client understands
    if answer and answer != NOTHING:
        os.write(1, answer)
    return 0


def mark(path: str) -> None:
    """Leave a mark, so that later hooks of the turn do not wait for the broker."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass  # then each hook waits for itself


def unlink(path: str) -> None:
    """Remove a file that may have gone already."""
    try:  # noqa: SIM105 - contextlib is not loaded
        os.unlink(path)
    except OSError:
        pass


def judge(client: str, payload: bytes, folder: str, *, cut: bool) -> tuple[bytes, bool]:
    """What to say where the broker has not answered: nothing, unless a write has to be refused.

    True: by the exit code, and for people.
    """
    guards = os.path.join(folder, "guards")
    if not os.path.exists(os.path.join(guards, f"{os.getppid()}.json")):
        return b"", False
    from tellwire.relay.guard import denial  # noqa: PLC0415 - hardly ever needed

    return denial(client, payload, guards, cut=cut)


def does_begin(payload: bytes) -> bool:
    """Whether a turn or a session begins."""
    facts = payload[:HEAD_BYTES].replace(b" ", b"")
    return any(event in facts for event in BEGINNINGS)


def is_start(payload: bytes) -> bool:
    """Whether a session starts; one that is compacted went on all the time."""
    facts = payload[:HEAD_BYTES].replace(b" ", b"")
    return START in facts and b'"source":"compact"' not in facts


def start(
    path: str, client: str, payload: bytes, home: str, named: str | None, *, cut: bool, deadline: float
) -> None:
    """A session starts and no broker answers: note it for the next one, start that, and wait a moment for it.

    The note comes first: a broker that comes up meanwhile reads it, or we reach that broker. So late we take
    no mail along: what waits then wakes the session, or comes with its first prompt.
    """
    from tellwire.relay.starter import Starter  # noqa: PLC0415 - hardly ever needed
    from tellwire.relay.starts import leave  # noqa: PLC0415

    note = leave(home, client, payload, cut=cut)
    starter = Starter(os.environ, named)
    while left(deadline) > RETRY_S:
        try:
            said = ask(path, greeting(client, payload, cut=cut, until=0.0), deadline=deadline)
        except TimeoutError:
            return
        except OSError:
            starter.step()
            time.sleep(RETRY_S)
            continue
        if not said.startswith(REFUSAL):
            unlink(note)  # the broker may have read it already
        return
