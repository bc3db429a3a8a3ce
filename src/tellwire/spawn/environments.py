"""What a child may inherit: what every program needs, and the keys of its own client only.

No token of another agent, and no other client's key. A key of a name that only the client's own settings tell
is its own as well.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

PLAIN = frozenset(
    {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "NODE_EXTRA_CA_CERTS",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        *(
            name
            for word in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
            for name in (word, word.upper())
        ),
    }
)
KEYS: dict[str, tuple[str, ...]] = {
    "claude-code": (
        "ANTHROPIC_",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_DISABLE_",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    ),
    "codex": ("CODEX_API_KEY", "CODEX_HOME", "OPENAI_"),
    "gemini-cli": ("GEMINI_", "GOOGLE_"),
    "opencode": (
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OPENAI_API_KEY",
        "OPENCODE_CONFIG",
        "OPENCODE_DISABLE_",
    ),
    "pi": ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "PI_"),
}
"""Beginnings of the variables that each client reads: its keys, and where and how it works."""
OWN: dict[str, dict[str, str]] = {
    # It would start itself once more, and then a child's process were not the one that has its terminal.
    "gemini-cli": {"GEMINI_CLI_NO_RELAUNCH": "true"},
}
"""What a client is told as a child."""
CONFIG_BYTES_MAX = 1 << 20
_ENV_WORD = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def environment_of(client: str, parent: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a child inherits of its parent, and what is its own."""
    keys, named = KEYS.get(client, ()), named_keys(client, parent)
    kept = {
        name: value
        for name, value in parent.items()
        if _is_plain(name) or name in named or (keys and name.startswith(keys))
    }
    return {**kept, "TERM": "xterm-256color", **OWN.get(client, {}), **own}


def plain_of(env: Mapping[str, str]) -> dict[str, str]:
    """What every program may have: neither a key nor who a child is."""
    return {name: value for name, value in env.items() if _is_plain(name) or name == "TERM"}


def _is_plain(name: str) -> bool:
    return name in PLAIN or name.startswith("XDG_")


def named_keys(client: str, env: Mapping[str, str]) -> frozenset[str]:
    """The variables that a client's own settings name as the keys of its model."""
    home = Path(env.get("HOME", "/nonexistent"))
    if client == "codex":
        return _codex_keys(read_toml(Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml"))
    if client == "opencode":
        folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        texts = [_read(folder / name) for name in ("opencode.json", "opencode.jsonc")]
        return frozenset(word for text in texts for word in _ENV_WORD.findall(text))
    return frozenset()


def read_toml(path: Path) -> dict[str, Any]:
    """A file of settings; empty if it cannot be read."""
    try:
        return tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _codex_keys(config: Mapping[str, Any]) -> frozenset[str]:
    found: set[str] = set()
    for provider in _table(config.get("model_providers")).values():
        table = _table(provider)
        headers = _table(table.get("env_http_headers"))
        found.update(each for each in (table.get("env_key"), *headers.values()) if isinstance(each, str))
    return frozenset(found)


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            if not os.path.isfile(path):
                return ""
            return file.read(CONFIG_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""
