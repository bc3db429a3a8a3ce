"""The client's own program: which version is here, whether tellwire works with it, and its first start."""

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

VERSION_S = 20.0
PREPARE_S = 120.0
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,6}(?:\.\d{1,6}){1,3})")


class InstalledClient(msgspec.Struct, frozen=True):
    """A client on this machine."""

    program: str = ""
    """Where it is; empty if it is not on the PATH."""
    version: str = ""
    """As it says itself; empty if it did not."""


def find_version(client: Client, env: Mapping[str, str]) -> InstalledClient:
    """Ask the client on the PATH, with nothing of the environment that it does not need."""
    program = shutil.which(client.program, path=env.get("PATH", os.defpath))
    if program is None:
        return InstalledClient()
    kept = {name: value for name, value in kept_environment(env).items() if not name.startswith("TELLWIRE_")}
    with tempfile.TemporaryDirectory(prefix="tellwire-") as folder:
        said = _ask(program, {**kept, **dict.fromkeys(client.scratch, folder)})
    found = _VERSION.search(said[:4_096].decode(errors="replace"))
    return InstalledClient(program, found[1] if found else "")


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
            return child.communicate(timeout=VERSION_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return b""


def complaint(client: Client, found: InstalledClient) -> str:
    """What is wrong with a version that was found; empty if nothing is."""
    needed = f"{format_version(client.lowest)} or newer is needed"
    if not found.version:
        return f"{client.title} at {found.program} does not report its version; {needed}."
    if is_too_old(client, found):
        return f"{client.title} {found.version} is too old; {needed}."
    return ""


def is_too_old(client: Client, found: InstalledClient) -> bool:
    """Whether it is known to be older than what works."""
    return bool(found.version) and tuple(map(int, found.version.split("."))) < client.lowest


def format_version(numbers: tuple[int, ...]) -> str:
    """As people write it."""
    return ".".join(map(str, numbers))


def prepare(client: Client, program: str, env: Mapping[str, str], cwd: str) -> str:
    """Have the client do now what it does at its first start with a plugin; what to report if it could not.

    It is the client's own doing, in its own folder: it may install the plugins' interface by npm.
    """
    if not client.prepare or not program:
        return ""
    kept = {name: value for name, value in kept_environment(env).items() if not name.startswith("TELLWIRE_")}
    failed = f"{client.title} could not prepare for plugins now; its next start may take a minute."
    try:
        child = subprocess.Popen(
            [program, *client.prepare],
            env=kept,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return failed
    with child:
        try:
            return failed if child.wait(timeout=PREPARE_S) else ""
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return failed
