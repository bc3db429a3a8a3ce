"""Getting a client ready for its first plugin, so that its human does not wait for that at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from tellwire.clients.client import Client
from tellwire.paths import kept_environment

WITHIN_S = 120.0


def prepare(client: Client, program: str, env: Mapping[str, str], cwd: str) -> str:
    """Let the client do what it does at its first start with a plugin; what to tell if it could not.

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
            return failed if child.wait(timeout=WITHIN_S) else ""
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return failed
