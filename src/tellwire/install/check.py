"""Whether a client's installation is whole: entries, versions, trust. Looks only, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tellwire.clients.client import Client, Target
from tellwire.clients.entries import Hooks, reach
from tellwire.clients.versions import format_version
from tellwire.install.client_program import InstalledClient, complaint, judge
from tellwire.install.entries import find_lacks, has_some
from tellwire.install.files import look
from tellwire.install.former import find_former, former_plugins
from tellwire.install.texts import read_target
from tellwire.protocol.addresses import FORMER
from tellwire.protocol.errors import TellwireError


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a client."""

    path: str
    missing: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    error: str = ""
    hooks: bool = False
    """Hooks belong into it."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One client."""

    client: str
    title: str
    program: str
    version: str
    state: str
    """`installed`, `outdated`, `incomplete`, `absent`, `broken` or `unsupported`."""
    files: tuple[FileState, ...] = ()
    trusted: bool | None = None
    """Whether its hooks are trusted, where that is a question."""
    notes: tuple[str, ...] = ()
    fine: bool


def check(client: Client, targets: Sequence[Target], found: InstalledClient) -> Report:
    """Check all files of a client's configuration."""
    files: list[FileState] = []
    notes: list[str] = []
    some = False
    former: list[str] = former_plugins(targets)
    trusted: bool | None = None
    for target in targets:
        try:
            seen = look(target.path)
            _, _, document = read_target(target, seen.data)
            present = any(has_some(document, entry) for entry in target.entries)
            if target.trust and present:
                trusted, doubts = _look_at_trust(client, target, document)
                notes += doubts
        except TellwireError as error:
            files.append(FileState(path=target.path, error=error.message))
            continue
        some = some or present
        former += [target.path] if find_former(target, document) else []
        files.append(_file_state(target, document))
        notes += _switches(client, target, document) if present else []
    state = _state(files, some=some, former=bool(former))
    notes += [f"There are entries from the old name, {FORMER}, in {', '.join(former)}."] if former else []
    if state == "outdated" and trusted is not None and client.trust is not None:
        notes.append(client.trust.again)
    wrong = complaint(client, found) if found.program else ""
    notes += [wrong] if wrong else []
    fine = state == "installed" and not notes
    judged = judge(client, found)
    if judged.is_refused and state in ("installed", "outdated", "incomplete", "absent"):
        state = "unsupported"
    notes += [judged.words] if judged.level == "untested" else []
    if not found.program:
        needed = format_version(client.lowest)
        notes.append(f"`{client.program}` is not on the PATH; {needed} or newer is needed.")
    return Report(
        client=client.name,
        title=client.title,
        program=found.program,
        version=found.version,
        state=state,
        files=tuple(files),
        trusted=trusted,
        notes=tuple(notes),
        fine=fine,
    )


def _file_state(target: Target, document: Any) -> FileState:
    lacks = find_lacks(document, target.entries)
    return FileState(
        path=target.path,
        missing=tuple(each.label for each in lacks if not each.outdated),
        outdated=tuple(each.label for each in lacks if each.outdated),
        hooks=any(isinstance(entry, Hooks) for entry in target.entries),
    )


def _look_at_trust(client: Client, target: Target, document: Any) -> tuple[bool | None, list[str]]:
    if client.trust is None:
        return None, []
    own = msgspec.structs.replace(target, path=target.trust)
    noted = read_target(own, look(target.trust).data)[2] if target.trust != target.path else document
    hooks = [entry for entry in target.entries if isinstance(entry, Hooks)]
    trusted = not client.trust.untrusted(document, hooks, path=target.path, notes=noted)
    off = client.trust.switched_off(document, hooks, path=target.path, notes=noted)
    doubts = [] if trusted else [client.trust.lacking]
    return trusted, doubts + (
        [f"{client.title} has these hooks turned off: {', '.join(off)}."] if off else []
    )


def _switches(client: Client, target: Target, document: Any) -> list[str]:
    """Settings that switch all hooks off."""
    hooks = any(isinstance(entry, Hooks) for entry in target.entries)
    return [
        f"{target.path} turns all hooks off: {'.'.join(each.path)}."
        for each in client.switches
        if hooks and reach(document, each.path) is each.value
    ]


def _state(files: Sequence[FileState], *, some: bool, former: bool) -> str:
    if any(file.error for file in files):
        return "broken"
    if former:
        return "outdated"
    if not some:
        return "absent"
    if any(file.outdated for file in files):
        return "outdated"
    return "incomplete" if any(file.missing for file in files) else "installed"
