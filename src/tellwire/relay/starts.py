"""Notes about sessions that started while no broker answered; the next broker reads them (`sessions/starts`).

<home>/starts/4711.889.4712     of the client with process 4711, which began at 889, by hook 4712:
                                {"client":"codex","cut":false}, and behind that line the payload

The relay is standard library only, so it reads the little it needs of `/proc` itself; else see `system/proc`.
"""

from __future__ import annotations

import os

from tellwire.paths import own_folder

FOLDER = "starts"
NOTES_MAX = 200
"""More is not kept: a broker that starts reads and removes them all."""
BYTES_MAX = 1 << 16
"""Of a payload."""


def leave(home: str, client: str, payload: bytes, *, cut: bool) -> str:
    """Note that a session of this hook's client starts; the note's path, empty if none is kept."""
    folder = os.path.join(home, FOLDER)
    pid = os.getppid()
    name = f"{pid}.{start_of(pid)}.{os.getpid()}"
    cut = cut or len(payload) > BYTES_MAX
    head = f'{{"client":"{client}","cut":{str(cut).lower()}}}\n'
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        own_folder(home)
        os.makedirs(folder, 0o700, exist_ok=True)
        if len(os.listdir(folder)) >= NOTES_MAX:
            return ""
        path, new = os.path.join(folder, name), os.path.join(folder, f".{name}")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, head.encode() + payload[:BYTES_MAX])
        finally:
            os.close(file)
        os.rename(new, path)
    except OSError:
        return ""
    return path


def start_of(pid: int) -> str:
    """When a process began, in the system's ticks; empty where the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            text = stat.read()
    except OSError:
        return ""
    return text[text.rindex(b")") + 2 :].split()[19].decode()
