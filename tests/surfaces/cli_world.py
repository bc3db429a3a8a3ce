"""Running the command line in tests: as a script, at a terminal of its own, fast or through click."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.warm_cli import WARM_CLI
from tests.integration.world import ROOT, WITHIN_S, Home, tellwire_command

GOLDEN = Path(__file__).parent / "golden_cli"


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def environment(home: Home, **settings: object) -> dict[str, str]:
    """A home's environment without what the terminal of whoever runs the tests brings along."""
    env = home.environment(**settings)
    return {name: value for name, value in env.items() if name not in ("NO_COLOR", "COLUMNS")}


def run(home: Home, *words: str, stdin: str | bytes = b"", click: bool = False, **settings: Any) -> Done:
    """Run a command as a script: no terminal, no agent above. `click` leaves the fast commands out."""
    variables = environment(home, **settings)
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    if "up" not in words:
        ended = WARM_CLI.run([*words], variables, stdin=data, click=click, within_s=WITHIN_S)
        return Done(ended.code, ended.out.decode(), ended.err.decode())
    return _run(variables, tellwire_command(*words), data)


def run_program(home: Home, command: list[str], **variables: str) -> Done:
    """Run any program as a script."""
    return _run({**environment(home), **variables}, command, b"")


def _run(variables: dict[str, str], command: list[str], stdin: bytes) -> Done:
    done = subprocess.run(
        command,
        env=variables,
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        start_new_session=True,  # without the terminal of whoever runs the tests
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_at_terminal(
    home: Home, *words: str, columns: int = 80, types: bytes = b"", enough: bytes = b"", **variables: str
) -> Done:
    """Run a command at a terminal of its own, as `run_program_at_terminal` does."""
    command = tellwire_command(*words)
    return run_program_at_terminal(home, command, columns=columns, types=types, enough=enough, **variables)


def run_program_at_terminal(
    home: Home,
    command: list[str],
    *,
    columns: int = 80,
    types: bytes = b"",
    enough: bytes = b"",
    **variables: str,
) -> Done:
    """Run any program at a terminal of its own; all it shows is in `out`.

    `types` is typed at once; Ctrl-C is, as soon as the program has shown what is `enough`.
    """
    master, slave = pty.openpty()
    env = {**environment(home), "TERM": "xterm", "COLUMNS": str(columns), **variables}

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and hands that on

    child = subprocess.Popen(
        command,
        env=env,
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - it makes two system calls, and takes no lock
    )
    os.close(slave)
    os.write(master, types)
    shown, stopped = b"", not enough
    deadline = time.monotonic() + WITHIN_S
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([master], [], [], 0.1)
            if ready:
                try:
                    chunk = os.read(master, 65_536)
                except OSError:  # the other end is closed
                    break
                if not chunk:
                    break
                shown += chunk
                if not stopped and enough in shown:
                    os.write(master, b"\x03")
                    stopped = True
        code = child.wait(timeout=WITHIN_S)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    return Done(code, shown.decode().replace("\r\n", "\n"), "")


def check_golden(name: str, text: str) -> None:
    """Compare with the stored sample; `TELLWIRE_WRITE_GOLDEN=1` writes it anew."""
    path = GOLDEN / name
    if os.environ.get("TELLWIRE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name}:\n{text}"
