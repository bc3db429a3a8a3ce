"""Which version of a client is here, and whether it is one that tellwire works with."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping

import msgspec

from tellwire.clients.client import Client
from tellwire.paths import kept_environment

WITHIN_S = 20.0
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,6}(?:\.\d{1,6}){1,3})")


class Found(msgspec.Struct, frozen=True):
    """A client on this machine."""

    program: str = ""
    """Where it is; empty if it is not on the PATH."""
    version: str = ""
    """As it says itself; empty if it did not."""


def find_version(client: Client, env: Mapping[str, str]) -> Found:
    """Ask the client on the PATH, with nothing of the environment that it does not need."""
    program = shutil.which(client.program, path=env.get("PATH", os.defpath))
    if program is None:
        return Found()
    kept = {name: value for name, value in kept_environment(env).items() if not name.startswith("TELLWIRE_")}
    with tempfile.TemporaryDirectory(prefix="tellwire-") as folder:
        said = _ask(program, {**kept, **dict.fromkeys(client.scratch, folder)})
    found = _VERSION.search(said[:4_096].decode(errors="replace"))
    return Found(program, found[1] if found else "")


def _ask(program: str, env: Mapping[str, str]) -> bytes:
    try:
        child = subprocess.Popen(
            [program, "--version"],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return b""
    with child:
        try:
            return child.communicate(timeout=WITHIN_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return b""


def complaint(client: Client, found: Found) -> str:
    """What is wrong with a version that was found; empty if nothing is."""
    needed = f"{format_version(client.lowest)} or newer is needed"
    if not found.version:
        return f"{client.title} at {found.program} does not report its version; {needed}."
    if is_too_old(client, found):
        return f"{client.title} {found.version} is too old; {needed}."
    return ""


def is_too_old(client: Client, found: Found) -> bool:
    """Whether it is known to be older than what works."""
    return bool(found.version) and tuple(map(int, found.version.split("."))) < client.lowest


def format_version(numbers: tuple[int, ...]) -> str:
    """As people write it."""
    return ".".join(map(str, numbers))
