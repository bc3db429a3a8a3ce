"""The place in tellwire's home that client configurations name, so that they outlive the program.

    bin/tellwire-launcher   what MCP clients start, and what is left to uninstall with
    bin/python              → an interpreter, for hooks and the shim
    lib/tellwire            → the package
    lib/python              → the interpreter that has what tellwire depends on
    lib/removal.zip         what the launcher does without the program (`removal`)

An upgrade in place changes nothing here. If the links lead nowhere, hooks say nothing and exit 0. The next
broker of a new installation mends them.
"""

from __future__ import annotations

import glob
import io
import os
import sys
from contextlib import suppress

import msgspec

from tellwire.clients.client import LAUNCHER, Programs
from tellwire.install.files import locked, read_bytes, write_whole
from tellwire.install.removal import remove_launcher
from tellwire.system.files import replace_link

HOOK = "lib/tellwire/relay/hook.py"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = """\
#!/bin/sh
# What the configurations of agent CLIs start; it stays when tellwire moves or goes. By `tellwire install`.
home=${0%/*}/..
python=$home/bin/python package=$home/lib/tellwire
if [ -x "$python" ] && [ -f "$package/relay/mcp_shim.py" ]; then
    if [ "${1-}" = mcp ]; then
        shift
        exec "$python" -I -S "$package/relay/mcp_shim.py" "$@"
    fi
    exec "$(readlink "$home/lib/python")" -I -m tellwire "$@"
fi
[ -x "$python" ] || python=python3
home=$(cd "$home" && pwd)
exec "$python" -I -S "$home/lib/removal.zip" "$home" "$@"
"""
MAIN = "import sys\nfrom tellwire.install.removal import main\nsys.exit(main(sys.argv[1:]))\n"
PACKED = (
    "clients/entries.py",
    "clients/*/trust.py",
    "install/entries.py",
    "install/formats/*.py",
    "install/removal.py",
    "install/texts.py",
    "protocol/addresses.py",
    "protocol/errors.py",
    "system/files.py",
)
"""The modules that `removal` needs, by patterns; their packages' own `__init__` would load the rest."""


class Links(msgspec.Struct, frozen=True):
    """Where the launcher leads."""

    package: str
    python: str
    """Has what the package depends on."""
    bare: str
    """For programs that need the standard library only."""


def own_links() -> Links:
    """To the program that runs this."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return Links(PACKAGE, sys.executable, base)


def programs(home: str, *, named: bool) -> Programs:
    """What configurations name: paths in the home alone."""
    options = (f"--home={home}",) if named else ()
    return Programs(
        server=(os.path.join(home, "bin", LAUNCHER), "mcp", *options),
        python=os.path.join(home, "bin", "python"),
        relay=os.path.join(home, "lib", "tellwire", "relay"),
        marks=os.path.join(home, "marks"),
        options=options,
    )


def write(home: str) -> None:
    """Have the launcher lead to this program.

    Raises:
        TellwireError: `already_running`: somebody else installs, for long.
        OSError: it cannot be written.
    """
    links = own_links()
    with locked(home):
        for folder in ("bin", "lib"):
            os.makedirs(os.path.join(home, folder), 0o700, exist_ok=True)
        _write_if_new(os.path.join(home, "lib", "removal.zip"), _packed(), mode=0o600)
        link(links.python, os.path.join(home, "lib", "python"))
        link(links.package, os.path.join(home, "lib", "tellwire"))
        link(links.bare, os.path.join(home, "bin", "python"))
        _write_if_new(os.path.join(home, "bin", LAUNCHER), SCRIPT.encode(), mode=0o700)


def mend(home: str) -> None:
    """Lead to this program if the one that the launcher leads to is gone."""
    if os.path.lexists(os.path.join(home, "bin", LAUNCHER)) and trouble(home):
        write(home)


def remove(home: str) -> None:
    """Remove the launcher."""
    remove_launcher(home)


def target(home: str) -> str:
    """The package that the launcher leads to; empty if there is no launcher."""
    with suppress(OSError):
        return os.readlink(os.path.join(home, "lib", "tellwire"))
    return ""


def trouble(home: str) -> str:
    """What is wrong with a launcher; empty if it works."""
    for name in (f"bin/{LAUNCHER}", "bin/python", "lib/python", "lib/tellwire", HOOK):
        path = os.path.join(home, name)
        if not os.path.exists(path):
            gone = f"{path} leads to {os.readlink(path)}, which is gone" if os.path.islink(path) else ""
            return gone or f"{path} is missing"
    return ""


def _packed() -> bytes:
    """One file with `removal` and what it needs; the same bytes each time."""
    import zipfile  # noqa: PLC0415 - the broker, which mends a launcher, hardly ever needs it

    names = [name for pattern in PACKED for name in glob.glob(pattern, root_dir=PACKAGE)]
    folders = {os.path.dirname(name) for name in names} | {"clients", ""}
    texts = {f"tellwire/{folder}/__init__.py".replace("//", "/"): b"" for folder in folders}
    for name in names:
        texts[f"tellwire/{name}"] = read_bytes(os.path.join(PACKAGE, name)) or b""
    texts["__main__.py"] = MAIN.encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in sorted(texts.items()):
            archive.writestr(zipfile.ZipInfo(name), text)
    return made.getvalue()


def _write_if_new(path: str, data: bytes, *, mode: int) -> None:
    if read_bytes(path) != data or os.stat(path).st_mode & 0o777 != mode:
        write_whole(path, data, mode=mode)


def link(to: str, path: str) -> None:
    """Point a link elsewhere, at once: hooks may run meanwhile."""
    with suppress(OSError):
        if os.readlink(path) == to:
            return
    replace_link(to, path)
