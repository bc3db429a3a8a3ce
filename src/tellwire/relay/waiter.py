"""Runs while an agent CLI is idle, until the broker has mail for it: then prints it on stderr and exits 2.

Started by the client in the background (`asyncRewake`) as `python -I -S waiter.py CLIENT [--home=DIR]`. One
is enough for a client process: the broker sends others home, and in headless runs all of them. It outlives
the broker, and ends when its client is gone. To each broker it tells whose it is, by its payload.

    to the broker    {"tellwire":1,"program":"waiter","waiter":{"version":1,"client":"claude-code",
                     "bytes":812,"cut":false}} and behind that line the payload
    from the broker  0            go home
                     2 TEXT…      to the end: what the model is to hear
"""

from __future__ import annotations

import os
import select
import sys

VERSION = 1
READ_BYTES = 1 << 16
LOOK_MS = 5_000
RETRY_MS = 1_000


def read_payload() -> tuple[bytes, bool]:
    """What the client says, all of it taken off its pipe; the beginning is kept, which has the session."""
    payload, size = b"", 0
    while data := os.read(0, READ_BYTES):
        size += len(data)
        payload += data[: READ_BYTES - len(payload)]
    return payload, size > len(payload)


def wait(path: str, hello: bytes, parent: int) -> tuple[int, bytes]:
    """How to end, and with which words; -1 if the connection broke.

    Raises:
        OSError: there is no broker, or what is in its place is not ours.
    """
    import _socket  # noqa: PLC0415 - for start-up speed

    from tellwire.paths import connect_to_own  # noqa: PLC0415 - as above

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connect_to_own(sock, path)
        sock.sendall(hello)
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        poll.register(2, 0)  # tells when nobody reads any more: the client is gone
        said = b""
        while os.getppid() == parent:
            ready = dict(poll.poll(LOOK_MS))
            if 2 in ready:
                break
            if not ready:
                continue
            data = sock.recv(READ_BYTES)
            if not data:
                return (int(said[:1]), said[2:]) if said[:1] in (b"0", b"2") else (-1, b"")
            said += data
        return 0, b""
    finally:
        sock.close()


def main() -> int:
    """Wait as long as the client lives."""
    client = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].replace("-", "").isalnum() else "unknown"
    home = next((word[7:] for word in sys.argv[2:] if word.startswith("--home=")), None)
    parent = os.getppid()
    payload, cut = read_payload()
    facts = f'{{"version":{VERSION},"client":"{client}","bytes":{len(payload)},"cut":{str(cut).lower()}}}'
    hello = f'{{"tellwire":1,"program":"waiter","waiter":{facts}}}\n'.encode() + payload
    from tellwire.paths import home_path, is_named, socket_path  # noqa: PLC0415 - for start-up speed

    path = socket_path(home_path(os.environ, home), os.environ, named=is_named(os.environ, home))
    while os.getppid() == parent:
        try:
            code, text = wait(path, hello, parent)
        except OSError:
            code, text = -1, b""
        if code >= 0:
            os.write(2, text)
            return code
        reader = select.poll()
        reader.register(2, 0)
        if reader.poll(RETRY_MS):
            return 0
    return 0


if __name__ == "__main__":
    code = 0
    try:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        code = main()
    finally:
        os._exit(code)
