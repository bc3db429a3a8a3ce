"""Starting a broker from inside an agent's session: once, however many programs want one at a time."""

from __future__ import annotations

import fcntl
import os
import sys
import time

from tellwire.paths import home_path, is_named, kept_environment, start_lock_path

TYPE_CHECKING = False  # importing it from typing would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping

READ_BYTES = 1 << 16
PAUSE_S_MAX = 5.0
"""Between two starts that fail."""
EXIT_RUNNING = 75
"""A broker runs already, or is just going: try again."""
EXIT_KILLED = 71
"""It was killed while it started: try again."""


def own_python() -> str:
    """The interpreter that has what a broker needs; hooks and shims run with any (`install/launcher`)."""
    home = os.path.dirname(os.path.dirname(sys.executable))
    if os.path.islink(os.path.join(home, "lib", "tellwire")):
        return os.readlink(os.path.join(home, "lib", "python"))
    return sys.executable


class Starter:
    """Starts a broker for one program. Nothing here blocks."""

    def __init__(self, env: Mapping[str, str], home: str | None) -> None:
        self.home = home_path(env, home)
        self._environment = kept_environment(env)
        if is_named(env, home):
            self._environment["TELLWIRE_HOME"] = self.home
        self._launch: tuple[int, int, int] | None = None
        """The current launch: its process, its stderr, and the lock for starting a broker."""
        self._children: list[int] = []
        self._pause_until = 0.0
        self.failures = 0
        """Starts that failed, one after another."""
        self.trouble = ""
        """Why the last one did."""

    @property
    def busy(self) -> bool:
        """Whether a broker is being started."""
        return self._launch is not None

    def step(self) -> None:
        """See how a start goes on, or begin one unless somebody else does so."""
        if self._launch is not None:
            self._look()
        elif time.monotonic() >= self._pause_until:
            self._begin()

    def succeed(self) -> None:
        """Note that a broker answers: forget earlier failures."""
        self.failures = 0
        if self._launch is not None:
            self._children.append(self._launch[0])
            self._close()

    def reap(self) -> None:
        """Collect launchers that have ended."""
        self._children = [pid for pid in self._children if os.waitpid(pid, os.WNOHANG)[0] == 0]

    def _begin(self) -> None:
        """Start a broker, detached, unless another program holds the lock for that."""
        try:
            os.makedirs(self.home, 0o700, exist_ok=True)
            lock = os.open(start_lock_path(self.home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._fail(f"No broker is running, and {self.home} cannot be used: {error.strerror}.")
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return
        errors, writer = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        python = own_python()
        command = [python, "-I", "-m", "tellwire.cli.launch", "--detach"]
        files = [(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate((null, null, writer))]
        pid = os.posix_spawn(python, command, self._environment, file_actions=files)
        os.close(writer)
        os.close(null)
        self._launch = (pid, errors, lock)

    def _look(self) -> None:
        if self._launch is None:
            return
        pid, errors, _ = self._launch
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            return
        said = os.read(errors, READ_BYTES).decode("utf-8", "replace").strip().splitlines() if status else []
        self._close()
        code = os.waitstatus_to_exitcode(status)
        if said and code not in (0, EXIT_RUNNING, EXIT_KILLED):
            self._fail(said[-1])

    def _close(self) -> None:
        if self._launch is not None:
            os.close(self._launch[1])
            os.close(self._launch[2])
            self._launch = None

    def _fail(self, trouble: str) -> None:
        self.failures += 1
        self.trouble = trouble
        self._pause_until = time.monotonic() + min(0.1 * 2**self.failures, PAUSE_S_MAX)
