"""Gemini CLI's hooks: what they report, and what they can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tellwire.clients.client import TextLimit
from tellwire.clients.events import HookEvent
from tellwire.clients.gemini.chat import with_ending
from tellwire.clients.payloads import (
    Hook,
    additional_context,
    parse_payload,
    require_text_taken,
    require_tool_wanted,
)
from tellwire.relay.guard import REASON, filled

SUBAGENT_TOOL = "invoke_agent"
"""While it runs, the hooks of its sub-agent's tools look like the main conversation's."""

_HOOKS = {
    "SessionStart": Hook("session_started", takes_text=True),
    "BeforeAgent": Hook("prompt", takes_text=True),
    "BeforeTool": Hook("tool_wanted"),
    "AfterTool": Hook("tool_used", takes_text=True),
    "Notification": Hook("waiting"),
    "AfterAgent": Hook("turn_ended", takes_text=True, continues=True),
    "SessionEnd": Hook("session_ended"),
}
_DELEGATION = {"tool_wanted": 1, "tool_used": -1}
DROPPING = ("clear", "resume")
"""How a session starts whose client drops what its start hook is given, in a terminal at least."""
REFUSAL: dict[str, Any] = {"decision": "deny", "reason": REASON}
"""What a hook says to keep a tool call from running."""


class GeminiHooks:
    """Parses and answers Gemini CLI's hooks."""

    room = TextLimit(9_900)

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload; the final answer is taken from the chat file: the payload joins all of a turn."""
        event = parse_payload(payload, _HOOKS)
        if event.name == "SessionStart" and event.source in DROPPING:
            return msgspec.structs.replace(event, takes_text=False)
        if payload.get("tool_name") == SUBAGENT_TOOL and event.what in _DELEGATION:
            return msgspec.structs.replace(event, delegation=_DELEGATION[event.what])
        if event.what == "prompt":
            return msgspec.structs.replace(event, begins=True)  # what is typed in a turn waits for its end
        return with_ending(event) if event.what == "turn_ended" else event

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text`."""
        require_text_taken(event)
        if event.continues:
            return {"decision": "deny", "reason": text}
        return additional_context(event, text)

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """The client shows it as information; the model does not see it."""
        return {**answer, "systemMessage": line}

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        require_tool_wanted(event)
        return filled(REFUSAL, reason)
