"""A scope as a client's own sandbox or rules can hold it: the words for its command line.

Some clients have a sandbox or rules for their own file tools (`Client.hold`); of the others the hooks are
asked instead. What is told as held must hold: if the caller's words may change
it, or the sandbox does not work on this machine, it does not count.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tellwire.clients import BY_KIND
from tellwire.clients.client import Bounds, ChildPlace
from tellwire.protocol.operations.scopes import ScopeRule

HARMLESS = frozenset(
    {
        "--dangerously-bypass-hook-trust",
        "--effort",
        "--json",
        "--model",
        "--no-alt-screen",
        "--output-format",
        "--skip-git-repo-check",
        "--verbose",
        "-m",
        "-n",
        "--name",
    }
)
"""Options of a caller that change nothing about what may be written."""


def bounds_of(place: ChildPlace, rules: Sequence[ScopeRule]) -> Bounds:
    """The words that hold a client to its scope, as far as it can be held; blocks for a moment."""
    roots = _folders(rules)
    if roots is None or not all(word in HARMLESS for word in place.command if word.startswith("-")):
        return Bounds()
    client = BY_KIND.get(place.client)
    return Bounds() if client is None or client.hold is None else client.hold(place, roots)


def _folders(rules: Sequence[ScopeRule]) -> list[str] | None:
    """The folders that may be written; None if it is not about whole folders that are there."""
    writes = [rule for rule in rules if rule.access == "write"]
    whole = all(rule.recursive and rule.path != "/" and os.path.isdir(rule.path) for rule in writes)
    return sorted({rule.path for rule in writes}) if whole else None
