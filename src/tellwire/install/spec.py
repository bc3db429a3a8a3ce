"""How entries get into the text of a configuration file and out of it again, by the file's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tellwire.clients.client import Format, Target
from tellwire.clients.entries import Entry
from tellwire.install.json_file import JsonText
from tellwire.install.records import Record
from tellwire.install.toml_file import TomlText
from tellwire.install.whole_file import WholeText


class Dialect(Protocol):
    """How entries get into a text and out of it."""

    def load(self, text: str) -> Any:
        """What the text means."""
        ...

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with the entries."""
        ...

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """The text without them."""
        ...

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """The text at a path."""
        ...


DIALECTS: dict[Format, Dialect] = {
    "json": JsonText(),
    "json_comments": JsonText(comments=True),
    "jsonc": JsonText(comments=True, commas=True),
    "toml": TomlText(),
    "whole": WholeText(),
}


def dialect_of(target: Target) -> Dialect:
    """How a target's file is written."""
    return DIALECTS[target.format]
