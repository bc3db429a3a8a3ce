"""How entries get into the text of a configuration file and out of it again, by the file's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tellwire.clients.entries import PLUGIN_PATH, Entry, MemberEntry
from tellwire.install.entries import Record, TargetText
from tellwire.install.formats.json_file import JsonText
from tellwire.install.formats.jsonc import BadTextError
from tellwire.install.formats.toml_file import TomlText

OURS = "// tellwire's "


class FileFormat(Protocol):
    """How entries get into a text and out of it."""

    def load(self, text: str) -> Any:
        """Parse the text."""
        ...

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """Put the entries into the text."""
        ...

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """Take the entries out of the text."""
        ...

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """The source text of the value at a path."""
        ...

    def shapes(self, text: str, paths: Sequence[tuple[str, ...]]) -> dict[str, str]:
        """What taking entries out again could not restore: it is kept in the record, for `strip`."""
        ...


class WholeText:
    """A file that is ours as a whole, such as a plugin. Another's file in its place is left alone."""

    def load(self, text: str) -> Any:
        """Our text, if it is ours.

        Raises:
            BadTextError: it is not.
        """
        if not text.strip():
            return {}
        if not text.startswith(OURS):
            raise BadTextError(text, 0, "this file was not written by tellwire")
        return {PLUGIN_PATH[0]: {"text": text}}

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with our entries: our file, whatever was there."""
        for entry in entries:
            if isinstance(entry, MemberEntry):
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

    def shapes(self, text: str, paths: Sequence[tuple[str, ...]]) -> dict[str, str]:
        """The file is ours as a whole."""
        del text, paths
        return {}


FORMATS: dict[str, FileFormat] = {
    "json": JsonText(),
    "json_comments": JsonText(comments=True),
    "jsonc": JsonText(comments=True, commas=True),
    "toml": TomlText(),
    "whole": WholeText(),
}


def format_of(target: TargetText) -> FileFormat:
    """The format of a target's file."""
    return FORMATS[target.format]
