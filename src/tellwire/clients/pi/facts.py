"""Pi: one session at a time, and no MCP: the extension starts tellwire's server itself. Seen with 0.87.1.

Mail is written into the session at the end of each answer, before the next request; an Esc does not lose it.
A terminal is woken when it is idle; `-p` and `--mode json` end with their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tellwire.clients.client import Client, EnvRules, LaunchWords, McpTraits, ScreenTraits, Writes, prompt
from tellwire.clients.events import Said
from tellwire.clients.pi.install import KIND, session, targets
from tellwire.clients.plugin import EVENT, REFUSAL, PluginHooks, PluginTranscript
from tellwire.clients.ports import by_plugin
from tellwire.clients.reader import listed, mapping, seconds, string
from tellwire.clients.said import blocks_said, text_of, told

CHARS_MAX = 30_000
"""No limit was found; more than this at once is too much for a turn."""


def entries(lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Pi's session file: the branch that the last entry belongs to."""
    known = {string(each.get("id")): each for each in lines if string(each.get("id"))}
    branch: list[dict[str, Any]] = []
    entry = known.pop(next(reversed(known))) if known else {}
    while entry:
        branch.append(entry)
        entry = known.pop(string(entry.get("parentId")), {})
    for entry in reversed(branch):
        at, message = seconds(entry.get("timestamp")), mapping(entry.get("message"))
        if entry.get("type") == "custom_message":
            yield from told(at, "note", text_of(entry.get("content")))
        elif message.get("role") == "user":
            yield from told(at, "user", text_of(message.get("content")))
        elif message.get("role") == "assistant":
            yield from blocks_said(at, listed(message.get("content")), call="toolCall", arguments="arguments")


PI = Client(
    kind=KIND,
    name="pi",
    title="Pi",
    program="pi",
    npm="@earendil-works/pi-coding-agent",
    lowest=(0, 87),
    highest_known=(0, 87, 1),
    mcp=McpTraits(info="pi", short="pi", owns=True, shows=True),
    hooks=PluginHooks(CHARS_MAX),
    transcript=PluginTranscript(entries),
    launch=LaunchWords(headless=("-p",)),
    environment=EnvRules(keys=("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "PI_")),
    screen=ScreenTraits(prompt=prompt("", r"─{8,}\s*", r"─{8,}\s*")),
    writes=Writes(
        event=EVENT,
        tools={"write": "path", "edit": "path"},
        refusal=REFUSAL,
        gated=False,
        drops_at=True,
        plain_spaces=True,
    ),
    targets=targets,
    session=session,
    scratch=("PI_CODING_AGENT_DIR",),
    wakers=by_plugin,
)
