"""Putting entries into a JSON text, and taking them out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tellwire.clients.entries import Entry, Hooks, Item, MemberEntry, Rule, our_hooks, reach
from tellwire.install.entries import Record, has, hook_events, well_grouped
from tellwire.install.formats import jsonc

EMPTY = "{}\n"
SEPARATOR = "\n"
"""Between the keys of a path in a record."""


class JsonText:
    """The JSON dialect of a configuration file, as strict as the client that reads it."""

    def __init__(self, *, comments: bool = False, commas: bool = False) -> None:
        self._comments = comments
        self._commas = commas

    def load(self, text: str) -> Any:
        """What the text means; a blank one means nothing yet.

        Raises:
            BadTextError: it is not JSON.
        """
        if not _is_something(text):
            return {}
        return jsonc.parse(text, comments=self._comments, commas=self._commas).value

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with the entries in it.

        Raises:
            BadTextError: something else is in the place of an object or list.
        """
        text = text if _is_something(text) else EMPTY
        for entry in entries:
            if not has(self.load(text), entry):
                text = _put(text, self.load(text), entry)
        return text

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """The text without anything of ours; containers that this leaves empty go too, if they are ours."""
        del path
        if not _is_something(text):
            return text
        for event in hook_events(self.load(text)):
            text = _strip_hooks(text, event, record)
        for entry in entries:
            document = self.load(text)
            if isinstance(entry, Item):
                if has(document, entry) and (record is None or entry.label in record.entries):
                    listed = cast("list[Any]", reach(document, entry.path))
                    text = jsonc.remove(text, (*entry.path, listed.index(entry.value)))
                    text = _prune(text, entry.path, record)
            elif not isinstance(entry, Hooks):
                text = _strip_member(text, entry, record)
        return _reshape(text, {} if record is None else record.shapes)

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """The text of the value at a path; empty if there is none."""
        if not _is_something(text) or reach(self.load(text), path) is None:
            return ""
        return jsonc.source_at(text, path)

    def shapes(self, text: str, paths: Sequence[tuple[str, ...]]) -> dict[str, str]:
        """How empty objects and lists are written, by their path."""
        if not _is_something(text):
            return {}
        return {
            SEPARATOR.join(map(str, path)): words for path, words in jsonc.empties(text, ((), *paths)).items()
        }


def _put(text: str, document: Any, entry: Entry) -> str:
    if isinstance(entry, Item):
        return jsonc.insert(text, (*entry.path, 0), entry.value)
    if isinstance(entry, Rule):
        whole = reach(document, entry.path[:-1])
        if isinstance(whole, str):
            return jsonc.replace(text, entry.path[:-1], {"*": whole, entry.path[-1]: entry.value})
        return _set(text, document, path=entry.path, value=entry.value)
    if isinstance(entry, MemberEntry):
        there = reach(document, entry.path)
        if not isinstance(there, dict):
            return _set(text, document, path=entry.path, value=entry.value)
        for key, value in entry.value.items():
            if cast("dict[str, Any]", there).get(key) != value:
                text = _set(text, document, path=(*entry.path, key), value=value)
        return text
    return _put_hooks(text, document, entry)


def _set(text: str, document: Any, *, path: tuple[str, ...], value: Any) -> str:
    holder = reach(document, path[:-1])
    if isinstance(holder, dict) and path[-1] in holder:
        return jsonc.replace(text, path, value)
    return jsonc.insert(text, path, value)


def _put_hooks(text: str, document: Any, entry: Hooks) -> str:
    ours = our_hooks(document, entry.event)
    if well_grouped(document, entry):
        for (number, index, there), wanted in zip(ours, entry.wanted, strict=True):
            if there != wanted:
                text = jsonc.replace(text, (*entry.path, number, "hooks", index), wanted)
        return text
    for number, index, _ in reversed(ours):
        text = _take_hook(text, entry.event, number=number, index=index)
    for group in entry.groups:
        text = jsonc.insert(text, (*entry.path, 0), group)
    return text


def _take_hook(text: str, event: str, *, number: int, index: int) -> str:
    """Remove a hook, and its group if nothing else is in it."""
    text = jsonc.remove(text, ("hooks", event, number, "hooks", index))
    left = jsonc.find(text, jsonc.parse(text), ("hooks", event, number, "hooks"))
    return text if left is None or left.parts else jsonc.remove(text, ("hooks", event, number))


def _strip_hooks(text: str, event: str, record: Record | None) -> str:
    ours = our_hooks(jsonc.parse(text).value, event)
    for number, index, _ in reversed(ours):
        text = _take_hook(text, event, number=number, index=index)
    return _prune(text, ("hooks", event), record) if ours else text


def _strip_member(text: str, entry: MemberEntry | Rule, record: Record | None) -> str:
    before = {} if record is None else record.previous
    holder = ".".join(entry.path[:-1])
    document = jsonc.parse(text).value
    if isinstance(entry, Rule) and holder in before:
        rules = reach(document, entry.path[:-1])
        rest = cast("dict[str, Any]", rules) if isinstance(rules, dict) else {}
        if set(rest) <= {"*", entry.path[-1]} and entry.path[-1] in rest:
            return jsonc.put_back(text, entry.path[:-1], before[holder])
    if reach(document, entry.path) is None:
        return text
    if entry.label in before:
        return jsonc.put_back(text, entry.path, before[entry.label])
    return _prune(jsonc.remove(text, entry.path), entry.path[:-1], record)


def _prune(text: str, path: tuple[str, ...], record: Record | None) -> str:
    """Remove a container that is empty now, and those around it; not one that was there before us."""
    while path:
        node = jsonc.find(text, jsonc.parse(text), path)
        if node is None or node.parts or not (node.is_object or node.is_list):
            break
        if record is not None and path not in record.made:
            break
        text = jsonc.remove(text, path)
        path = path[:-1]
    return text


def _reshape(text: str, shapes: dict[str, str]) -> str:
    """Write what is empty again as it was; not if somebody has put a comment into it meanwhile."""
    for words, source in shapes.items():
        path = tuple(words.split(SEPARATOR)) if words else ()
        there = jsonc.empties(text, [path]).get(path)
        if there is not None and there != source and _squeezed(there) == _squeezed(source):
            text = jsonc.put_back(text, path, source)
    return text


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _is_something(text: str) -> bool:
    return bool(text.strip(" \t\r\n"))
