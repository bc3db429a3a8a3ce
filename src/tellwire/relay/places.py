"""Which files on disk a tool call would write: all that its client may take a path for, with links resolved.

What cannot be resolved for sure raises `UnclearError`: the caller refuses the write. Standard library only.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time

from tellwire.paths import FOLDS_CASE, as_on_disk

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

LINKS_MAX = 40
"""As the kernel has it."""
PATH_LENGTH_MAX = 4_096
SPELLINGS_MAX = 32
MAGIC = "/proc"
"""What is here means something else to each process."""
_UNICODE_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BLANK = "\ufeff"
"""JavaScript takes it for white space, Python does not."""


class UnclearError(ValueError):
    """It cannot be determined which file a path means."""


class WrittenFile:
    """A file that a call would write, and its other names (hard links) as far as they were found."""

    __slots__ = ("complete", "names", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.names: list[str] = []
        self.complete = True
        """No further name of it is missing."""


def look(
    writes: Mapping[str, Any],
    paths: list[str],
    *,
    tool: str,
    cwd: str,
    rules: Iterable[tuple[str, bool]],
    within_s: float,
) -> list[WrittenFile]:
    """What the paths are on disk, each once; names of the same file are searched for where `rules` are about.

    A rule is a path, and whether all beneath it counts.

    Raises:
        UnclearError: a path cannot be resolved, or the search takes too long.
    """
    until = time.monotonic() + within_s
    places = [WrittenFile(path) for path in targets(writes, paths, tool=tool, cwd=cwd)]
    linked: dict[tuple[int, int], list[WrittenFile]] = {}
    counts: dict[tuple[int, int], int] = {}
    for place in places:
        try:
            found = os.lstat(place.path)
        except OSError:
            continue  # it does not exist yet
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            linked.setdefault((found.st_dev, found.st_ino), []).append(place)
            counts[found.st_dev, found.st_ino] = found.st_nlink
    if linked:
        names = _names(linked, rules, until)
        for file, same in linked.items():
            for place in same:
                place.names = sorted(names[file] - {place.path})
                place.complete = len(names[file] | {place.path}) >= counts[file]
    return places


def targets(writes: Mapping[str, Any], paths: list[str], *, tool: str, cwd: str) -> list[str]:
    """The paths with links resolved, each once, seen from a folder; where a path has several meanings, all.

    Most clients take `..` out of a path before they use it; others leave it to the kernel, which follows a
    link first.

    Raises:
        UnclearError: a path cannot be resolved.
    """
    found: dict[str, None] = {}
    links: dict[str, str] = {}
    for path in paths:
        spelled = [os.path.join(cwd, os.path.expanduser(each)) for each in spellings(writes, path)]
        if not path or not all(whole.startswith("/") for whole in spelled):
            raise UnclearError(path)
        if (
            tool in writes.get("searches", ())
            and not path.startswith("/")
            and not any(map(os.path.lexists, [*spelled, *map(os.path.normpath, spelled)]))
        ):
            raise UnclearError(path)
        if writes.get("decodes"):
            spelled += [_unquoted(whole) for whole in spelled]
        for whole in dict.fromkeys(spelled):
            found[resolve(whole, links)] = found[resolve(os.path.normpath(whole), links)] = None
    return list(found)


def spellings(writes: Mapping[str, Any], path: str) -> list[str]:
    """The path, and what its client may take it for: without blanks around it, without `@`, out of a URL."""
    found = [path]
    for each in found:
        more = [each.strip().strip(_BLANK).strip()]
        if each.startswith("~"):
            more.append(f"./{each}")
        if each.startswith("file://"):
            more += [each[7:], _unquoted(each[7:]), _unquoted("/" + each[7:].partition("/")[2])]
        if each.startswith("@") and writes.get("drops_at"):
            more += [each[1:], each[1:].lstrip("/")] if writes.get("drops_slashes") else [each[1:]]
        if writes.get("plain_spaces"):
            more.append(_UNICODE_SPACES.sub(" ", each))
        found += [new for new in dict.fromkeys(more) if new and new not in found]
        if len(found) > SPELLINGS_MAX:
            raise UnclearError(path)
    return found


def resolve(path: str, known: dict[str, str]) -> str:
    """An absolute path with its symbolic links followed; what does not exist yet is left as it is.

    `known` is from places that were looked at to what they link to, empty if they are no links.

    Raises:
        UnclearError: it leads through `/proc`, in a circle, or where we may not look.
    """
    if "\0" in path or len(path) > PATH_LENGTH_MAX:
        raise UnclearError(path)
    done, links = "", 0
    todo = path.split("/")[::-1]
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        if done == MAGIC:
            raise UnclearError(path)
        place = f"{done}/{name}"
        link = known.get(place)
        if link is None:
            link = known[place] = _link(place)
        if not link:
            done = place
            continue
        links += 1
        if links > LINKS_MAX:
            raise UnclearError(path)
        if link.startswith("/"):
            done = ""
        todo += link.split("/")[::-1]
    if len(done) > PATH_LENGTH_MAX:
        raise UnclearError(path)
    return (as_on_disk(done) if FOLDS_CASE else done) or "/"


def _link(place: str) -> str:
    """What a symbolic link says; empty if it is none, or does not exist."""
    try:
        return os.readlink(place)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        if getattr(error, "errno", 0) == errno.EINVAL:  # it is no link
            return ""
        raise UnclearError(place) from error


def _unquoted(path: str) -> str:
    """With `%20` and the like decoded."""
    if "%" not in path:
        return path
    from urllib.parse import unquote  # noqa: PLC0415 - hardly ever needed

    return unquote(path)


# -- hard links ---------------------------------------------------------------------------------------


def _names(
    files: Iterable[tuple[int, int]], rules: Iterable[tuple[str, bool]], until: float
) -> dict[tuple[int, int], set[str]]:
    """All names of some files among what the rules are about."""
    found: dict[tuple[int, int], set[str]] = {file: set() for file in files}
    for path in _entries(rules):
        if time.monotonic() > until:
            raise UnclearError(path)
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if (facts.st_dev, facts.st_ino) in found:
            found[facts.st_dev, facts.st_ino].add(path)
    return found


def _entries(rules: Iterable[tuple[str, bool]]) -> Iterator[str]:
    """Every path that exists and that a rule is about."""
    seen: set[str] = set()
    # Of two rules about one folder first the one that goes deeper.
    for path, recursive in sorted(set(rules), key=lambda rule: (rule[0], not rule[1])):
        yield path
        todo = [path]
        while todo:
            folder = todo.pop()
            if folder in seen:
                continue
            try:
                entries = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise UnclearError(folder) from error
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo += [entry.path] if recursive else []
                else:
                    yield entry.path
            if recursive:
                seen.add(folder)
