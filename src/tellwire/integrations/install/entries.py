"""What tellwire wants in a configuration file, and what of it a parsed file has. Values only, no text.

Our hooks are known by what they start or call, so that they are found again even without a record of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

MARK_HEADER = "X-Tellwire"
"""Told our HTTP hooks from another tool's; versions before wrote such ones for Claude Code."""
_COMMAND = re.compile(r"/tellwire/relay/(?:hook\.py|gate\.sh|waiter\.py)(?![\w.])")
_URL = re.compile(r"http://127\.0\.0\.1:\d+/hooks/[a-z-]+")


class Member(msgspec.Struct, frozen=True):
    """An object under our own name. Keys that a person added to it are left alone."""

    path: tuple[str, ...]
    value: dict[str, Any]

    @property
    def label(self) -> str:
        """For people and for the record."""
        return ".".join(self.path)


class Item(msgspec.Struct, frozen=True):
    """One word in a list that others use too."""

    path: tuple[str, ...]
    value: str

    @property
    def label(self) -> str:
        """For people and for the record."""
        return f"{'.'.join(self.path)}: {self.value}"


class Rule(msgspec.Struct, frozen=True):
    """One word under a key in an object that others use too. A word in the object's place means all keys."""

    path: tuple[str, ...]
    value: str

    @property
    def label(self) -> str:
        """For people and for the record."""
        return ".".join(self.path)


class Hooks(msgspec.Struct, frozen=True):
    """The hooks of one event, in a group of their own."""

    event: str
    hooks: tuple[dict[str, Any], ...]
    group: dict[str, Any] = {}
    """What the group says beside them."""
    more: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    """Further groups of one hook each: what the group says, and the hook."""

    @property
    def groups(self) -> list[dict[str, Any]]:
        """All groups as they are to stand in a file."""
        first = {**self.group, "hooks": list(self.hooks)}
        return [first, *({**group, "hooks": [hook]} for group, hook in self.more)]

    @property
    def wanted(self) -> list[dict[str, Any]]:
        """All hooks, in order."""
        return [*self.hooks, *(hook for _, hook in self.more)]

    @property
    def path(self) -> tuple[str, ...]:
        """Where the groups of the event are."""
        return ("hooks", self.event)

    @property
    def label(self) -> str:
        """For people and for the record."""
        return f"hooks.{self.event}"


Entry: TypeAlias = Member | Item | Rule | Hooks


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
    if isinstance(entry, Member):
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
    """Whether our hooks of an event are so many as they should be, in groups that say what they should."""
    groups = _list(reach(document, entry.path))
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


def our_hooks(document: Any, event: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Our hooks of an event, with the numbers of their group and within it."""
    return [
        (number, index, hook)
        for number, group in enumerate(_list(reach(document, ("hooks", event))))
        for index, hook in enumerate(_list(reach(group, ("hooks",))))
        if is_our_hook(hook)
    ]


def hook_events(document: Any) -> list[str]:
    """Every event that has a list of groups."""
    hooks = reach(document, ("hooks",))
    if not isinstance(hooks, dict):
        return []
    return [key for key, value in cast("dict[str, Any]", hooks).items() if isinstance(value, list)]


def is_our_hook(hook: Any) -> bool:
    """Whether it starts a program of ours, or calls our broker."""
    if not isinstance(hook, dict):
        return False
    facts = cast("dict[str, Any]", hook)
    command, url, headers = facts.get("command"), facts.get("url"), facts.get("headers")
    if isinstance(command, str):
        return _COMMAND.search(command) is not None
    ours = isinstance(headers, dict) and MARK_HEADER in headers
    return ours and isinstance(url, str) and _URL.fullmatch(url) is not None


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


def reach(document: Any, path: Sequence[str]) -> Any:
    """The value at a path; None if there is none."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = cast("dict[str, Any]", document).get(key)
    return document


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


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
