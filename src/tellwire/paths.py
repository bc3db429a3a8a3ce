"""Where a broker's home and socket are, whose they must be, and what a broker inherits.

Standard library only: every command pays. Reads no environment by itself, and makes nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = (
    False  # importing it from typing, or Mapping for real, would cost the fast programs milliseconds
)
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterable, Mapping

SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 108 on Linux and 104 on macOS."""
FALLBACK_PREFIX = "tellwire-"
"""Of the folder in the temporary directory for the socket of a home with a longer path."""
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
    """Next to the data if the home was named, else in the runtime folder; short enough for the kernel."""
    runtime = env.get("XDG_RUNTIME_DIR")
    folder = os.path.join(runtime, "tellwire") if runtime and not named else home
    path = os.path.join(folder, "socket")
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    # Imported here for start-up speed: few homes have such a long path.
    import hashlib  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"{FALLBACK_PREFIX}{os.getuid()}-{mark}", "socket")


# -- whom a client talks to ----------------------------------------------------------------------------

_LINK, _FOLDER, _KIND = 0o120000, 0o040000, 0o170000  # as in `stat`, which is not loaded for them
_WRITABLE_BY_OTHERS = 0o022


class StrangerError(OSError):
    """What is in the broker's place is not ours alone: another user may listen there, so nothing is said."""


def connect_to_own(sock: socket, path: str) -> None:
    """Connect to this user's broker and to nobody else's.

    Raises:
        StrangerError: the folder or the listener is another user's, or others may write to the folder.
        OSError: nobody listens there.
    """
    check_folder(path)
    sock.connect(path)
    check_peer(sock)


def check_folder(path: str) -> None:
    """Refuse a socket in a folder that another user made, or may write to.

    Raises:
        StrangerError: it is in such a folder.
        OSError: there is no folder.
    """
    folder = os.path.dirname(path)
    mode = own_folder(folder)
    # A broker that starts sees to the mode; until then only a socket that is there already is in doubt.
    if mode & _WRITABLE_BY_OTHERS and os.path.lexists(path):
        raise StrangerError(f"Other users can write to {folder}. Run `chmod 700 {folder}` and try again.")


def own_folder(folder: str) -> int:
    """The mode of a folder that is ours; it may be a link of our own making.

    Raises:
        StrangerError: it is another user's, or no folder.
        OSError: there is none.
    """
    own, status = os.geteuid(), os.lstat(folder)
    if status.st_mode & _KIND == _LINK and status.st_uid == own:
        status = os.stat(folder)
    if status.st_uid == own and status.st_mode & _KIND == _FOLDER:
        return status.st_mode
    advice = "Set TELLWIRE_HOME to a folder of your own."
    if os.path.basename(folder).startswith(FALLBACK_PREFIX):
        advice = "Set TELLWIRE_HOME to a shorter path of your own, or have that folder removed."
    raise StrangerError(f"{folder} is not a folder that belongs to you. {advice}")


def check_peer(sock: socket, own: int | None = None) -> None:
    """Refuse a listener of another user; by default `own` is who we are.

    Raises:
        StrangerError: it is another user's, or the system does not tell.
    """
    try:
        if sys.platform == "darwin":
            told = sock.getsockopt(0, 0x001, 76)  # SOL_LOCAL, LOCAL_PEERCRED: a version, then the uid
        else:
            import _socket  # noqa: PLC0415 - a program with a socket has loaded it already

            told = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    except OSError as error:
        raise StrangerError(f"Cannot find out who is listening on the broker's socket: {error}.") from None
    if int.from_bytes(told[4:8], sys.byteorder) != (os.geteuid() if own is None else own):
        raise StrangerError("The program listening on the broker's socket belongs to another user.")


# -- starting a broker ---------------------------------------------------------------------------------


def start_lock_path(home: str) -> str:
    """Held by the process that is starting a broker."""
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
