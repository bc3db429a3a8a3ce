"""The broker as its lock tells: which process runs, also if its socket does not answer."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tellwire.cli.speaking import ask
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus
from tellwire.settings import Settings
from tellwire.system.processes import lock_holders

BACK_S = 4.0
"""A broker whose socket was removed binds it again with its next beat."""
POLL_S = 0.02
SILENT = ("unreachable", "timeout")
"""Codes that tell nothing about whether a broker runs."""
ADVICE = "If this persists, run `tellwire up --replace`. Its log may say why."


def find_holder(lock: Path) -> int:
    """The process that holds the lock; 0 if none does.

    It is looked up, not tried for: a broker that is just starting must not be disturbed. The file and the
    table of locks have to agree on the process: it may be ended on the strength of this.
    """
    try:
        with open(lock, encoding="ascii") as file:
            pid = int(file.read(32))
            holders = lock_holders(os.fstat(file.fileno()).st_ino)
            if holders is None:
                return pid if _is_held(file.fileno()) else 0
    except (OSError, ValueError):
        return 0
    return pid if pid in holders else 0


def _is_held(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def reach_broker(settings: Settings) -> BrokerState:
    """How the broker is; if one runs that does not answer, it gets the time to come back.

    Raises:
        TellwireError: `unreachable`: none runs, or the one that runs does not answer.
    """
    deadline = time.monotonic() + BACK_S
    while True:
        try:
            return ask(BrokerStatus(), settings=settings, autostart=False)
        except TellwireError as error:
            if error.code not in SILENT:
                raise
            pid = find_holder(settings.lock)
            if not pid:
                raise
            if error.code == "timeout" or time.monotonic() > deadline:
                words = f"A broker is running (pid {pid}) but does not answer on {settings.socket}."
                raise TellwireError("unreachable", words, ADVICE) from error
        time.sleep(POLL_S)
