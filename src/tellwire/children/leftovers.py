"""What children leave behind when nobody looked after them: processes, windows, folders.

A child's folder goes last, so what an earlier broker did not end is found by it. A process is ended only if
it was started as a child of this home: a number may be another's by now, and a file may hold anything.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from tellwire.children.process import PROCESS, tmux, window_of
from tellwire.system.processes import environ, in_groups

REST_S = 1.0
WORD_BYTES_MAX = 64


def clear_leftovers(folder: Path, kept: Mapping[str, str], home: str) -> None:
    """Leave nothing of children but of those that are kept: from their ids to the names of their windows."""
    left: list[Path] = []
    with contextlib.suppress(OSError):
        left = [entry for entry in folder.iterdir() if entry.is_dir() and entry.name not in kept]
    end_groups({group for each in left if (group := _group_in(each))}, home)
    windows = {window_of(name) for name in kept.values()}
    for session in tmux(folder, "list-sessions", "-F", "#{session_name}").splitlines():
        if session not in windows:
            tmux(folder, "kill-session", "-t", f"={session}")
    for each in left:  # a process that waits there to be released gives up
        shutil.rmtree(each, ignore_errors=True)


def _group_in(folder: Path) -> int:
    """The process group of the child whose folder this was; 0 if it had none."""
    with contextlib.suppress(OSError):
        # The child could write there: what is no plain file must not hold us up.
        descriptor = os.open(folder / PROCESS, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            pid = file.read(WORD_BYTES_MAX).partition(b".")[0]
        return int(pid) if pid.isdigit() else 0
    return 0


def end_groups(groups: Collection[int], home: str, ask_s: float = REST_S) -> None:
    """End what children that are gone have left running in their process groups."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = _left(groups, home)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + ask_s
        while left and _left(groups, home) and time.monotonic() < deadline:
            time.sleep(0.02)


def _left(groups: Collection[int], home: str) -> list[int]:
    """The processes of these groups that come from a child of this home."""
    found = [(process.pid, environ(process.pid) or {}) for process in in_groups(set(groups))]
    return [pid for pid, env in found if env.get("TELLWIRE_HOME") == home and "TELLWIRE_CHILD" in env]
