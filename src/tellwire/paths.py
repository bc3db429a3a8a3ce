"""Where a broker's home and socket are, and what it inherits. Standard library only: every command pays.

Owns these rules; reads no environment by itself, and makes nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = (
    False  # importing it from typing, or Mapping for real, would cost the fast programs milliseconds
)
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 108 on Linux and 104 on macOS."""
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""Of the environment, besides TELLWIRE_* and XDG_*."""


def home_path(env: Mapping[str, str], home: str | None = None) -> str:
    """The folder of a broker: the one named, else by the environment, else the XDG state folder."""
    if home is None:
        home = env.get("TELLWIRE_HOME") or _default_home(env)
    return os.path.abspath(os.path.expanduser(home))


def is_named(env: Mapping[str, str], home: str | None = None) -> bool:
    """Whether the home was named by the caller or the environment, not the default."""
    return home is not None or bool(env.get("TELLWIRE_HOME"))


def socket_path(home: str, env: Mapping[str, str], *, named: bool) -> str:
    """Beside the data if its home was named, else in the runtime folder; short enough for the kernel."""
    runtime = env.get("XDG_RUNTIME_DIR")
    folder = os.path.join(runtime, "tellwire") if runtime and not named else home
    path = os.path.join(folder, "socket")
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    # Imported here for start-up speed: few homes have so long a path.
    import hashlib  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"tellwire-{os.getuid()}-{mark}", "socket")


def start_lock_path(home: str) -> str:
    """Held by whoever is starting a broker."""
    return os.path.join(home, "start.lock")


def kept_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a broker started on behalf of a client inherits: no keys, no tokens."""
    return {
        name: value
        for name, value in env.items()
        if name in KEPT_VARIABLES or name.startswith(("TELLWIRE_", "XDG_"))
    }


def _default_home(env: Mapping[str, str]) -> str:
    if env.get("XDG_STATE_HOME"):
        return os.path.join(env["XDG_STATE_HOME"], "tellwire")
    if sys.platform == "darwin":
        return "~/Library/Application Support/tellwire"
    return "~/.local/state/tellwire"


# -- paths that rules are about ------------------------------------------------------------------------

FOLDS_CASE = sys.platform in ("darwin", "win32", "cygwin")
"""Where names that differ in case only are usually one file."""


def canonical(text: str, cwd: str) -> str:
    """The one spelling of a path: absolute, symbolic links resolved, names as on disk.

    What does not exist yet is resolved as far as it does. Text that cannot be a path stays, to be refused.
    """
    try:
        path = os.path.join(cwd, os.path.expanduser(text))
        if not text or not os.path.isabs(path):
            return text
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return text
    return as_on_disk(real) if FOLDS_CASE else real


def as_on_disk(path: str) -> str:
    """The path with each name spelled as its folder has it."""
    spelled = "/"
    for name in path.split("/")[1:]:
        try:
            entries = os.listdir(spelled)
        except OSError:
            entries = []
        spelled = os.path.join(spelled, as_spelled(name, entries))
    return spelled


def as_spelled(name: str, entries: Iterable[str]) -> str:
    """A name as a folder that does not tell case apart has it; itself if it is not there."""
    known = list(entries)
    if name in known:
        return name
    return next((entry for entry in known if entry.casefold() == name.casefold()), name)
