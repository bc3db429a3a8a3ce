"""Where the broker's HTTP hooks are: one port and one token for a home, chosen once and kept."""

from __future__ import annotations

import os
import secrets
import socket

import msgspec

from tellwire.clients.client import ENDPOINT
from tellwire.install.files import locked, read_bytes, write_whole
from tellwire.protocol.errors import TellwireError

TOKEN_BYTES = 32
PORTS = range(20_000, 32_000)
PORT_TRIES = 100


class HookEndpoint(msgspec.Struct, frozen=True):
    """A port of this machine, and the word that opens it."""

    port: int
    token: str


def load_endpoint(home: str) -> HookEndpoint:
    """The endpoint of a home; made at the first time.

    Raises:
        TellwireError: `bad_request`: the file makes no sense.
    """
    path = os.path.join(home, ENDPOINT)
    known = _read(path)
    if known is not None:
        return known
    with locked(home):
        known = _read(path)
        if known is None:
            known = HookEndpoint(_free_port(), secrets.token_hex(TOKEN_BYTES))
            write_whole(path, msgspec.json.encode(known) + b"\n", mode=0o600)
        return known


def peek_endpoint(home: str) -> HookEndpoint | None:
    """The endpoint of a home, if it was made already."""
    return _read(os.path.join(home, ENDPOINT))


def _read(path: str) -> HookEndpoint | None:
    data = read_bytes(path)
    if data is None:
        return None
    try:
        known = msgspec.json.decode(data, type=HookEndpoint)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise TellwireError(
            "bad_request", f"{path} is damaged: {error}.", "Delete it, then run `tellwire install all`."
        ) from error
    if not 0 < known.port < 65_536 or not known.token.isalnum() or not known.token.isascii():
        raise TellwireError(
            "bad_request",
            f"{path}: the port or the token is not valid.",
            "Delete it, then run `tellwire install all`.",
        )
    return known


def _free_port() -> int:
    """Below the ports that the kernel gives to passing connections, so that it stays free."""
    for _ in range(PORT_TRIES):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise TellwireError("limit_exceeded", "No free port was found.", "Try again.")
