"""Where a broker's home and socket are. Standard library only, and little: every command pays for it.

Owns the rules for the two places; reads no environment by itself, and makes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 108 on Linux and 104 on macOS."""


def home_path(env: Mapping[str, str], home: str | None = None) -> str:
    """The folder of a broker: the one named, else by the environment, else the XDG state folder."""
    if home is None:
        home = env.get("PALAVER_HOME") or _default_home(env)
    return os.path.abspath(os.path.expanduser(home))


def is_named(env: Mapping[str, str], home: str | None = None) -> bool:
    """Whether the home was named by the caller or the environment, not the default."""
    return home is not None or bool(env.get("PALAVER_HOME"))


def socket_path(home: str, env: Mapping[str, str], *, named: bool) -> str:
    """Beside the data if its home was named, else in the runtime folder; short enough for the kernel."""
    runtime = env.get("XDG_RUNTIME_DIR")
    folder = os.path.join(runtime, "palaver") if runtime and not named else home
    path = os.path.join(folder, "socket")
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    # Imported here for start-up speed: few homes have so long a path.
    import hashlib  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"palaver-{os.getuid()}-{mark}", "socket")


def _default_home(env: Mapping[str, str]) -> str:
    if env.get("XDG_STATE_HOME"):
        return os.path.join(env["XDG_STATE_HOME"], "palaver")
    if sys.platform == "darwin":
        return "~/Library/Application Support/palaver"
    return "~/.local/state/palaver"
