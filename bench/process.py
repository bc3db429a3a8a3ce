"""Processes that the bench starts: waiting for them, ending them by id, and their CPU time and memory.

Figures come from /proc, so the bench runs on Linux only.
"""

import fcntl
import os
import resource
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.engine import RoundFailed

STOP_TIMEOUT_S = 10.0
START_TIMEOUT_S = 15.0
QUIET_PROBE_S = 0.2
QUIET_SHARE = 0.2
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Child:
    """A server process of ours that is reached by a Unix socket."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
            )
        self._log = log

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_for_socket(self, path: Path) -> None:
        """Return when `path` accepts a connection."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not accepts(path):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.stop()
                raise RoundFailed(f"the server did not start: {tail(self._log)}")
            time.sleep(0.005)

    def stop(self) -> None:
        """Ask it to end, then insist."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_TIMEOUT_S)


def accepts(path: Path) -> bool:
    """Whether a server listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def tail(log: Path) -> str:
    """The end of a log in one line, for an error message."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return "no log"
    return " / ".join(line.strip() for line in lines[-6:] if line.strip()) or "empty log"


def cpu_s(pid: int) -> float:
    """CPU seconds the process has used so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def machine_cpu_s() -> float:
    """CPU seconds that all processors together have worked so far, whoever for."""
    user, nice, system, _idle, _waiting, irq, soft_irq, stolen, *_ = (
        int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + soft_irq + stolen) / _TICKS_PER_S


def rss_mb(pid: int) -> float:
    """Resident memory of the process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RoundFailed(f"process {pid} has no memory: it has ended")


def pss_mb(pid: int) -> float | None:
    """The same, with each shared page divided among those that share it; None if the kernel does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Pss:")), None)


def settle(pid: int, *, quiet_s: float = 0.5, patience_s: float = 60.0) -> None:
    """Wait until the process stops working by itself (saving, indexing after a load)."""
    deadline_s = time.monotonic() + patience_s
    before_s = cpu_s(pid)
    while time.monotonic() < deadline_s:
        time.sleep(quiet_s)
        now_s = cpu_s(pid)
        if now_s - before_s <= 0.03 * quiet_s:
            return
        before_s = now_s


def wait_for_quiet(patience_s: float) -> None:
    """Wait, but not for ever, until the rest of the machine does little. Nothing of ours may work now."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        before_s = machine_cpu_s()
        time.sleep(QUIET_PROBE_S)
        if machine_cpu_s() - before_s <= QUIET_SHARE * QUIET_PROBE_S:
            return


def wait_until_ended(pid: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Whether a process that is not our child ended within the time."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(watch)


def kill(pid: int) -> None:
    """kill -9, and return when the process is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_until_ended(pid)


def lock_holder(path: Path) -> int:
    """The process that holds this lock file and has written its id into it; 0 if none does."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return 0
    except BlockingIOError:
        return int(path.read_text() or 0)
    return 0


def raise_file_limit() -> None:
    """Allow as many open files as the system grants: a thousand clients need several thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
