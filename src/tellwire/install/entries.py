"""What of our entries a parsed configuration file has, what of it is not ours, and what we wrote.

Values only, no text. Standard library only: the launcher takes our entries out without the rest (`removal`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

from tellwire.clients.entries import Entry, Hooks, Item, MemberEntry, Rule, listed_at, our_hooks, reach


class Lack(NamedTuple):
    """An entry that a file does not have as it should be."""

    label: str
    outdated: bool
    """It is there, but differs: a program has moved, or an earlier version has written it."""


def find_lacks(document: Any, entries: Sequence[Entry]) -> list[Lack]:
    """What is missing or out of date."""
    found: list[Lack] = []
    for entry in entries:
        if not has(document, entry):
            found.append(Lack(entry.label, outdated=has_some(document, entry)))
    return found


def has(document: Any, entry: Entry) -> bool:
    """Whether the entry is there as it should be."""
    there = reach(document, entry.path)
    if isinstance(entry, MemberEntry):
        return isinstance(there, dict) and all(
            _same(cast("dict[str, Any]", there).get(key), value) for key, value in entry.value.items()
        )
    if isinstance(entry, Item):
        return isinstance(there, list) and entry.value in there
    if isinstance(entry, Rule):
        return entry.value in (there, reach(document, entry.path[:-1]))
    return [hook for _, _, hook in our_hooks(document, entry.event)] == entry.wanted and well_grouped(
        document, entry
    )


def well_grouped(document: Any, entry: Hooks) -> bool:
    """Whether an event has exactly our hooks, in groups with the right fields."""
    groups = listed_at(reach(document, entry.path))
    says = [group for group in entry.groups for _ in group["hooks"]]
    there = [groups[number] for number, _, _ in our_hooks(document, entry.event)]
    return len(there) == len(says) and all(
        _same(group.get(key), value)
        for group, wanted in zip(there, says, strict=True)
        for key, value in wanted.items()
        if key != "hooks"
    )


def has_some(document: Any, entry: Entry) -> bool:
    """Whether anything of the entry is there."""
    if isinstance(entry, Hooks):
        return bool(our_hooks(document, entry.event))
    if isinstance(entry, Item):
        return has(document, entry)
    return reach(document, entry.path) is not None


def hook_events(document: Any) -> list[str]:
    """Every event that has a list of groups."""
    hooks = reach(document, ("hooks",))
    if not isinstance(hooks, dict):
        return []
    return [key for key, value in cast("dict[str, Any]", hooks).items() if isinstance(value, list)]


def foreign(document: Any, entries: Sequence[Entry]) -> Any:
    """What is not ours: this must be the same before and after. What is empty counts for nothing."""
    values = _copy(document)
    for event in hook_events(values):
        for number, index, _ in reversed(our_hooks(values, event)):
            del values["hooks"][event][number]["hooks"][index]
            if not values["hooks"][event][number]["hooks"]:
                del values["hooks"][event][number]
    for entry in entries:
        holder = reach(values, entry.path[:-1])
        if isinstance(entry, Item):
            listed = reach(values, entry.path)
            while isinstance(listed, list) and entry.value in listed:
                cast("list[Any]", listed).remove(entry.value)
        elif not isinstance(entry, Hooks) and isinstance(holder, dict):
            cast("dict[str, Any]", holder).pop(entry.path[-1], None)
    return _without_empties(values)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in cast("dict[str, Any]", value).items()}
    return [_copy(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value


def _without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _without_empties(part) for key, part in cast("dict[str, Any]", value).items()}
        return {key: part for key, part in parts.items() if part not in ({}, [])}
    if isinstance(value, list):
        return [_without_empties(part) for part in cast("list[Any]", value)]
    return "nan" if value != value else value  # noqa: PLR0124 - only that number differs from itself


# -- the record ----------------------------------------------------------------------------------------


class TargetText(Protocol):
    """A file and what of it is ours; `clients.client.Target` is one."""

    @property
    def path(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def trimmings(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class Part:
    """An entry as the record has it: enough to take it out."""

    kind: str
    """`member`, `item` or `rule`. Hooks are found by what they start."""
    path: tuple[str, ...]
    value: str = ""
    """Of an item or a rule."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One file that tellwire has changed."""

    client: str
    scope: str
    path: str
    existed: bool
    """Whether there was such a file before."""
    backups: tuple[str, ...] = ()
    """Copies of the file as it was before each change; the first one is from before tellwire."""
    mode: int = 0
    """Of the file before, if tellwire made it stricter."""
    before_sha256: str = ""
    """Of the first one, as long as putting it back would undo nobody else's change."""
    written_sha256: str
    """Of the file as tellwire left it: while it is this, nobody else has changed it."""
    entries: tuple[str, ...]
    """Which parts of the file belong to tellwire."""
    made: tuple[tuple[str, ...], ...] = ()
    """Objects and lists that were not there."""
    previous: dict[str, str] = field(default_factory=dict[str, str])
    """What was in the place of an entry before, as text."""
    shapes: dict[str, str] = field(default_factory=dict[str, str])
    """How the file wrote what its format cannot give back by itself; see `FileFormat.shapes`."""
    folders: tuple[str, ...] = ()
    """Folders that were not there; the innermost first."""
    format: str = ""
    """How the file is written; empty in records of versions before."""
    parts: tuple[Part, ...] = ()
    """What is ours in it, besides hooks."""
    trimmings: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the file got because tellwire made it."""


def as_parts(entries: Sequence[Entry]) -> tuple[Part, ...]:
    """Entries for the record."""
    found: list[Part] = []
    for entry in entries:
        if isinstance(entry, MemberEntry):
            found.append(Part(kind="member", path=entry.path))
        elif not isinstance(entry, Hooks):
            kind = "item" if isinstance(entry, Item) else "rule"
            found.append(Part(kind=kind, path=entry.path, value=entry.value))
    return tuple(found)


def as_entries(parts: Sequence[Part]) -> tuple[Entry, ...]:
    """The entries of a record, as far as taking them out needs them."""
    made: list[Entry] = []
    for part in parts:
        if part.kind == "member":
            made.append(MemberEntry(part.path, {}))
        else:
            made.append((Item if part.kind == "item" else Rule)(part.path, part.value))
    return tuple(made)


def digest(data: bytes) -> str:
    """A hash of a file's contents."""
    return hashlib.sha256(data).hexdigest()
