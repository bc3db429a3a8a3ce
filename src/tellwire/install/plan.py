"""What an installation would change, before it does; and the proof that it changes nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from tellwire.clients.client import SERVER, Client, InstallPlace, Target
from tellwire.clients.entries import Entry, Hooks, MemberEntry, Rule, our_hooks, reach
from tellwire.install.entries import find_lacks, foreign, has_some, hook_events
from tellwire.install.files import Snapshot, backup_name, check_writable, look, read_bytes
from tellwire.install.formats import format_of
from tellwire.install.former import find_former, former_plugins, former_words
from tellwire.install.jsonc import BadTextError
from tellwire.install.records import Record, Records, digest
from tellwire.protocol.errors import TellwireError

BOM = "\ufeff"
SHIM = "/tellwire/relay/mcp_shim.py"
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
        bom, text, document = read_target(target, rest)
        if rest == seen and not find_lacks(document, target.entries):
            continue
        check_writable(target.path, seen)
        after = _edited(target, lambda target=target, text=text: _apply(target, text))
        _prove(target, document, after, installed=True)
        data = _encoded(target, bom + after)
        backup = "" if seen.data is None else backup_name(seen.path)
        old = records.find(client.kind, seen.path)
        new = _record(client, place, target=target, seen=seen, text=text, old=old)
        if old is None and rest.data is None:
            new = msgspec.structs.replace(new, existed=False)
        if old is None:
            new = msgspec.structs.replace(new, folders=_former_folders(client, seen.path, former))
        new = msgspec.structs.replace(
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
            rest = msgspec.structs.replace(rest, data=_cleared(target, rest, record))
        after = _without_former(target, rest, then).data  # a copy from before may have it too
        if after == seen.data and record is None:
            continue
        if after != seen.data:
            check_writable(target.path, seen)
        mode = record.mode if record is not None and record.mode else seen.mode
        changes.append(Change(path=target.path, seen=seen, after=after, mode=mode, old=record, former=then))
    return changes


def read_target(target: Target, seen: Snapshot) -> tuple[str, str, Any]:
    """A file's byte order mark, text and meaning.

    Raises:
        TellwireError: `bad_request`: it is not what it should be; tells the line and the column.
    """
    data = seen.data or b""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        known = data[: error.start].decode()
        raise _bad(target.path, BadTextError(known, len(known), "this is not UTF-8")) from error
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    try:
        document = format_of(target).load(text)
    except BadTextError as error:
        raise _bad(target.path, error) from error
    if not isinstance(document, dict):
        raise _bad(target.path, BadTextError(text, 0, "this should be an object"))
    return bom, text, cast("dict[str, Any]", document)


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
        return msgspec.structs.replace(
            old,
            before_sha256=old.before_sha256 if same else "",
            entries=(*old.entries, *(label for label in added if label not in old.entries)),
            made=(*old.made, *(path for path in made if path not in old.made)),
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
    return SHIM in str(value)


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
    _, _, document = read_target(target, seen)
    entries = find_former(target, document)
    if not entries:
        return seen
    trimmings = former_words(target.trimmings)
    then_target = msgspec.structs.replace(target, entries=entries, trimmings=trimmings)
    left = msgspec.structs.replace(seen, data=_cleared(then_target, seen, then))
    if SERVER in target.trimmings.values() and read_target(target, left)[2] == trimmings:
        return msgspec.structs.replace(left, data=None)  # a manifest that says nothing but the former name
    return left


def _cleared(target: Target, seen: Snapshot, record: Record | None) -> bytes | None:
    """The file without us: the copy from before if nobody else has changed it, else what is left of it."""
    assert seen.data is not None
    if record is not None and digest(seen.data) == record.written_sha256:
        if not record.existed:
            return None
        copy = read_bytes(record.backups[0]) if record.backups else None
        if copy is not None and digest(copy) == record.before_sha256:
            return copy
    bom, text, document = read_target(target, seen)
    after = _edited(target, lambda: format_of(target).strip(text, target.entries, record, target.path))
    if after == text:
        return seen.data
    _prove(target, document, after, installed=False, record=record)
    if record is not None and not record.existed and _is_hollow(target, after):
        return None
    return (bom + after).encode()


def _is_hollow(target: Target, text: str) -> bool:
    """Whether nothing is left, not even a comment."""
    rest = format_of(target).load(text)
    kept = {key: value for key, value in rest.items() if target.trimmings.get(key) != value}
    return not kept and "//" not in text.replace("://", "") and "/*" not in text and "#" not in text


# -- the proof ----------------------------------------------------------------------------------------


def _edited(target: Target, edit: Callable[[], str]) -> str:
    try:
        return edit()
    except BadTextError as error:
        raise _bad(target.path, error) from error


def _prove(target: Target, before: Any, text: str, *, installed: bool, record: Record | None = None) -> None:
    """Nothing foreign may differ, and everything of ours must be there, or nothing."""
    after = format_of(target).load(text)
    trimmed = {key: value for key, value in after.items() if key in before or key not in target.trimmings}
    same = _foreign(before, target) == _foreign(trimmed, target)
    if installed:
        fine = not find_lacks(after, target.entries)
    else:
        hooks = any(our_hooks(after, event) for event in hook_events(after))
        kept = record.previous if record is not None else {}
        fine = not hooks and not any(
            has_some(after, entry)
            for entry in target.entries
            if isinstance(entry, MemberEntry) and entry.label not in kept
        )
    if not same or not fine:
        raise TellwireError(
            "bad_request",
            f"{target.path} is written in a way that tellwire cannot edit safely; it was not changed.",
            "Edit it by hand; `--dry-run --json` with an empty file shows the entries.",
        )


def _foreign(document: Any, target: Target) -> Any:
    rest = foreign(document, target.entries)
    for entry in target.entries:
        # A string that meant all keys, and is now one of them.
        if isinstance(entry, Rule) and isinstance(rest.get(entry.path[0]), dict):
            rules = rest[entry.path[0]]
            if set(rules) == {"*"}:
                rest[entry.path[0]] = rules["*"]
        if isinstance(entry, Hooks):
            cast("dict[str, Any]", rest.get("hooks", {})).pop("state", None)
    if not rest.get("hooks", True):
        del rest["hooks"]
    return rest


def _bad(path: str, error: BadTextError) -> TellwireError:
    words = f"{path}, line {error.line}, column {error.column}: {error.why}."
    return TellwireError("bad_request", words, "Fix the file first; it was not changed.")
