"""What a client's configuration is to have: values only, no text; and where our hooks are in a parsed file.

Our hooks are known by what they start or call, so that they are found again even without a record of them.
Standard library only: the launcher takes our entries out without the rest of tellwire (`install/removal`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from tellwire.protocol.addresses import FORMER, SYSTEM

MARK_HEADERS = (f"X-{SYSTEM.title()}", f"X-{FORMER.title()}")
"""Told our HTTP hooks from another tool's; versions before wrote such ones for Claude Code."""
_COMMAND = re.compile(rf"/({SYSTEM}|{FORMER})/relay/(?:hook\.py|gate\.sh|waiter\.py)(?![\w.])")
PLUGIN_PATH = ("plugin",)
"""Where a plugin's text stands, if its file is read as a document."""
_URL = re.compile(r"http://127\.0\.0\.1:\d+/hooks/[a-z-]+")


@dataclass(frozen=True)
class MemberEntry:
    """An object under our own name. Keys that a person added to it are left alone."""

    path: tuple[str, ...]
    value: dict[str, Any]

    @property
    def label(self) -> str:
        """For people and for the record."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Item:
    """One word in a list that others use too."""

    path: tuple[str, ...]
    value: str

    @property
    def label(self) -> str:
        """For people and for the record."""
        return f"{'.'.join(self.path)}: {self.value}"


@dataclass(frozen=True)
class Rule:
    """One word under a key in an object that others use too. A word in the object's place means all keys."""

    path: tuple[str, ...]
    value: str

    @property
    def label(self) -> str:
        """For people and for the record."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Hooks:
    """The hooks of one event, in a group of their own."""

    event: str
    hooks: tuple[dict[str, Any], ...]
    group: dict[str, Any] = field(default_factory=dict[str, Any])
    """The other fields of the group."""
    more: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    """Further groups of one hook each: what the group says, and the hook."""

    @property
    def groups(self) -> list[dict[str, Any]]:
        """All groups as a file should have them."""
        first = {**self.group, "hooks": list(self.hooks)}
        return [first, *({**group, "hooks": [hook]} for group, hook in self.more)]

    @property
    def wanted(self) -> list[dict[str, Any]]:
        """All hooks of the event, in order."""
        return [*self.hooks, *(hook for _, hook in self.more)]

    @property
    def path(self) -> tuple[str, ...]:
        """Where the groups of the event are."""
        return ("hooks", self.event)

    @property
    def label(self) -> str:
        """For people and for the record."""
        return f"hooks.{self.event}"


Entry: TypeAlias = MemberEntry | Item | Rule | Hooks


def our_hooks(document: Any, event: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Our hooks of an event, with the numbers of their group and within it."""
    return [
        (number, index, hook)
        for number, group in enumerate(listed_at(reach(document, ("hooks", event))))
        for index, hook in enumerate(listed_at(reach(group, ("hooks",))))
        if is_our_hook(hook)
    ]


def is_our_hook(hook: Any) -> bool:
    """Whether it starts a program of ours, or calls our broker, under whichever name."""
    return name_in_hook(hook) is not None


def name_in_hook(hook: Any) -> str | None:
    """The name under which a hook of ours was written; None if it is another's."""
    if not isinstance(hook, dict):
        return None
    facts = cast("dict[str, Any]", hook)
    command, url, headers = facts.get("command"), facts.get("url"), facts.get("headers")
    if isinstance(command, str):
        found = _COMMAND.search(command)
        return None if found is None else found[1]
    if not isinstance(headers, dict) or not isinstance(url, str) or _URL.fullmatch(url) is None:
        return None
    return next((mark[2:].lower() for mark in MARK_HEADERS if mark in headers), None)


def reach(document: Any, path: Sequence[str]) -> Any:
    """The value at a path; None if there is none."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = cast("dict[str, Any]", document).get(key)
    return document


def listed_at(value: Any) -> list[Any]:
    """The list at a path; empty if there is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []
