"""A file that is ours as a whole: a plugin. Another's file in its place is left alone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tellwire.integrations.install.endpoint import NAME
from tellwire.integrations.install.entries import Entry, Member
from tellwire.integrations.install.jsonc import BadTextError
from tellwire.integrations.install.records import Record
from tellwire.integrations.install.spec import Programs, Target

ASSETS = Path(__file__).parent.parent / "assets"
OURS = "// tellwire's "
PLACEHOLDER = "__SETTINGS__"
PATH = ("plugin",)


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
            raise BadTextError(text, 0, "this file is not tellwire's")
        return {PATH[0]: {"text": text}}

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """Our text."""
        for entry in entries:
            if isinstance(entry, Member):
                text = entry.value["text"]
        return text

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """Nothing."""
        del text, entries, record, path
        return ""

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """Nothing of another's is in our place."""
        del text, path
        return ""


def plugin_target(path: str, asset: str, programs: Programs) -> Target:
    """A plugin; it finds the broker's port and token where they are kept."""
    home = os.path.dirname(programs.marks)
    settings = {"endpoint": os.path.join(home, NAME), "server": list(programs.server)}
    text = (ASSETS / asset).read_text(encoding="utf-8").replace(PLACEHOLDER, json.dumps(settings))
    return Target(path=path, dialect=WholeText(), entries=(Member(PATH, {"text": text}),))
