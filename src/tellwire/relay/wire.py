"""The far end of an ssh carrier: passes bytes between its stdin and stdout and the broker of this machine.

Started by `ssh HOST tellwire machine wire`. It understands nothing of what it passes. Before the first byte
of the broker's it writes a mark, since a shell may have printed a greeting. It starts the broker if none
runs, and ends when either side does.

    to the broker    {"tellwire":1,"program":"wire","wire":{"version":1}} and behind that line the bytes
"""

from __future__ import annotations

import os
import select
import sys
import time

VERSION = 1
MARK = b"\0tellwire-wire 1\n"
READ_BYTES = 1 << 16
START_S = 30.0
RETRY_S = 0.05

TYPE_CHECKING = False  # importing it from typing would cost more than all the rest
if TYPE_CHECKING:
    from _socket import socket


def connect(home: str | None) -> socket:
    """A connection to the broker of a home, which is started if it does not run.

    Raises:
        OSError: it cannot be had.
    """
    import _socket  # noqa: PLC0415 - for start-up speed

    from tellwire.paths import StrangerError, connect_to_own, home_path, is_named, socket_path  # noqa: PLC0415
    from tellwire.relay.starter import Starter  # noqa: PLC0415

    path = socket_path(home_path(os.environ, home), os.environ, named=is_named(os.environ, home))
    starter = Starter(os.environ, home)
    until = time.monotonic() + START_S
    while True:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connect_to_own(sock, path)
        except StrangerError:
            sock.close()
            raise
        except OSError as error:
            sock.close()
            if time.monotonic() > until:
                raise OSError(f"{starter.trouble or error}") from None
            starter.step()
            time.sleep(RETRY_S)
        else:
            starter.succeed()
            return sock


def pump(sock: socket, ahead: bytes) -> None:
    """Pass bytes in both directions until either side ends."""
    incoming, outgoing = bytearray(), bytearray(ahead)
    sock.setblocking(False)
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    line = sock.fileno()
    while True:
        poll = select.poll()
        poll.register(0, select.POLLIN if len(outgoing) < READ_BYTES else 0)
        poll.register(1, select.POLLOUT if incoming else 0)
        wanted = select.POLLIN if len(incoming) < READ_BYTES else 0
        poll.register(line, wanted | (select.POLLOUT if outgoing else 0))
        ready = dict(poll.poll())
        if ready.get(1, 0) & (select.POLLERR | select.POLLHUP):
            return
        try:
            if ready.get(0):
                data = os.read(0, READ_BYTES)
                if not data:
                    return
                outgoing += data
            if ready.get(line, 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
                data = os.read(line, READ_BYTES)
                if not data:
                    flush(incoming)
                    return
                incoming += data
            if ready.get(line, 0) & select.POLLOUT:
                del outgoing[: os.write(line, outgoing[:READ_BYTES])]
            if incoming and ready.get(1, 0) & select.POLLOUT:
                del incoming[: os.write(1, incoming[:READ_BYTES])]
        except BlockingIOError:
            continue


def flush(rest: bytearray) -> None:
    """Write the broker's last words, which say why it has closed the connection."""
    os.set_blocking(1, True)
    while rest:
        del rest[: os.write(1, rest[:READ_BYTES])]


def main(home: str | None = None) -> int:
    """Pass bytes; the exit code."""
    try:
        sock = connect(home)
    except OSError as error:
        os.write(2, f"tellwire: the broker cannot be reached: {error}\n".encode())
        return 69
    os.write(1, MARK)
    hello = f'{{"tellwire":1,"program":"wire","wire":{{"version":{VERSION}}}}}\n'.encode()
    try:
        pump(sock, hello)
    except OSError:
        return 74
    finally:
        sock.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
