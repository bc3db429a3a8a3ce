"""Starting and ending the process of a child: in a window of tmux, or without one. Decides nothing.

Every call may block for a moment: call it in a thread. A child is the leader of a process group of its own,
outlives the broker, and begins only when it is released (relay/child.py).
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
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from tellwire.children.environments import plain_of
from tellwire.clients.client import SCRATCH
from tellwire.system.processes import is_alive, pid_in, read_process

GATE = Path(__file__).parent.parent / "relay" / "child.py"
OUTPUT_BYTES_MAX = 16_384
ANSWER_BYTES_MAX = 60_000
"""Of what a program answers: it fits a message."""
OUTPUT = "output"
ERRORS = "errors"
PROCESS = "process"
"""Which process is the child's, for a broker that finds nothing else of it."""
TMUX_S = 10.0
TMUX_CONF = "set -g remain-on-exit on\nset -g history-limit 5000\nset -g status off\n"
"""A window stays until its last words are read."""
WINDOW = {"TERM": "screen-256color", "COLORTERM": "truecolor"}
"""What a window of tmux can show; tmux makes of it what the terminal can that is attached."""
ASK_S = 5.0
"""From asking a program to end to ending it."""
WINDOW_OF = "tmux window "
"""How the place of a child in a window begins; its name follows."""


class ChildLaunch(NamedTuple):
    """What is to be started, and where its traces go."""

    name: str
    folder: Path
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    headless: bool
    files: Mapping[str, str] = MappingProxyType({})
    """More for its folder: what its words name."""
    others: Collection[str] = ()
    """The processes of other children: their windows stay, whatever they are called."""


class Started(NamedTuple):
    """A started process that waits for permission to run."""

    process: str
    """As `pid.start`."""
    place: str


class StartError(Exception):
    """A process could not be made; the text says why."""


def has_tmux() -> bool:
    """Whether tmux is installed."""
    return shutil.which("tmux") is not None


def start(launch: ChildLaunch) -> Started:
    """Create the process; it waits until it is released.

    Raises:
        StartError: the folder, the process or the window cannot be made.
    """
    folder = launch.folder
    if not os.path.isdir(launch.cwd):
        raise StartError(f"There is no folder {launch.cwd}.")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        env = {**launch.env, **({} if launch.headless else WINDOW)}
        words = {"argv": list(launch.argv), "env": env, "cwd": launch.cwd}
        descriptor = os.open(folder / "launch.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(words, file)
        (folder / SCRATCH).mkdir(mode=0o700)
        for name, text in launch.files.items():
            with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
        started = _headless(launch) if launch.headless else _window(launch)
        (folder / PROCESS).write_text(started.process, encoding="utf-8")
        return started
    except (OSError, subprocess.SubprocessError, StartError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StartError(str(error)) from error


def release(folder: Path) -> None:
    """Let the process run, now that its start is committed."""
    (folder / "go").touch(mode=0o600)


def output_of(launch_folder: Path, name: str) -> str:
    """The end of what a child wrote, complaints first, or of what its window shows."""
    if (launch_folder / OUTPUT).exists():
        parts = (_end_of(launch_folder / ERRORS), _end_of(launch_folder / OUTPUT))
        return "\n".join(part for part in parts if part)
    shown = tmux(launch_folder.parent, "capture-pane", "-p", "-S", "-200", "-t", f"={window_of(name)}:")
    lines = [line.rstrip() for line in shown.splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("Pane is dead")).strip()


def said_in(launch_folder: Path) -> str:
    """The end of what a child without a window said, without its complaints unless it said nothing else."""
    return _end_of(launch_folder / OUTPUT) or _end_of(launch_folder / ERRORS)


def answer_in(launch_folder: Path) -> str:
    """What a child without a window wrote to its standard output, from the beginning; a cut is marked."""
    with contextlib.suppress(OSError), (launch_folder / OUTPUT).open("rb") as file:
        data = file.read(ANSWER_BYTES_MAX + 1)
        size = os.fstat(file.fileno()).st_size
        cut = f"\n[cut: the whole had {size} bytes]" if len(data) > ANSWER_BYTES_MAX else ""
        return data[:ANSWER_BYTES_MAX].decode(errors="ignore" if cut else "replace").strip() + cut
    return ""


def _end_of(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - OUTPUT_BYTES_MAX))
        return file.read().decode(errors="replace").strip()
    return ""


def end(process: str, ask_s: float = ASK_S) -> None:
    """Ask the process group to end, wait, then end it."""
    pid = pid_in(process)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_alive(process):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        deadline = time.monotonic() + ask_s
        while is_alive(process) and time.monotonic() < deadline:
            time.sleep(0.02)


def clear(launch_folder: Path, name: str, process: str) -> None:
    """Leave nothing behind: the window, if it is still this child's and no later one's, and the folder."""
    if name and str(pid_in(process)) in _panes(launch_folder.parent, name):
        tmux(launch_folder.parent, "kill-session", "-t", f"={window_of(name)}")
    shutil.rmtree(launch_folder, ignore_errors=True)


def _panes(folder: Path, name: str) -> set[str]:
    """The processes that a window of that name has, or had."""
    return set(tmux(folder, "list-panes", "-s", "-t", f"={window_of(name)}", "-F", "#{pane_pid}").split())


def own_environment() -> dict[str, str]:
    """The broker's environment, if the parent's is unknown; it was scrubbed at the broker's start."""
    return dict(os.environ)


def window_of(name: str) -> str:
    """What tmux calls a child's window: in a name of its own a dot means something else, and is changed."""
    return name.replace(".", "+")


def name_in(place: str) -> str:
    """Under which name a child was started that has a window; empty if it has none."""
    return place.removeprefix(WINDOW_OF) if place.startswith(WINDOW_OF) else ""


def attach_words(folder: Path, name: str) -> list[str]:
    """The command that shows a child's window."""
    return ["tmux", "-S", str(folder / "tmux"), "attach-session", "-t", f"={window_of(name)}"]


def _gate(launch: ChildLaunch) -> list[str]:
    return [sys.executable, "-I", "-S", str(GATE), str(launch.folder)]


def _headless(launch: ChildLaunch) -> Started:
    path = launch.folder / OUTPUT
    with _written(path) as output, _written(launch.folder / ERRORS) as errors:
        child = subprocess.Popen(
            _gate(launch),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=dict(launch.env),
            start_new_session=True,
        )
    _CHILDREN[child.pid] = child
    return Started(_key(child.pid), str(path))


def _written(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process, whose exit code we collect; init collects those of an earlier broker."""


def reap(process: str) -> int | None:
    """Take the exit code of a process that we started; None if it is not ours or runs."""
    pid = pid_in(process)
    child = _CHILDREN.get(pid)
    code = None if child is None else child.poll()
    if code is not None:
        del _CHILDREN[pid]
    return code


def _window(launch: ChildLaunch) -> Started:
    """Start the child in a tmux session of its own; one of that name left by an ended child is replaced."""
    folder = launch.folder.parent
    conf = folder / "tmux.conf"
    conf.write_text(TMUX_CONF, encoding="utf-8")
    left = _panes(folder, launch.name)
    if left and not left & {str(pid_in(process)) for process in launch.others}:  # of one that is no more
        tmux(folder, "kill-session", "-t", f"={window_of(launch.name)}")
    words = [
        "new-session",
        "-d",
        "-s",
        window_of(launch.name),
        "-x",
        "160",
        "-y",
        "50",
        "-P",
        "-F",
        "#{pane_pid}",
    ]
    done = subprocess.run(
        # By our own path: the child's may have no tmux.
        [
            shutil.which("tmux") or "tmux",
            "-S",
            str(folder / "tmux"),
            "-f",
            str(conf),
            *words,
            "--",
            *_gate(launch),
        ],
        env=plain_of(launch.env),  # the server outlives this child: it gets no key of it
        cwd="/",
        capture_output=True,
        text=True,
        timeout=TMUX_S,
        check=False,
    )
    if done.returncode != 0:
        raise StartError(f"tmux: {done.stderr.strip()[:400]}")
    return Started(_key(int(done.stdout.strip())), f"{WINDOW_OF}{launch.name}")


def _key(pid: int) -> str:
    process = read_process(pid)
    if process is None:
        raise StartError("It ended at once.")
    return process.key


def tmux(folder: Path, *words: str) -> str:
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
