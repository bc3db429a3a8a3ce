"""OpenCode: sessions of one process, sub-agents in sessions of their own. Seen with 1.18.33.

Mail goes into a tool's result, or into the session as a message: when the model's text is whole, which keeps
the turn going, and when it is idle, which begins one. Only a plugin of its screen learns which session its
human sees (`screen.js`): a session that was left with `/new` is not woken. Not covered: a terminal in which
nothing was said yet has no session to wake; without a screen of its own (`attach`, the web), the session that
spoke last gets the mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tellwire.clients.client import (
    Break,
    Client,
    Download,
    EnvRules,
    LaunchWords,
    McpTraits,
    ScreenTraits,
    Writes,
    prompt,
)
from tellwire.clients.events import Said, Who
from tellwire.clients.opencode.install import KIND, NAMES, downloaded, package, session, targets
from tellwire.clients.payloads import read_settings
from tellwire.clients.plugin import EVENT, REFUSAL, PluginHooks, PluginTranscript
from tellwire.clients.ports import by_plugin
from tellwire.clients.reader import listed, mapping, string
from tellwire.clients.said import call_line, told

CHARS_MAX = 30_000
"""200 kB came whole; more than this at once is too much for a turn."""
_ENV_WORD = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def named_keys(env: Mapping[str, str]) -> frozenset[str]:
    """What its settings take from the environment."""
    home = Path(env.get("HOME", "/nonexistent"))
    folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    texts = [read_settings(folder / name) for name in NAMES]
    return frozenset(word for text in texts for word in _ENV_WORD.findall(text))


def entries(lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """The messages of an OpenCode session, as its plugin hands them over."""
    for entry in lines:
        info = mapping(entry.get("info"))
        created = mapping(info.get("time")).get("created")
        at = created / 1_000 if isinstance(created, int | float) else 0.0
        who: Who = "user" if info.get("role") == "user" else "agent"
        for part in map(mapping, listed(entry.get("parts"))):
            if part.get("type") == "text":
                yield from told(at, who, string(part.get("text")))
            elif part.get("type") == "tool":
                yield Said(at, "tool", call_line(part.get("tool"), mapping(part.get("state")).get("input")))


OPENCODE = Client(
    kind=KIND,
    name="opencode",
    title="OpenCode",
    program="opencode",
    npm="opencode-ai",
    lowest=(1, 18),
    highest_known=(1, 18, 33),
    breaks=(Break((2,), "plugins of version 1 do not load there"),),
    mcp=McpTraits(info="opencode", short="opencode", owns=True, shows=True, cancels_late=True),
    hooks=PluginHooks(CHARS_MAX),
    silent_at_start=True,
    transcript=PluginTranscript(entries),
    launch=LaunchWords(headless=("run",), ask=("--prompt",)),
    environment=EnvRules(
        keys=(
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_DISABLE_",
        ),
        named_keys=named_keys,
    ),
    screen=ScreenTraits(
        # There may be a panel at the right of its box.
        prompt=prompt(r"\s*┃  ", r"\s*┃(\s*|\s{3}.*)", r"\s*┃(\s*|\s{3}.*)", r"(\s*|\s{3}.*|Ask anything….*)")
    ),
    writes=Writes(
        event=EVENT,
        tools={
            "write": "filePath",
            "edit": "filePath",
            "multiedit": "filePath",
            "patch": "",
            "apply_patch": "",
        },
        refusal=REFUSAL,
        gated=False,
    ),
    targets=targets,
    session=session,
    prepare=("debug", "config"),
    downloads=(
        Download(
            what="its interface for plugins, by npm",
            size_mb=63,
            paths=downloaded,
            package=package,
            dependency="@opencode-ai/plugin",
        ),
    ),
    scratch=("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    wakers=by_plugin,
)
