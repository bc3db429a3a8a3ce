"""Claude Code's hooks: what they report, and what they can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

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
    "PostToolUse": Hook("tool_used"),
    "PostToolUseFailure": Hook("tool_used"),
    "PostToolBatch": Hook("tool_used", takes_text=True),
    "PermissionRequest": Hook("waiting"),
    "Notification": Hook("waiting"),
    "Stop": Hook("turn_ended", takes_text=True, continues=True),
    "StopFailure": Hook("errored"),
    "SessionEnd": Hook("session_ended"),
}
_NOTICES = {
    "permission_prompt": "waiting",
    "elicitation_dialog": "waiting",
    None: "waiting",
    "idle_prompt": "idle",
}
"""What the notifications mean; one that is not here, nothing."""
_NOT_TYPED = ("<task-notification", "<cross-session-message", "Another Claude session sent")
"""Prompts that begin so are the client's own."""
REFUSAL: dict[str, Any] = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": REASON,
    }
}
"""What a hook says to keep a tool call from running."""


class ClaudeHooks:
    """Parses and answers Claude Code's hooks."""

    room = TextLimit(9_900)

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """Parse a hook's payload."""
        event = parse_payload(payload, _HOOKS, turn="prompt_id")
        if event.name == "Notification":
            kind = payload.get("notification_type")
            what = _NOTICES.get(kind, "other") if kind is None or isinstance(kind, str) else "other"
            return msgspec.structs.replace(event, what=what)
        if event.what == "prompt" and event.prompt.lstrip().startswith(_NOT_TYPED):
            return msgspec.structs.replace(event, typed=False)
        return event

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text`; at the end of a turn it makes it go on."""
        require_text_taken(event)
        return additional_context(event, text)

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """The client shows it above the answer; the model does not see it."""
        return {**answer, "systemMessage": line}

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        require_tool_wanted(event)
        return filled(REFUSAL, reason)
