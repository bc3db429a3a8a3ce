"""Claude Code's own rules for what its tools may edit; they know no exception.

A denied folder cannot be opened again in part, so what is denied must leave the scope out to begin with: the
patterns match all paths that are not beneath the given ones. On each level of the tree every name but the
right ones is matched, letter by letter. Claude Code reads patterns as in a `.gitignore`, but without negated
classes, and takes no notice of case (seen with 2.1.325): so names that differ from the right one in case only
are not matched.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Sequence

from tellwire.clients.client import Bounds, ChildPlace

SETTINGS = "settings.json"
DENY_MAX = 5_000
PLAIN = re.compile(r"(?:/[A-Za-z0-9_.][A-Za-z0-9_. -]*)+")
"""Paths whose names hold nothing that a pattern reads otherwise."""
LETTERS = string.ascii_lowercase + string.digits + "._"
OTHERS = " -,:-@\\[\\\\^`{-~\u0080-\uffff"
"""The other characters of names, as ranges within a class."""
CLOSING = "\\]"
"""Characters that cannot be part of a character class."""


def hold(place: ChildPlace, roots: Sequence[str]) -> Bounds:
    """Rules for its own file tools: they may edit in these folders and nowhere else."""
    if not all(is_plain(path) for path in roots):
        return Bounds()
    deny = complement(roots) if roots else ["/**"]
    if len(deny) > DENY_MAX:
        return Bounds()
    rules = {
        "allow": [f"Edit(/{path}/**)" for path in roots],
        "deny": [f"Edit(/{pattern})" for pattern in deny],
    }
    files = {SETTINGS: json.dumps({"permissions": rules})}
    return Bounds(("--settings", str(place.folder / SETTINGS)), "rules", files)


def is_plain(path: str) -> bool:
    """Whether patterns can be made for a path."""
    return PLAIN.fullmatch(path) is not None


def complement(paths: Sequence[str]) -> list[str]:
    """Patterns that match whatever is neither one of the folders nor beneath one."""
    return list(_level("", [path.strip("/").split("/") for path in paths]))


def _level(above: str, rests: list[list[str]]) -> Iterator[str]:
    if any(not rest for rest in rests):
        return  # this folder is one of them: all beneath it is left out
    names = sorted({rest[0].lower() for rest in rests})
    for pattern in other_names(names):
        yield f"{above}/{pattern}"
    for name in names:
        beneath = [rest for rest in rests if rest[0].lower() == name]
        yield from _level(f"{above}/{beneath[0][0]}", [rest[1:] for rest in beneath])


def other_names(names: Sequence[str]) -> list[str]:
    """Patterns that match every name but these, which are in lower case."""
    found: list[str] = []
    for start in sorted({name[:end] for name in names for end in range(len(name) + 1)}):
        following = {name[len(start)] for name in names if name.startswith(start) and name != start}
        if start and start not in names:
            found.append(start)
        # A space is the start of a range of other characters, and a hyphen is literal only at the end.
        others = OTHERS if " " not in following else OTHERS.replace(" -,", "!-,")
        hyphen = "" if "-" in following else "-"
        letters = "".join(letter for letter in LETTERS if letter not in following)
        found += [f"{start}[{letters}{others}{hyphen}]*", f"{start}{CLOSING}*"]
    return found
