"""What the hooks' payloads of several clients have in common; each client's module names its own events."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tellwire.clients.events import HookEvent, What
from tellwire.clients.reader import listed, mapping, string

FIELD_LENGTH_MAX = 4_096
"""For ids, paths and single words; a longer one is left out."""
CONFIG_BYTES_MAX = 1 << 20
# It names files and rows elsewhere: nothing that a path or a terminal could take amiss.
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Hook(msgspec.Struct, frozen=True):
    """One event of a client in our words."""

    what: What
    takes_text: bool = False
    continues: bool = False


OTHER = Hook("other")
_SAID: dict[What, str] = {"turn_ended": "last_assistant_message", "waiting": "message"}
_ANSWERED = "last_assistant_message"
"""The field with what the client's human reads then."""
_TELLING = ("command", "file_path", "path", "url", "query", "pattern", "plan", "description")
"""Fields of a tool's input, the one that tells most of what it does first."""
WANTED_CHARS_MAX = 200


def parse_payload(payload: Mapping[str, Any], hooks: Mapping[str, Hook], *, turn: str = "") -> HookEvent:
    """The event that a payload tells of; `turn` is the field with the turn's id.

    Raises:
        ValueError: it is no hook's payload, or has no usable session.
    """
    given: Any = payload
    if not isinstance(given, Mapping):
        raise ValueError("a hook's payload is a JSON object")
    name, session = _short(payload, "hook_event_name"), _short(payload, "session_id")
    if not name or not _SESSION.fullmatch(session):
        raise ValueError("a hook's payload names its event and its session")
    hook = hooks.get(name, OTHER)
    is_subagent = bool(payload.get("agent_id")) or name.startswith("Subagent")
    return HookEvent(
        what=hook.what,
        name=name,
        session=session,
        transcript=_path(payload, "transcript_path"),
        cwd=_path(payload, "cwd"),
        turn=_short(payload, turn),
        prompt=_text(payload, "prompt") if hook.what == "prompt" else "",
        typed=hook.what == "prompt",
        final_text=_text(payload, _SAID.get(hook.what, _ANSWERED if hook.continues else ""))
        or (_wanted(payload) if hook.what == "waiting" else ""),
        source=_short(payload, "source") or _short(payload, "reason"),
        tool_call=_short(payload, "tool_use_id") or _first_call(payload),
        subagent=is_subagent,
        takes_text=hook.takes_text and not is_subagent,
        continues=hook.continues and not is_subagent,
    )


def additional_context(event: HookEvent, text: str) -> dict[str, Any]:
    """The answer by which all these clients take text in."""
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def require_text_taken(event: HookEvent) -> None:
    """Raises ValueError if text given at this event would be lost."""
    if not event.takes_text:
        raise ValueError(f"{event.name} takes no text")


def require_tool_wanted(event: HookEvent) -> None:
    """Raises ValueError if there is no tool call to keep from running."""
    if event.what != "tool_wanted":
        raise ValueError(f"{event.name} keeps nothing from running")


def read_settings(path: Path) -> str:
    """The text of a client's settings; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(CONFIG_BYTES_MAX).decode(errors="replace") if os.path.isfile(path) else ""
    except OSError:
        return ""


def _short(payload: Mapping[str, Any], name: str) -> str:
    value = string(payload.get(name)) if name else ""
    return value if len(value) <= FIELD_LENGTH_MAX and not _SURROGATES.search(value) else ""


def _path(payload: Mapping[str, Any], name: str) -> str:
    value = _short(payload, name)
    return value if value.startswith("/") and "\0" not in value else ""


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = string(payload.get(name))
    return value if value.isascii() or not _SURROGATES.search(value) else _SURROGATES.sub("\ufffd", value)


def _wanted(payload: Mapping[str, Any]) -> str:
    """What a client asks its human to allow: the tool, and what with, such as `Bash: rm -rf build`."""
    tool, given = _short(payload, "tool_name"), mapping(payload.get("tool_input"))
    words = next((text for name in _TELLING if (text := _text(given, name))), "")
    asked = listed(given.get("questions"))
    words = words or (_text(mapping(asked[0]), "question") if asked else "")
    return f"{tool}: {words}"[:WANTED_CHARS_MAX] if tool and words else tool[:WANTED_CHARS_MAX]


def _first_call(payload: Mapping[str, Any]) -> str:
    calls = listed(payload.get("tool_calls"))
    return _short(mapping(calls[0]), "tool_use_id") if calls else ""
