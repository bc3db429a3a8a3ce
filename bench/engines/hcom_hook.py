"""hcom's hook for Claude Code: `hcom post`, in the environment that hcom gives to a client it has started.

Without that environment its hooks answer nothing. So hcom starts a client, which is a shell that writes its
environment down and sleeps; hcom's own companion process stands beside it as beside a real one.
"""

import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.engine import Missing, RoundFailed
from bench.engines import hcom
from bench.process import START_TIMEOUT_S, kill, wait_until_ended

SENDER = "nova"
NOWHERE = "http://127.0.0.1:9"
"""As a proxy: hcom looks for updates of itself, and is not to."""
CLIENT = """\
#!/bin/sh
[ "$1" != --version ] || { echo '2.1.325 (Claude Code)'; exit 0; }
env >"$HOME/environment"
echo "$PPID $$" >"$HOME/processes.new" && mv "$HOME/processes.new" "$HOME/processes"
exec sleep 3600
"""


class HcomHook:
    """A started client's hooks, and somebody who writes to it."""

    def __init__(self, command: str, environment: Mapping[str, str], project: Path) -> None:
        self._command = command
        self.environment = environment
        self.project = project

    @property
    def post(self) -> Sequence[str]:
        """The hook after a tool call."""
        return [self._command, "post"]

    @property
    def session_start(self) -> Sequence[str]:
        """The hook at the start, which makes the client known."""
        return [self._command, "sessionstart"]

    def send(self, body: str) -> None:
        """Write to the client."""
        to = f"@{self.environment['HCOM_INSTANCE_NAME']}"
        kept = {key: self.environment[key] for key in ("PATH", "HOME", "HCOM_DIR", "LANG")}
        _run([self._command, "send", to, "--name", SENDER, "--json", "--", body], kept, self.project)


@contextmanager
def opened_hcom(folder: Path) -> Generator[HcomHook, None, None]:
    """hcom with a client that it has just started; none of its processes stays.

    Raises:
        Missing: it cannot be installed or does not start.
    """
    line = hcom.install(folder)
    command, home = line.send[0], Path(line.environment["HOME"])
    program, project = folder / "bin" / "claude", folder / "project"
    program.parent.mkdir()
    project.mkdir()
    program.write_text(CLIENT)
    program.chmod(0o755)
    path = f"{program.parent}:{Path(command).parent}:/usr/bin:/bin"
    environment = {**line.environment, "PATH": path, "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    processes: list[int] = []
    try:
        _run([command, "claude", "--headless"], environment, project)
        processes = _wait_for(home / "processes")
        words = (home / "environment").read_text().splitlines()
        known = dict(word.split("=", 1) for word in words if "=" in word)
        yield HcomHook(command, known, project)
    finally:
        for pid in processes:  # its companion, with which its client ends, and that
            kill(pid)
            wait_until_ended(pid)


def _wait_for(file: Path) -> list[int]:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise Missing("hcom did not start a client")
        time.sleep(0.02)
    return [int(word) for word in file.read_text().split()]


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    ran = subprocess.run(
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise RoundFailed(f"hcom {command[1]}: {said[-1] if said else 'failed'}")
