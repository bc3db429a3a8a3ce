"""Claims: rules about paths. What a rule covers, and when two of them meet.

All on text: absolute paths, normalised before they come here. Symbolic links, `..`, case and what does not
exist are the business of whoever asks; what is still relative or dotted here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.scopes import ScopeRule

PATH_LENGTH_MAX = 4096


def check_path(path: str) -> str:
    """The path, if it is one that rules can be about.

    Raises:
        TellwireError: `path_invalid`.
    """
    if len(path) > PATH_LENGTH_MAX:
        raise TellwireError("path_invalid", f"A path is longer than {PATH_LENGTH_MAX} characters.")
    if not path.startswith("/"):
        raise TellwireError("path_invalid", f"{shorten(path)} is not an absolute path.")
    parts = path[1:].split("/")
    if path != "/" and any(part in ("", ".", "..") for part in parts):
        raise TellwireError("path_invalid", f"{shorten(path)} is not a normalised path.")
    if "\0" in path:
        raise TellwireError("path_invalid", "A path must not contain a NUL character.")
    return path


def check_rules(rules: list[ScopeRule], rules_max: int) -> None:
    """Every path is one, and there are not too many.

    Raises:
        TellwireError: `path_invalid` or `limit_exceeded`.
    """
    if len(rules) > rules_max:
        raise TellwireError("limit_exceeded", f"More than {rules_max} rules.")
    for rule in rules:
        check_path(rule.path)


def as_rules(rules: Iterable[ScopeRule | str]) -> list[ScopeRule]:
    """Each rule once; a path alone is one to write there and beneath."""
    return list(dict.fromkeys(ScopeRule(rule) if isinstance(rule, str) else rule for rule in rules))


def is_beneath(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, at any depth; not the folder itself."""
    return folder == "/" != path or path.startswith(f"{folder}/")


def is_directly_in(path: str, folder: str) -> bool:
    """Whether a path is an entry of a folder."""
    return path != "/" and (path.rpartition("/")[0] or "/") == folder


def covers_path(rule: ScopeRule, path: str) -> bool:
    """Whether a rule is about a path."""
    if path == rule.path:
        return True
    return is_beneath(path, rule.path) if rule.recursive else is_directly_in(path, rule.path)


def covers(outer: ScopeRule, inner: ScopeRule) -> bool:
    """Whether all that `inner` is about lies within `outer`; what may be written may be read."""
    if inner.access == "write" and outer.access != "write":
        return False
    if outer.recursive:
        return covers_path(outer, inner.path)
    # A rule of one layer holds a rule beneath it only if that one is of one layer, and the same.
    return not inner.recursive and inner.path == outer.path


def overlaps(one: ScopeRule, other: ScopeRule) -> bool:
    """Whether there can be a path that both rules are about.

    True for both depths of both: a rule's paths hang together beneath its own, so one begins in the other.
    """
    return covers_path(one, other.path) or covers_path(other, one.path)


def first_conflict(rule: ScopeRule, others: Iterable[ScopeRule]) -> ScopeRule | None:
    """The first of the rules that cannot be held by another agent at the same time; only writing excludes."""
    if rule.access != "write":
        return None
    return next((other for other in others if other.access == "write" and overlaps(rule, other)), None)
