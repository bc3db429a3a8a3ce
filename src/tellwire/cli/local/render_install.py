"""What people see of an installation before it is done: files, what changes in each, downloads. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tellwire.cli.render import counted
from tellwire.cli.screen import Screen
from tellwire.install.diffs import shorten
from tellwire.install.plan import Change
from tellwire.views.words import clean, wrap

DIFF_STYLES = {"+": "green", "-": "red", "@": "dim"}
HOOKS = "hooks."
VERBS = {"create": "create", "edit": "edit", "remove": "delete", "none": "keep"}
BACKUPS = "A copy of each edited file is kept beside it until you uninstall."


class Fetch(NamedTuple):
    """Something that is downloaded, or removed with what was."""

    what: str
    size_mb: int
    where: str


class Item(NamedTuple):
    """One client's part of a summary."""

    client: str
    version: str
    changes: Sequence[Change]
    fetches: Sequence[Fetch] = ()
    leftovers: Sequence[str] = ()
    """What was downloaded, and goes."""
    left_mb: int = 0
    notes: Sequence[str] = ()


def change_kind(change: Change) -> str:
    """What becomes of a file: `create`, `edit`, `remove` or `none`."""
    if change.seen.data == change.after:
        return "none"
    if change.seen.data is None:
        return "create"
    return "remove" if change.after is None else "edit"


def render_summary(items: Sequence[Item], *, home: str, screen: Screen) -> str:
    """Client by client: each file with what is done to it, and what is fetched besides."""
    lines: list[str] = []
    for item in items:
        head = screen.paint(item.client, "bold")
        lines.append(f"{head} {clean(item.version)}".rstrip())
        for change in item.changes:
            words = f"{VERBS[change_kind(change)]:<7} {shorten(change.path, home)}"
            lines += _wrapped(f"{words}{_details(change)}", screen)
        for fetch in item.fetches:
            where = shorten(fetch.where, home)
            lines += _wrapped(f"fetch   {fetch.what}: about {fetch.size_mb} MB into {where}", screen)
        for path in item.leftovers:
            lines += _wrapped(f"delete  {shorten(path, home)}, which was downloaded for it", screen)
        if item.left_mb:
            lines += _wrapped(f"        this frees about {item.left_mb} MB", screen)
        lines += [line for note in item.notes for line in _wrapped(note, screen)]
    if any(change_kind(change) == "edit" and change.new for item in items for change in item.changes):
        lines += wrap([BACKUPS], indent="", width=screen.width)
    return "".join(f"{line}\n" for line in lines)


def _wrapped(text: str, screen: Screen) -> list[str]:
    return wrap([clean(text)], indent="  ", width=screen.width)


def _details(change: Change) -> str:
    """What is put in, in the words of the file itself."""
    if change.new is None:
        return ": tellwire's entries are removed" if change_kind(change) == "edit" else ""
    hooks = sum(label.startswith(HOOKS) for label in change.labels)
    words = [label for label in change.labels if not label.startswith(HOOKS)]
    words += [counted(hooks, "hook")] if hooks else []
    return f": {', '.join(words)}" if words else ""


def render_diffs(diffs: Sequence[str], screen: Screen) -> str:
    """Diffs one after another, in colour if there is."""
    lines: list[str] = []
    for line in (line for diff in diffs for line in diff.splitlines()):
        style = DIFF_STYLES.get(line[:1], "")
        lines.append(screen.paint(clean(line), style) if style else clean(line))
    return "".join(f"{line}\n" for line in lines)


def render_sizes(count: int) -> str:
    """How many files a question is about."""
    return "this file" if count == 1 else f"these {count} files"
