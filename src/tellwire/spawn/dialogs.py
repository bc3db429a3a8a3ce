"""What agent CLIs ask their human before they begin, as their windows show it; nothing is answered here.

Seen with Claude Code 2.1.325, Codex 0.166.0 and Gemini CLI 0.61.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATE_BYTES_MAX = 64 << 20
FOLDER = "whether the folder is trusted"
HOOKS = "whether its hooks are trusted"
SET_UP = "how it is to be set up"
DIALOGS: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "claude-code": (
        (FOLDER, re.compile(r"Yes, I trust this folder")),
        (
            SET_UP,
            re.compile(
                r"Choose the text style|Select login method|Do you want to use this API key|Let's get started"
            ),
        ),
    ),
    "codex": (
        (FOLDER, re.compile(r"Trust this folder\?")),
        (HOOKS, re.compile(r"Hooks need review")),
        (SET_UP, re.compile(r"Sign in with ChatGPT")),
    ),
    "gemini-cli": (
        (FOLDER, re.compile(r"Do you trust the files in this folder")),
        (SET_UP, re.compile(r"How would you like to authenticate")),
    ),
}
"""By kind of client: what is asked, in our words, and how it is known in the client's."""


def find_dialog(kind: str, screen: str) -> str | None:
    """What a client's window asks; None if it asks nothing that is known."""
    return next((what for what, words in DIALOGS.get(kind, ()) if words.search(screen)), None)


def is_distrusted(kind: str, cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a client without a window would begin, unasked, in a folder that its human never trusted.

    Claude Code asks only in a window; without one it takes every folder, and what that tells it to run.
    """
    if kind != "claude-code":
        return False
    home = Path(env.get("CLAUDE_CONFIG_DIR") or env.get("HOME", "/nonexistent"))
    try:
        with open(home / ".claude.json", "rb") as file:
            known: Any = json.loads(file.read(STATE_BYTES_MAX)).get("projects", {})
        folders = [cwd, *map(str, Path(cwd).parents)]
        return not any(known[each].get("hasTrustDialogAccepted") for each in folders if each in known)
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return True
