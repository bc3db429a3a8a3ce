"""Runs a broker: in the foreground, or detached, returning once it listens.

It forks before anything is imported that could have a thread, and imports the broker only in the child.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from tellwire.cli.screen import ERR, UnwrittenError, write

READY = b"ready"
KILLED = 71
"""The exit code if the broker was killed before it listened."""
DESCRIPTORS_MAX = 65_536

Run = Callable[..., None]
"""As `tellwire.daemon.run`."""


def main() -> int:
    """The program that clients start: `python -I -m tellwire.cli.launch --detach`."""
    if sys.argv[1:] != ["--detach"]:
        sys.stderr.write("usage: python -m tellwire.cli.launch --detach\n")
        return 64
    code, words = detach()
    sys.stderr.write(words)
    return code


def detach(run: Run | None = None) -> tuple[int, str]:
    """Start a broker that belongs to nobody; 0 once it listens, else its exit code and its words.

    `run` runs it instead of the daemon's own.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os._exit(_child(writer, run))
    os.close(writer)
    said = b""
    while chunk := os.read(reader, 4096):
        said += chunk
        if said.startswith(READY):
            return 0, ""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and not said:
        return KILLED, "The broker was killed while starting.\n"
    words = said.decode(errors="replace") or "The broker ended without an error message.\n"
    return os.waitstatus_to_exitcode(status) or 70, words


def _child(writer: int, run: Run | None) -> int:
    os.setsid()
    os.closerange(3, writer)
    os.closerange(writer + 1, DESCRIPTORS_MAX)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    told = False

    def ready() -> None:
        nonlocal told
        os.write(writer, READY)
        os.close(writer)
        os.dup2(null, 2)
        told = True

    code, words = run_broker(ready, run)
    if words and not told:
        os.write(writer, words.encode())
    return code


def run_broker(ready: Callable[[], None], run: Run | None = None) -> tuple[int, str]:
    """Run a broker here until it stops; its exit code, and why if it could not start."""
    # Imported late: a detached start forks first.
    from tellwire.protocol.errors import ERRORS, TellwireError  # noqa: PLC0415

    try:
        from tellwire import daemon  # noqa: PLC0415
        from tellwire.settings import load_settings  # noqa: PLC0415

        (run or daemon.run)(load_settings(), ready=ready)
    except TellwireError as error:
        return ERRORS[error.code].exit, f"{error}\n"
    except Exception as error:
        with suppress(UnwrittenError):
            write(traceback.format_exc(), ERR)
        return ERRORS["internal"].exit, f"The broker failed: {error!r}.\n"
    return 0, ""


if __name__ == "__main__":
    sys.exit(main())
