"""What was written into client configurations under the former name: known by its looks, to be taken out.

Other programs bear that name too. A server counts if it starts our shim, a hook if it starts a program of
ours, a word of permission if such a server or hook is in the same file, a plugin if it begins as ours did.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tellwire.clients.client import SERVER, Target
from tellwire.clients.entries import Entry, Hooks, Item, MemberEntry, Rule, name_in_hook, our_hooks, reach
from tellwire.install.entries import has, has_some, hook_events
from tellwire.install.files import read_bytes
from tellwire.install.records import Records, load_records
from tellwire.paths import home_path
from tellwire.protocol.addresses import FORMER
from tellwire.protocol.errors import TellwireError

SHIM = f"/{FORMER}/relay/mcp_shim.py"
PLUGIN = f"// {FORMER}'s ".encode()


def former_home(env: Mapping[str, str]) -> str:
    """Where the data was by default. It is read for what was installed, and otherwise left alone."""
    ours = home_path({name: value for name, value in env.items() if name != "TELLWIRE_HOME"})
    return os.path.join(os.path.dirname(ours), FORMER)


def load_former_records(env: Mapping[str, str]) -> Records:
    """What was written under the former name; nothing if that is unknown."""
    try:
        return load_records(former_home(env))
    except (TellwireError, OSError):
        return Records()


def find_former(target: Target, document: Any) -> tuple[Entry, ...]:
    """The entries of the former name that a file has; its hooks event by event."""
    hooks = [
        Hooks(event, ())
        for event in hook_events(document)
        if any(name_in_hook(hook) == FORMER for _, _, hook in our_hooks(document, event))
    ]
    others = [entry for entry in map(_renamed, target.entries) if entry is not None]
    servers = [
        entry
        for entry in others
        if isinstance(entry, MemberEntry) and _is_ours(entry, reach(document, entry.path))
    ]
    if not hooks and not servers:
        return ()
    words = [
        entry
        for entry in others
        if (isinstance(entry, Item) and has(document, entry))
        or (isinstance(entry, Rule) and has_some(document, entry))
    ]
    return (*servers, *words, *hooks)


def former_plugins(targets: Sequence[Target]) -> list[str]:
    """Plugins of the former name next to ours."""
    found: list[str] = []
    for target in targets:
        folder, name = os.path.split(target.path)
        stem, ending = os.path.splitext(name)
        path = os.path.join(folder, FORMER + ending)
        if stem == SERVER and (_read(path) or b"").startswith(PLUGIN):
            found.append(path)
    return found


def former_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Names as they were under the old name."""
    return {
        key: text.replace(SERVER, FORMER) if isinstance(text, str) else text for key, text in words.items()
    }


def _is_ours(entry: MemberEntry, there: Any) -> bool:
    return SHIM in str(there) or (there is not None and there == entry.value)


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path)
    except OSError:
        return None


def _renamed(entry: Entry) -> Entry | None:
    """An entry as it was called then; None if its name is not in it."""
    if isinstance(entry, Hooks):
        return None
    if isinstance(entry, Item):
        then: Entry = replace(entry, value=entry.value.replace(SERVER, FORMER))
    else:
        path = tuple(key.replace(SERVER, FORMER) for key in entry.path)
        value = former_words(entry.value) if isinstance(entry, MemberEntry) else entry.value
        then = replace(entry, path=path, value=value)
    return None if then == entry else then
