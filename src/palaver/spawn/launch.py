"""Starting and ending the process of a child: in a window of tmux, or without one. Decides nothing.

Every call may block for a moment and belongs beside the loop. A child is the leader of a process group of its
own, outlives the broker, and begins only when it has leave (relay/child.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palaver.spawn.processes import read_process, read_word

GATE = Path(__file__).parent.parent / "relay" / "child.py"
OUTPUT_BYTES_MAX = 16_384
TMUX_S = 10.0
TMUX_CONF = "set -g remain-on-exit on\nset -g history-limit 5000\nset -g status off\n"
"""A window stays until its last words are read."""
ASK_S = 5.0
"""From asking a program to end to ending it."""


class Launch(NamedTuple):
    """What is to be started, and where its traces go."""

    name: str
    folder: Path
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    headless: bool


class Started(NamedTuple):
    """A process that waits for leave."""

    process: str
    """As `pid.start`."""
    place: str


class StartError(Exception):
    """A process could not be made; the text says why."""


def has_tmux() -> bool:
    """Whether windows can be had."""
    return shutil.which("tmux") is not None


def start(launch: Launch) -> Started:
    """Make the process; it waits for leave.

    Raises:
        StartError: the folder, the process or the window cannot be made.
    """
    folder = launch.folder
    if not os.path.isdir(launch.cwd):
        raise StartError(f"There is no folder {launch.cwd}.")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        words = {"argv": list(launch.argv), "env": dict(launch.env), "cwd": launch.cwd}
        descriptor = os.open(folder / "launch.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(words, file)
        return _headless(launch) if launch.headless else _window(launch)
    except (OSError, subprocess.SubprocessError, StartError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StartError(str(error)) from error


def forget_all_but(folder: Path, kept: Collection[str]) -> None:
    """Remove what an earlier broker left of children that are no more; who waits for leave there gives up."""
    with contextlib.suppress(OSError):
        for entry in list(folder.iterdir()):
            if entry.is_dir() and entry.name not in kept:
                shutil.rmtree(entry, ignore_errors=True)


def give_leave(folder: Path) -> None:
    """It is on record: it may begin."""
    (folder / "go").touch(mode=0o600)


def output_of(launch_folder: Path, name: str) -> str:
    """The end of what a child wrote, or of what its window shows."""
    log = launch_folder / "output"
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - OUTPUT_BYTES_MAX))
        return file.read().decode(errors="replace").strip()
    shown = _tmux(launch_folder.parent, "capture-pane", "-p", "-S", "-200", "-t", f"={name}:")
    lines = [line.rstrip() for line in shown.splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("Pane is dead")).strip()


def end(process: str, ask_s: float = ASK_S) -> None:
    """Ask the process group to end, wait, then end it."""
    pid = int(process.partition(".")[0])
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_running(process):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        deadline = time.monotonic() + ask_s
        while is_running(process) and time.monotonic() < deadline:
            time.sleep(0.02)


def clear(launch_folder: Path, name: str) -> None:
    """Leave nothing behind: the window and the folder."""
    _tmux(launch_folder.parent, "kill-session", "-t", f"={name}")
    shutil.rmtree(launch_folder, ignore_errors=True)


def is_running(process: str) -> bool:
    """Whether a process, as `pid.start`, runs."""
    found = read_word(process)
    return found is not None and found.state not in ("Z", "X")


def environment_of_process(process: str) -> dict[str, str]:
    """The environment with which a process was started; empty if it cannot be read."""
    pid = process.partition(".")[0]
    try:
        with open(f"/proc/{int(pid)}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except (OSError, ValueError):
        return {}
    words = (pair.decode(errors="surrogateescape").partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in words}


def own_environment() -> dict[str, str]:
    """The broker's, for want of the parent's; it was scrubbed when the broker was started."""
    return dict(os.environ)


def attach_words(folder: Path, name: str) -> list[str]:
    """The command that shows a child's window."""
    return ["tmux", "-S", str(folder / "tmux"), "attach-session", "-t", f"={name}"]


def _gate(launch: Launch) -> list[str]:
    return [sys.executable, "-I", "-S", str(GATE), str(launch.folder)]


def _headless(launch: Launch) -> Started:
    path = launch.folder / "output"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        child = subprocess.Popen(
            _gate(launch),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(launch.env),
            start_new_session=True,
        )
    _CHILDREN[child.pid] = child
    return Started(_word(child.pid), str(path))


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Ours to bury; those of an earlier broker are the system's."""


def bury(process: str) -> int | None:
    """Take the exit code of a process that we started; None if it is not ours or runs."""
    pid = int(process.partition(".")[0])
    child = _CHILDREN.get(pid)
    code = None if child is None else child.poll()
    if code is not None:
        del _CHILDREN[pid]
    return code


def _window(launch: Launch) -> Started:
    folder = launch.folder.parent
    conf = folder / "tmux.conf"
    conf.write_text(TMUX_CONF, encoding="utf-8")
    words = ["new-session", "-d", "-s", launch.name, "-x", "160", "-y", "50", "-P", "-F", "#{pane_pid}"]
    done = subprocess.run(
        ["tmux", "-S", str(folder / "tmux"), "-f", str(conf), *words, "--", *_gate(launch)],
        env=dict(launch.env),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=TMUX_S,
        check=False,
    )
    if done.returncode != 0:
        raise StartError(f"tmux: {done.stderr.strip()[:400]}")
    return Started(_word(int(done.stdout.strip())), f"tmux window {launch.name}")


def _word(pid: int) -> str:
    process = read_process(pid)
    if process is None:
        raise StartError("It ended at once.")
    return process.word


def _tmux(folder: Path, *words: str) -> str:
    """What a command to our tmux server says; nothing if there is none."""
    socket = folder / "tmux"
    if not socket.exists() or not has_tmux():
        return ""
    try:
        done = subprocess.run(
            ["tmux", "-S", str(socket), *words], capture_output=True, text=True, timeout=TMUX_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
