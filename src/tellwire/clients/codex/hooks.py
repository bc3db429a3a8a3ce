"""Codex's hooks: what they report, and what they can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellwire.clients.client import TextLimit
from tellwire.clients.events import HookEvent
from tellwire.clients.payloads import (
    Hook,
    additional_context,
    parse_payload,
    require_text_taken,
    require_tool_wanted,
)
from tellwire.relay.guard import REASON, filled

_HOOKS = {
    "SessionStart": Hook("session_started", takes_text=True),
    "UserPromptSubmit": Hook("prompt", takes_text=True),
    "PreToolUse": Hook("tool_wanted"),
    "PostToolUse": Hook("tool_used", takes_text=True),
    "PermissionRequest": Hook("waiting"),
    "Stop": Hook("turn_ended", takes_text=True, continues=True),
    "Interrupt": Hook("interrupted"),
    "SessionEnd": Hook("session_ended"),
}
REFUSAL: dict[str, Any] = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": REASON,
    }
}
"""What a hook says to keep a tool call from running."""


class CodexHooks:
    """Parses and answers Codex's hooks."""

    room = TextLimit(3_200, 9_900)
    """It cuts the middle out of more than 10,000 bytes; most letters of the world have up to three."""

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload; what `notify` tells is refused, for it speaks of hidden threads as well."""
        return parse_payload(payload, _HOOKS, turn="turn_id")

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text`."""
        require_text_taken(event)
        if event.continues:
            return {"decision": "block", "reason": text}
        return additional_context(event, text)

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """Nothing: it would show a warning, and what wakes it is on its screen already."""
        del line
        return answer

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        require_tool_wanted(event)
        return filled(REFUSAL, reason)
