"""Putting entries into a TOML text, and taking them out again. Tables of ours have headers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tellwire.clients.codex.trust import event_word, trust_keys
from tellwire.clients.entries import Entry, Hooks, MemberEntry, is_our_hook, our_hooks, reach
from tellwire.install.entries import Record, has, hook_events, well_grouped
from tellwire.install.formats import toml_text
from tellwire.install.formats.jsonc import BadTextError
from tellwire.install.formats.toml_text import Section

LAST = "last line"


class TomlText:
    """The TOML dialect of a configuration file; it has members and hooks only."""

    def load(self, text: str) -> Any:
        """What the text means.

        Raises:
            BadTextError: it is not TOML.
        """
        return toml_text.load(text)

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with the entries in it.

        Raises:
            BadTextError: a table that they belong to is written inline.
        """
        for entry in entries:
            document = self.load(text)
            if has(document, entry):
                continue
            put = _put_member(text, document, entry) if isinstance(entry, MemberEntry) else text
            put = _put_hooks(text, document, entry) if isinstance(entry, Hooks) else put
            try:
                self.load(put)
            except BadTextError as error:
                raise _inline(text, entry.label) from error
            text = put
        return text

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """The text without anything of ours, and without the trust that Codex noted for our hooks."""
        for event in hook_events(self.load(text)):
            text = _strip_hooks(text, event, path)
        for entry in entries:
            if not isinstance(entry, MemberEntry):
                continue
            ours = _within(text, entry.path)
            if not ours and reach(self.load(text), entry.path) is not None:
                raise _inline(text, entry.label)
            before = "" if record is None else record.previous.get(entry.label, "")
            for number, section in reversed(list(enumerate(ours))):
                if before and not number:
                    text = text[: section.start] + before + text[section.end :]
                else:
                    text = toml_text.cut(text, section)
        last = "" if record is None else record.shapes.get(LAST, "")
        body = text.rstrip("\r\n")
        return body if last and body.rpartition("\n")[2] == last else text

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """The text of the tables at a path; empty if there are none."""
        return "".join(text[section.start : section.end] for section in _within(text, path))

    def shapes(self, text: str, paths: Sequence[tuple[str, ...]]) -> dict[str, str]:
        """The last line of a text that does not end with a line end."""
        del paths
        return {LAST: text.rpartition("\n")[2]} if text and not text.endswith("\n") else {}


def _put_member(text: str, document: Any, entry: MemberEntry) -> str:
    if reach(document, entry.path) is None:
        return toml_text.append(text, [(entry.path, False, entry.value)])
    for key, value in entry.value.items():
        section = next((each for each in _within(text, entry.path) if each.path == entry.path), None)
        if section is None:
            raise _inline(text, entry.label)
        if reach(document, (*entry.path, key)) != value:
            text = toml_text.put(text, section, key=key, value=value)
    return text


def _put_hooks(text: str, document: Any, entry: Hooks) -> str:
    ours = _our_sections(text, entry.event)
    if len(ours) != len(our_hooks(document, entry.event)):
        raise _inline(text, entry.label)
    if well_grouped(document, entry):
        for (section, there), wanted in reversed(list(zip(ours, entry.wanted, strict=True))):
            text = _put_hook(text, section, there=there, wanted=wanted)
        return text
    text = _cut_hooks(text, entry.event)
    tables: list[tuple[tuple[str, ...], bool, dict[str, Any]]] = []
    for group in entry.groups:
        tables.append((entry.path, True, {key: value for key, value in group.items() if key != "hooks"}))
        tables += [((*entry.path, "hooks"), True, hook) for hook in group["hooks"]]
    return toml_text.append(text, tables)


def _put_hook(text: str, section: Section, *, there: dict[str, Any], wanted: dict[str, Any]) -> str:
    start = section.start
    for key, value in wanted.items():
        if there.get(key) != value:
            section = next(each for each in toml_text.sections(text) if each.start == start)
            text = toml_text.put(text, section, key=key, value=value)
    for key in there.keys() - wanted.keys():
        section = next(each for each in toml_text.sections(text) if each.start == start)
        for statement in section.statements:
            if statement.key == key:
                text = text[: statement.start] + text[statement.end :]
                break
    return text


def _strip_hooks(text: str, event: str, path: str) -> str:
    ours = our_hooks(toml_text.load(text), event)
    if len(ours) != len(_our_sections(text, event)):
        raise _inline(text, f"hooks.{event}")
    keys = {key for number, index, _ in ours for key in trust_keys(path, event, number, index)}
    text = _cut_hooks(text, event)
    for section in reversed(toml_text.sections(text)):
        if section.path[:2] == ("hooks", "state") and section.path[2:3] and section.path[2] in keys:
            text = toml_text.cut(text, section)
    for section in reversed(toml_text.sections(text)):
        if keys and section.path == ("hooks", "state") and len(_within(text, section.path)) == 1:
            text = text if section.statements else toml_text.cut(text, section)
    return text


def _cut_hooks(text: str, event: str) -> str:
    """Remove our hooks of an event, and groups that have nothing else."""
    while ours := _our_sections(text, event):
        text = toml_text.cut(text, ours[-1][0])
        group = _emptied_group(text, event, ours[-1][0].start)
        text = text if group is None else toml_text.cut(text, group)
    return text


def _emptied_group(text: str, event: str, at: int) -> Section | None:
    """The group before a place, if no hook follows in it."""
    parts = [each for each in _hook_sections(text) if each.path[1] == event]
    before = [each for each in parts if each.start < at]
    if not before or before[-1].path != ("hooks", event) or _holds_hooks(before[-1]):
        return None
    following = parts[len(before) : len(before) + 1]
    return None if following and following[0].path[2:3] == ("hooks",) else before[-1]


def _holds_hooks(group: Section) -> bool:
    return any(statement.key == "hooks" for statement in group.statements)


def _our_sections(text: str, event: str) -> list[tuple[Section, dict[str, Any]]]:
    found: list[tuple[Section, dict[str, Any]]] = []
    for section in _hook_sections(text):
        if section.path == ("hooks", event, "hooks"):
            words = text[section.start : section.end]
            hook = toml_text.load(words)["hooks"][event]["hooks"][0]
            if is_our_hook(hook):
                found.append((section, hook))
    return found


def _hook_sections(text: str) -> list[Section]:
    return [
        each
        for each in toml_text.sections(text)
        if each.path[:1] == ("hooks",) and len(each.path) > 1 and event_word(each.path[1]) != "state"
    ]


def _within(text: str, path: tuple[str, ...]) -> list[Section]:
    return [each for each in toml_text.sections(text) if each.path[: len(path)] == path]


def _inline(text: str, label: str) -> BadTextError:
    at = max(text.find(label.partition(".")[0]), 0)
    return BadTextError(text, at, f"{label} is not written as a table with its own header")
