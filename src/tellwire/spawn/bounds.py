"""A scope as a client's own sandbox or rules can hold it: the words for its command line.

Codex has a sandbox for all that its model runs, Claude Code has rules for its own file tools; the others have
neither, and their hooks are asked instead. What is told as held must hold: if the caller's words may change
it, or the sandbox does not work on this machine, it does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tellwire.protocol.operations.scopes import ScopeRule
from tellwire.spawn.complements import complement, is_plain
from tellwire.spawn.launch import SCRATCH
from tellwire.spawn.programs import find_program

PROBE_S = 10.0
HELD = 42
"""The exit code by which a probe tells that a write was refused."""
PROFILE = "tellwire-scope"
SETTINGS = "settings.json"
DENY_MAX = 5_000
HARMLESS = frozenset(
    {
        "--dangerously-bypass-hook-trust",
        "--effort",
        "--json",
        "--model",
        "--no-alt-screen",
        "--output-format",
        "--skip-git-repo-check",
        "--verbose",
        "-m",
        "-n",
        "--name",
    }
)
"""Options of a caller that change nothing about what may be written."""


class Bounds(NamedTuple):
    """What a client is told about its scope."""

    words: tuple[str, ...] = ()
    held_by: str = ""
    """`sandbox` or `rules`, if the client itself holds it; empty if only its hooks are asked."""
    files: Mapping[str, str] = MappingProxyType({})
    """For the child's folder: what the words name."""
    env: Mapping[str, str] = MappingProxyType({})


class Place(NamedTuple):
    """Where a child is to be started, and with what."""

    client: str
    folder: Path
    """The child's own."""
    env: Mapping[str, str]
    command: Sequence[str]


def bounds_of(place: Place, rules: Sequence[ScopeRule]) -> Bounds:
    """The words that hold a client to its scope, as far as it can be held; blocks for a moment."""
    roots = _folders(rules)
    if roots is None or not all(word in HARMLESS for word in place.command if word.startswith("-")):
        return Bounds()
    if place.client == "codex":
        return _codex(place, roots)
    if place.client == "claude-code":
        return _claude(place, roots)
    return Bounds()


def _folders(rules: Sequence[ScopeRule]) -> list[str] | None:
    """The folders that may be written; None if it is not about whole folders that are there."""
    writes = [rule for rule in rules if rule.access == "write"]
    whole = all(rule.recursive and rule.path != "/" and os.path.isdir(rule.path) for rule in writes)
    return sorted({rule.path for rule in writes}) if whole else None


# -- Codex ----------------------------------------------------------------------------------------------


def _codex(place: Place, roots: Sequence[str]) -> Bounds:
    scratch = str(place.folder / SCRATCH)
    access = {":root": "read", **dict.fromkeys([*roots, scratch], "write")}
    pairs = ",".join(f"{json.dumps(path)}={json.dumps(word)}" for path, word in access.items())
    words = ("-c", f"permissions.{PROFILE}.filesystem={{{pairs}}}")
    if not _sandboxes(place, words):
        return Bounds()
    chosen = ("-c", f"default_permissions={json.dumps(PROFILE)}")
    return Bounds((*words, *chosen), "sandbox", env={"TMPDIR": scratch})


def _sandboxes(place: Place, words: Sequence[str]) -> bool:
    """Whether Codex's sandbox works here: a write outside of the scope must fail within it."""
    program = find_program("codex", place.env)
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


# -- Claude Code ----------------------------------------------------------------------------------------


def _claude(place: Place, roots: Sequence[str]) -> Bounds:
    if not all(is_plain(path) for path in roots):
        return Bounds()
    deny = complement(roots) if roots else ["/**"]
    if len(deny) > DENY_MAX:
        return Bounds()
    rules = {
        "allow": [f"Edit(/{path}/**)" for path in roots],
        "deny": [f"Edit(/{pattern})" for pattern in deny],
    }
    files = {SETTINGS: json.dumps({"permissions": rules})}
    return Bounds(("--settings", str(place.folder / SETTINGS)), "rules", files)
