"""Toy's hooks: what they tell, and what they can say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellwire.clients.client import TextLimit
from tellwire.clients.events import HookEvent
from tellwire.clients.payloads import Hook, parse_payload, require_text_taken, require_tool_wanted
from tellwire.relay.guard import REASON, filled

_HOOKS = {
    "begin": Hook("session_started", takes_text=True),
    "ask": Hook("prompt", takes_text=True),
    "before": Hook("tool_wanted"),
    "after": Hook("tool_used", takes_text=True),
    "end": Hook("turn_ended", takes_text=True, continues=True),
    "bye": Hook("session_ended"),
}
REFUSAL: dict[str, Any] = {"no": REASON}


class ToyHooks:
    """The hooks of Toy."""

    room = TextLimit(5_000)

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload."""
        return parse_payload(payload, _HOOKS)

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text`."""
        require_text_taken(event)
        return {"add": text}

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """It has no place for a line."""
        del line
        return answer

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        require_tool_wanted(event)
        return filled(REFUSAL, reason)
