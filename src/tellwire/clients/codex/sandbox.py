"""Codex's sandbox for all that its model runs, as what holds a child to its scope."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence

from tellwire.clients.client import Bounds, ChildPlace

PROBE_S = 10.0
HELD = 42
"""The exit code by which a probe tells that a write was refused."""
PROFILE = "tellwire-scope"


def hold(place: ChildPlace, roots: Sequence[str]) -> Bounds:
    """A profile of its sandbox with these folders, if the sandbox works on this machine."""
    scratch = place.scratch
    access = {":root": "read", **dict.fromkeys([*roots, scratch], "write")}
    pairs = ",".join(f"{json.dumps(path)}={json.dumps(word)}" for path, word in access.items())
    words = ("-c", f"permissions.{PROFILE}.filesystem={{{pairs}}}")
    if not _sandboxes(place, words):
        return Bounds()
    chosen = ("-c", f"default_permissions={json.dumps(PROFILE)}")
    return Bounds((*words, *chosen), "sandbox", env={"TMPDIR": scratch})


def _sandboxes(place: ChildPlace, words: Sequence[str]) -> bool:
    """Whether Codex's sandbox works here: a write outside of the scope must fail within it."""
    program = shutil.which("codex", path=place.env.get("PATH"))
    if program is None:
        return False
    probe = place.folder.with_name(f"{place.folder.name}.probe")
    script = 'if (: >"$0") 2>/dev/null; then exit 1; fi; exit "$1"'
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [program, "sandbox", *words, "-P", PROFILE, "--", "/bin/sh", "-c", script, str(probe), str(HELD)],
            env={**place.env, "TMPDIR": str(probe.parent)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    written = probe.exists()
    probe.unlink(missing_ok=True)
    return done.returncode == HELD and not written
