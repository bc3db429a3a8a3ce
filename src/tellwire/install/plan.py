"""What an installation would change, before it does; and the proof that it changes nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tellwire.clients.client import LAUNCHER, SERVER, Client, InstallPlace, Target
from tellwire.clients.entries import Entry, MemberEntry, Rule, reach
from tellwire.install.entries import Record, as_parts, digest, find_lacks
from tellwire.install.files import Snapshot, backup_name, check_writable, look, read_bytes
from tellwire.install.formats.file_format import format_of
from tellwire.install.former import find_former, former_plugins, former_words
from tellwire.install.records import Records
from tellwire.install.texts import cleared, edited, prove, read_target
from tellwire.protocol.errors import TellwireError

STARTS_OURS = ("/tellwire/relay/mcp_shim.py", f"/bin/{LAUNCHER}")
"""In the entry of a server: it is ours, of this version or of one before."""
NO_RECORDS = Records()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file: as it is, and as it will be."""

    path: str
    """As the client names it."""
    seen: Snapshot
    after: bytes | None
    """None if the file is to be deleted."""
    mode: int
    backup: str = ""
    old: Record | None = None
    new: Record | None = None
    former: Record | None = None
    """Of the former name: its copies go when nothing of it is left."""
    labels: tuple[str, ...] = ()
    """What is put in, for people; empty for a file that is ours as a whole."""


def plan_install(
    client: Client,
    place: InstallPlace,
    targets: Sequence[Target],
    records: Records,
    former: Records = NO_RECORDS,
) -> list[Change]:
    """What has to be written; nothing if all is there. Entries of the former name go.

    Raises:
        TellwireError: a file is not what it should be, or may not be written.
    """
    changes = _plugin_removals(client, targets, former)
    for target in targets:
        seen = look(target.path)
        rest = _without_former(target, seen, former.find(client.kind, seen.path))
        bom, text, document = read_target(target, rest.data)
        if rest == seen and not find_lacks(document, target.entries):
            continue
        check_writable(target.path, seen)
        after = edited(target, lambda target=target, text=text: _apply(target, text))
        prove(target, document, after, installed=True)
        data = _encoded(target, bom + after)
        backup = "" if seen.data is None else backup_name(seen.path)
        old = records.find(client.kind, seen.path)
        new = _record(client, place, target=target, seen=seen, text=text, old=old)
        if old is None and rest.data is None:
            new = replace(new, existed=False)
        if old is None:
            new = replace(new, folders=_former_folders(client, seen.path, former))
        new = replace(
            new,
            backups=(*new.backups, backup) if backup else new.backups,
            written_sha256=digest(data),
        )
        mode = _mode(place, seen)
        change = Change(path=target.path, seen=seen, after=data, mode=mode, backup=backup, old=old, new=new)
        changes.append(msgspec.structs.replace(change, labels=_labels(target, document)))
    return changes


def plan_uninstall(
    client: Client, targets: Sequence[Target], records: Records, former: Records = NO_RECORDS
) -> list[Change]:
    """What has to be taken out; nothing if nothing of ours is there, under this name or the former one.

    Raises:
        TellwireError: a file is not what it should be, or may not be written.
    """
    changes = _plugin_removals(client, targets, former)
    for target in _with_recorded(client, targets, records):
        seen = look(target.path)
        record, then = (known.find(client.kind, seen.path) for known in (records, former))
        rest = _without_former(target, seen, then)
        if rest.data is not None:
            rest = msgspec.structs.replace(rest, data=cleared(target, rest.data, record, read_bytes))
        after = _without_former(target, rest, then).data  # a copy from before may have it too
        if after == seen.data and record is None:
            continue
        if after != seen.data:
            check_writable(target.path, seen)
        mode = record.mode if record is not None and record.mode else seen.mode
        changes.append(Change(path=target.path, seen=seen, after=after, mode=mode, old=record, former=then))
    return changes


# -- installing ---------------------------------------------------------------------------------------


def _labels(target: Target, document: Any) -> tuple[str, ...]:
    """What a file lacks of ours; of one that is ours as a whole there is nothing to tell."""
    lacks = [] if target.format == "whole" else find_lacks(document, target.entries)
    return tuple(lack.label for lack in lacks)


def _apply(target: Target, text: str) -> str:
    if not text.strip() and target.trimmings:
        text = msgspec.json.format(msgspec.json.encode(target.trimmings), indent=2).decode() + "\n"
    return format_of(target).apply(text, target.entries)


def _encoded(target: Target, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        words = f"{target.path} cannot contain a path that is not UTF-8."
        raise TellwireError("bad_request", words, "Move tellwire, or its home, to another folder.") from error


def _mode(place: InstallPlace, seen: Snapshot) -> int:
    """A file's own mode; a new one is its owner's, but for what a project shares."""
    if seen.data is None:
        return 0o644 if place.scope == "project" else 0o600
    return seen.mode


def _record(
    client: Client, place: InstallPlace, *, target: Target, seen: Snapshot, text: str, old: Record | None
) -> Record:
    document = format_of(target).load(text)
    added = tuple(lack.label for lack in find_lacks(document, target.entries))
    made = tuple(path for path in _holders(target.entries) if reach(document, path) is None)
    if old is not None:
        same = seen.data is not None and digest(seen.data) == old.written_sha256
        return replace(
            old,
            before_sha256=old.before_sha256 if same else "",
            entries=(*old.entries, *(label for label in added if label not in old.entries)),
            made=(*old.made, *(path for path in made if path not in old.made)),
            format=target.format,
            parts=as_parts(target.entries),
        )
    return Record(
        client=client.kind,
        scope=place.scope,
        path=seen.path,
        existed=seen.data is not None,
        before_sha256="" if seen.data is None else digest(seen.data),
        written_sha256="",
        entries=added,
        made=made,
        previous=_previous(target, text, document),
        shapes=format_of(target).shapes(text, _holders(target.entries)),
        format=target.format,
        parts=as_parts(target.entries),
        trimmings=dict(target.trimmings),
    )


def _holders(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Every object and list that the entries need around them."""
    found: list[tuple[str, ...]] = []
    for entry in entries:
        path = entry.path if not isinstance(entry, MemberEntry | Rule) else entry.path[:-1]
        found += [path[:size] for size in range(1, len(path) + 1) if path[:size] not in found]
    return found


def _previous(target: Target, text: str, document: Any) -> dict[str, str]:
    """What is in the place of our entries and is not ours."""
    found: dict[str, str] = {}
    for entry in target.entries:
        if isinstance(entry, MemberEntry | Rule) and not _looks_ours(reach(document, entry.path)):
            source = format_of(target).source_at(text, entry.path)
            if source:
                found[entry.label] = source
        if isinstance(entry, Rule) and isinstance(reach(document, entry.path[:-1]), str):
            found[".".join(entry.path[:-1])] = format_of(target).source_at(text, entry.path[:-1])
    return found


def _looks_ours(value: Any) -> bool:
    return any(word in str(value) for word in STARTS_OURS)


# -- taking out ---------------------------------------------------------------------------------------


def _with_recorded(client: Client, targets: Sequence[Target], records: Records) -> list[Target]:
    """The targets, and files next to them that were the target once."""
    paths = {os.path.realpath(target.path) for target in targets}
    beside = [
        msgspec.structs.replace(target, path=record.path)
        for target in targets
        for record in records.files
        if record.client == client.kind and record.path not in paths
        if os.path.dirname(record.path) == os.path.dirname(os.path.realpath(target.path))
    ]
    return [*targets, *beside]


def _former_folders(client: Client, path: str, former: Records) -> tuple[str, ...]:
    """Folders that were made under the former name, and are to go with what is ours now."""
    beside = (
        each.folders
        for each in former.files
        if each.client == client.kind and os.path.dirname(each.path) == os.path.dirname(path)
    )
    return next(filter(None, beside), ())


def _plugin_removals(client: Client, targets: Sequence[Target], former: Records) -> list[Change]:
    """Plugins of the former name go as a whole."""
    changes: list[Change] = []
    for path in former_plugins(targets):
        seen = look(path)
        check_writable(path, seen)
        then = former.find(client.kind, seen.path)
        changes.append(Change(path=path, seen=seen, after=None, mode=seen.mode, former=then))
    return changes


def _without_former(target: Target, seen: Snapshot, then: Record | None) -> Snapshot:
    """The file without entries of the former name; byte for byte as before them, if that is on record."""
    if seen.data is None:
        return seen
    _, _, document = read_target(target, seen.data)
    entries = find_former(target, document)
    if not entries:
        return seen
    trimmings = former_words(target.trimmings)
    then_target = msgspec.structs.replace(target, entries=entries, trimmings=trimmings)
    left = msgspec.structs.replace(seen, data=cleared(then_target, seen.data, then, read_bytes))
    if SERVER in target.trimmings.values() and read_target(target, left.data)[2] == trimmings:
        return msgspec.structs.replace(left, data=None)  # a manifest that says nothing but the former name
    return left
