"""Runs `tellwire` commands from a process that has imported all of them: the same code, without the start.

A test looks at a broker by dozens of commands, and most of each is the start of an interpreter. One process
for each worker of pytest imports the command line once and forks for every command. Tests about starting,
terminals and pipes run the installed script; so does `up`, whose broker is found by its command line.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SCRIPT = str(Path(sys.executable).with_name("tellwire"))
DESCRIPTORS = 5
"""Of each order: itself, standard input, output and error, and where the end is told."""


class Ended(NamedTuple):
    """What a command came to."""

    code: int
    out: bytes
    err: bytes


class WarmCli:
    """The process that forks commands; started with the first of them."""

    def __init__(self) -> None:
        self._orders: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(
        self,
        words: list[str],
        environment: dict[str, str],
        *,
        cwd: Path = ROOT,
        stdin: bytes = b"",
        click: bool = False,
        within_s: float,
    ) -> Ended:
        """Carry a command out in a session of its own; `click` leaves the fast commands out."""
        order = {"words": words, "environment": environment, "cwd": str(cwd), "click": click}
        files = [os.memfd_create(name) for name in ("order", "in", "out", "err")]
        reader, writer = os.pipe()
        try:
            for file, data in zip(files, (json.dumps(order).encode(), stdin), strict=False):
                os.write(file, data)
                os.lseek(file, 0, os.SEEK_SET)
            with self._lock:
                socket.send_fds(self._started(), [b"run"], [*files, writer])
            os.close(writer)
            code = _await_end(reader, words, within_s)
            return Ended(code, _content(files[2]), _content(files[3]))
        finally:
            for file in (*files, reader):
                os.close(file)

    def _started(self) -> socket.socket:
        if self._orders is None:
            self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.warm_cli"],
                cwd=ROOT,
                stdin=theirs.fileno(),
                start_new_session=True,
            )
            theirs.close()
            atexit.register(self._orders.close)  # it ends with its input
        return self._orders


WARM_CLI = WarmCli()


def _content(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        return stream.read()


def _await_end(reader: int, words: list[str], within_s: float) -> int:
    """The exit code of a command, which is ended if it takes too long."""
    told = ""
    late = threading.Timer(within_s, lambda: os.kill(int(told.split()[0]), signal.SIGKILL))
    late.start()
    try:
        while chunk := os.read(reader, 64):
            told += chunk.decode()
    finally:
        late.cancel()
    code = int(told.split()[1])
    if code == -signal.SIGKILL:
        raise subprocess.TimeoutExpired(words, within_s)
    return code


# -- the other end ------------------------------------------------------------------------------------


def main() -> None:
    """Fork a command for each order."""
    _import_commands()
    gc.collect()
    gc.freeze()  # a command need not look through what was imported, nor get pages of its own for it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    orders = socket.socket(fileno=0)
    while True:
        message, files, _, _ = socket.recv_fds(orders, 16, DESCRIPTORS)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            _attend(files)
        for file in files:
            os.close(file)


def _import_commands() -> None:
    """Import all that commands need; each imports the modules of `cli` anew, which remember who they are."""
    for name in ("tellwire.cli", "tellwire.cli.commands", "tellwire.cli.local"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in [name for name in sys.modules if f"{name}.".startswith("tellwire.cli.")]:
        del sys.modules[name]


def _attend(files: list[int]) -> None:
    """Run one command, and tell its process and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *given, end = files
    pid = os.fork()
    if pid == 0:
        os.close(end)
        os._exit(_command(given))
    os.write(end, f"{pid} ".encode())
    _, status = os.waitpid(pid, 0)
    os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _command(files: list[int]) -> int:
    with os.fdopen(files[0], "rb") as file:
        order = json.loads(file.read())
    os.setsid()
    for place, file in enumerate(files[1:]):
        os.dup2(file, place)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = [SCRIPT, *order["words"]]
    try:
        return _run(click=order["click"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _run(*, click: bool) -> int:
    try:
        if click:
            from tellwire.cli.app import cli  # noqa: PLC0415 - a command of its own

            return cli.run(sys.argv[1:])
        from tellwire.cli.main import main as tellwire  # noqa: PLC0415 - as above

        tellwire()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    main()
