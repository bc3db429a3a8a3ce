"""Takes the payload of an agent CLI's hook to the broker, and prints what the broker says.

It is never the reason that a turn waits or fails: without a broker, without an answer in time, or with
anything else wrong, it says nothing and exits 0. But a write of an agent that was given a scope it then
judges itself, by a file (`guard`).

    to the broker    {"palaver":1,"program":"hook","hook":{"version":1,"client":"codex","bytes":812}}
                     and behind it the payload
    from the broker  what to print, then the end; `{}` for a write that may go on
"""

import os
import sys

VERSION = 1
PAYLOAD_BYTES_MAX = 1 << 20
HEAD_BYTES = 1 << 16
"""Of a payload that is larger: enough for the broker to find out what it is."""
READ_BYTES = 1 << 16
ANSWER_S = 2.0
NOTHING = b"{}"
BEFORE_TOOLS = (b"PreToolUse", b"BeforeTool")


def read_payload() -> tuple[bytes, bool]:
    """What the client says, all of it taken off its pipe; of too much only the beginning."""
    parts: list[bytes] = []
    size = 0
    while data := os.read(0, READ_BYTES):
        size += len(data)
        if size <= PAYLOAD_BYTES_MAX:
            parts.append(data)
    payload = b"".join(parts)
    return (payload, False) if size <= PAYLOAD_BYTES_MAX else (payload[:HEAD_BYTES], True)


def ask(path: str, client: str, payload: bytes, *, cut: bool) -> bytes:
    """The broker's answer.

    Raises:
        OSError: there is none.
    """
    import _socket  # noqa: PLC0415 - after the payload is off the client's hands

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(ANSWER_S)
        sock.connect(path)
        facts = f'{{"version":{VERSION},"client":"{client}","bytes":{len(payload)},"cut":{str(cut).lower()}}}'
        hello = f'{{"palaver":1,"program":"hook","hook":{facts}}}\n'
        sock.sendall(hello.encode() + payload)
        parts: list[bytes] = []
        while data := sock.recv(READ_BYTES):
            parts.append(data)
        return b"".join(parts)
    finally:
        sock.close()


def main() -> int:
    """Never fails."""
    client = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].replace("-", "").isalnum() else "unknown"
    home = next((word[7:] for word in sys.argv[2:] if word.startswith("--home=")), None)
    payload, cut = read_payload()
    from palaver.paths import home_path, is_named, socket_path  # noqa: PLC0415 - as above

    folder = home_path(os.environ, home)
    try:
        path = socket_path(folder, os.environ, named=is_named(os.environ, home))
        answer = ask(path, client, payload, cut=cut)
        if not answer or answer.startswith(b'{"n":0,"error"'):
            answer = judge(client, payload, folder, cut=cut)
        if answer and answer != NOTHING:
            os.write(1, answer)
    except OSError:
        if b"SessionStart" in payload[:HEAD_BYTES]:
            start_broker(home)
        elif answer := judge(client, payload, folder, cut=cut):
            os.write(1, answer)
    return 0


def judge(client: str, payload: bytes, folder: str, *, cut: bool) -> bytes:
    """What to print where the broker has not answered: nothing, unless a write has to be refused."""
    if not any(event in payload[:HEAD_BYTES] for event in BEFORE_TOOLS):
        return b""
    guards = os.path.join(folder, "guards")
    if not os.path.exists(os.path.join(guards, f"{os.getppid()}.json")):
        return b""
    from palaver.relay.guard import denial  # noqa: PLC0415 - hardly ever needed

    return denial(client, payload, guards, cut=cut)


def start_broker(home: str | None) -> None:
    """Have a broker for the next hook; nobody waits for it."""
    from palaver.relay.starter import Starter  # noqa: PLC0415 - hardly ever needed

    Starter(os.environ, home).step()
