"""Near names for a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], count_max: int = 3) -> list[str]:
    """The known words most like `word`, best first; empty if none is near."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower()[:64], by_lower, n=count_max, cutoff=0.6)
    return [by_lower[name] for name in close]
