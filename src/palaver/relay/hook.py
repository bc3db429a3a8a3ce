"""A hook of an agent CLI: takes the client's payload to the broker and prints what the broker says.

Started as `python -I -S hook.py CLIENT [--home=DIR]`. It is never the reason that a turn waits or fails:
without a broker, without an answer in time, or with anything else wrong, it says nothing and exits 0.

    to the broker    {"palaver":1,"program":"hook","hook":{"version":1,"client":"codex","bytes":812}}
                     and behind it the payload
    from the broker  what to print, then the end
"""

from __future__ import annotations

import os
import sys

VERSION = 1
PAYLOAD_BYTES_MAX = 1 << 20
HEAD_BYTES = 1 << 16
"""Of a payload that is larger: enough for the broker to find out what it is."""
READ_BYTES = 1 << 16
ANSWER_S = 2.0


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
    try:
        from palaver.paths import home_path, is_named, socket_path  # noqa: PLC0415 - as above

        path = socket_path(home_path(os.environ, home), os.environ, named=is_named(os.environ, home))
        answer = ask(path, client, payload, cut=cut)
        if answer and not answer.startswith(b'{"n":0,"error"'):
            os.write(1, answer)
    except OSError:
        if b"SessionStart" in payload[:HEAD_BYTES]:
            start_broker(home)
    return 0


def start_broker(home: str | None) -> None:
    """Have a broker for the next hook; nobody waits for it."""
    from palaver.relay.starter import Starter  # noqa: PLC0415 - hardly ever needed

    Starter(os.environ, home).step()


if __name__ == "__main__":
    try:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        main()
    finally:
        os._exit(0)
