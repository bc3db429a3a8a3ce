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
from tellwire.clients.versions import Judgement, format_version, judge_version
from tellwire.paths import kept_environment

VERSION_S = 20.0
PREPARE_S = 120.0
SAID_MAX = 4_096
WORDS_MAX = 200
NPM_CACHE = "npm_config_cache"
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,6}(?:\.\d{1,6}){1,3})")


class InstalledClient(msgspec.Struct, frozen=True):
    """A client on this machine."""

    program: str = ""
    """Where it is; empty if it is not on the PATH."""
    version: str = ""
    """As it says itself; empty if it did not."""
    failed: str = ""
    """Why it did not, in its own words."""


def find_version(client: Client, env: Mapping[str, str]) -> InstalledClient:
    """Ask the client on the PATH, with nothing of the environment that it does not need."""
    program = shutil.which(client.program, path=env.get("PATH", os.defpath))
    if program is None:
        return InstalledClient()
    with tempfile.TemporaryDirectory(prefix="tellwire-") as folder:
        said, failed = _ask(program, {**_environment(env), **dict.fromkeys(client.scratch, folder)})
    found = None if failed else _VERSION.search(said)
    return InstalledClient(program, found[1] if found else "", failed)


def _ask(program: str, env: Mapping[str, str]) -> tuple[str, str]:
    """What it says when asked for its version, and why it could not."""
    try:
        child = subprocess.Popen(
            [program, "--version"],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return "", f"{error.strerror or error}"
    with child:
        try:
            out, err = child.communicate(timeout=VERSION_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return "", f"it did not answer `--version` within {VERSION_S:.0f} s"
    said, words = (data[:SAID_MAX].decode(errors="replace") for data in (out, err))
    if child.returncode:
        return said, _first_words(words) or _first_words(said) or _ended(child.returncode)
    return said, ""


def _first_words(text: str) -> str:
    """The line that tells most: the first one of an error, else the first at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    words = (errors or lines or [""])[0]
    return words if len(words) <= WORDS_MAX else words[: WORDS_MAX - 1] + "…"


def _ended(code: int) -> str:
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def judge(client: Client, found: InstalledClient) -> Judgement:
    """What is known of the version that was found."""
    return judge_version(client, found.version)


def complaint(client: Client, found: InstalledClient) -> str:
    """What is wrong with a program that was found; empty if nothing is."""
    needed = f"{format_version(client.lowest)} or newer is needed"
    if found.failed:
        return f"{client.title} at {found.program} does not start: {found.failed.rstrip('.')}."
    if not found.version:
        return f"{client.title} at {found.program} does not report its version; {needed}."
    judged = judge(client, found)
    return judged.words if judged.is_serious else ""


def prepare(client: Client, program: str, env: Mapping[str, str], cwd: str) -> str:
    """Have the client do now what it does at its first start with a plugin; what to report if it could not.

    It is the client's own doing, in its own folder: it may install the plugins' interface by npm, whose cache
    is not kept.
    """
    if not client.prepare or not program:
        return ""
    failed = f"{client.title} could not prepare for plugins now; its next start may take a minute."
    with tempfile.TemporaryDirectory(prefix="tellwire-", ignore_cleanup_errors=True) as cache:
        try:
            child = subprocess.Popen(
                [program, *client.prepare],
                env={**_environment(env), NPM_CACHE: cache},
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


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a client gets of ours: no keys, and nothing of tellwire's."""
    kept = kept_environment(env)
    return {name: value for name, value in kept.items() if not name.startswith("TELLWIRE_")}
