"""Codex runs a hook only after its human has trusted it. tellwire never writes that trust; here it is read.

Codex notes a hash of what was trusted under the file, the event and the place of the hook.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from tellwire.clients.entries import Hooks, our_hooks, reach

SHORT_EVENTS = ("SessionEnd", "Interrupt")
SHORT_S = 3
"""Codex gives these no more."""
DEFAULT_S = 600
AGAIN = "After `tellwire install codex` Codex will ask about its hooks again: their command lines change."
LACKING = 'Codex skips the hooks, they are not trusted: start `codex`, choose "Trust all and continue".'


def untrusted(document: Any, entries: Sequence[Hooks], *, path: str, notes: Any) -> list[str]:
    """The events whose hooks in a file Codex will not run, by what it has noted in its own."""
    found: list[str] = []
    for entry in entries:
        for number, index, hook in our_hooks(document, entry.event):
            keys = trust_keys(path, entry.event, number, index)
            hashes = [reach(notes, ("hooks", "state", key, "trusted_hash")) for key in keys]
            matcher = document["hooks"][entry.event][number].get("matcher")
            if trust_hash(entry.event, hook, matcher) not in hashes:
                found.append(entry.event)
                break
    return found


def switched_off(document: Any, entries: Sequence[Hooks], *, path: str, notes: Any) -> list[str]:
    """The events whose hooks were trusted and then switched off."""
    return [
        entry.event
        for entry in entries
        for number, index, _ in our_hooks(document, entry.event)
        if any(
            reach(notes, ("hooks", "state", key, "enabled")) is False
            for key in trust_keys(path, entry.event, number, index)
        )
    ]


def trust_keys(path: str, event: str, number: int, index: int) -> list[str]:
    """Under what Codex notes a hook: the file as it is named, or where it really is."""
    return [f"{name}:{event_word(event)}:{number}:{index}" for name in (path, os.path.realpath(path))]


def trust_hash(event: str, hook: dict[str, Any], matcher: str | None) -> str:
    """The hash that Codex stores of a hook."""
    timeout = max(int(hook.get("timeout", DEFAULT_S)), 1)
    handler = {
        "type": "command",
        "command": hook["command"],
        "timeout": min(timeout, SHORT_S) if event in SHORT_EVENTS else timeout,
        "async": bool(hook.get("async", False)),
    }
    identity: dict[str, Any] = {"event_name": event_word(event), "hooks": [handler]}
    if matcher is not None:
        identity["matcher"] = matcher
    words = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(words.encode()).hexdigest()}"


def event_word(event: str) -> str:
    """`SessionStart` as Codex notes it: `session_start`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
