"""What tellwire has written into one file, and how to take it out. Standard library only: see `removal`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tellwire.clients.entries import Entry, Hooks, Item, MemberEntry, Rule


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
    """What stood in the place of an entry, as text."""
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
