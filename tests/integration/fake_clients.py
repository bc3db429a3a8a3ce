"""A `claude` on the path that does as it is told: for tests of children that have hooks and tools."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.world import ROOT


def ended(text: str) -> dict[str, Any]:
    """A turn that ends with these words."""
    return {"fields": {"last_assistant_message": text}}


def errored() -> dict[str, Any]:
    """A turn whose model fails."""
    return {"event": "StopFailure", "fields": {"error": "unknown"}}


def exits(code: int, says: str = "") -> dict[str, Any]:
    """The program ends in the middle of its turn."""
    return {"code": code, "says": says}


class FakeClient:
    """Where it is, and what its runs do."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        program = folder / "claude"
        words = f'cd "{ROOT}" && exec "{sys.executable}" -m tests.integration.fake_claude "{folder}" "$@"'
        program.write_text(f"#!/bin/sh\n{words}\n", "utf-8")
        program.chmod(0o700)
        trusted = {"projects": {"/": {"hasTrustDialogAccepted": True}}}
        (folder / ".claude.json").write_text(json.dumps(trusted), "utf-8")
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def does(self, *acts: dict[str, Any]) -> None:
        """What the next run does, turn after turn."""
        (self._folder / "acts.json").write_text(json.dumps(acts), "utf-8")
