"""A file that is ours as a whole: a plugin. Another's file in its place is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tellwire.clients.entries import Entry, Member
from tellwire.clients.plugin import PATH
from tellwire.install.jsonc import BadTextError
from tellwire.install.records import Record

OURS = "// tellwire's "


class WholeText:
    """The dialect of such a file: one entry, and it is everything."""

    def load(self, text: str) -> Any:
        """Our text, if it is ours.

        Raises:
            BadTextError: it is not.
        """
        if not text.strip():
            return {}
        if not text.startswith(OURS):
            raise BadTextError(text, 0, "this file was not written by tellwire")
        return {PATH[0]: {"text": text}}

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with our entries: our file, whatever was there."""
        for entry in entries:
            if isinstance(entry, Member):
                text = entry.value["text"]
        return text

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """The text without our file: empty."""
        del text, entries, record, path
        return ""

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """Nothing of another's is in our place."""
        del text, path
        return ""
