"""Maps that forget their oldest entries beyond a bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dict of at most `most` entries. An assignment keeps a key's place, as in any dict; see `renew`."""

    # Not a plain dict: that has to look past all places it has emptied to find its first entry, and its
    # `setdefault` and `update` would pass our bound by.

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            self.popitem(last=False)

    def renew(self, key: K, value: V) -> None:
        """Put it in as the newest, also if it is there."""
        self[key] = value
        self.move_to_end(key)


def forget_oldest(entries: dict[Any, Any], most: int) -> None:
    """Keep the newest `most` entries of a plain dict."""
    while len(entries) > most:
        del entries[next(iter(entries))]
