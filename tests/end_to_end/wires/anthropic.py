"""Anthropic Messages, as Claude Code speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.end_to_end.script import Reply, Turn, turn
from tests.end_to_end.wires.base import FEW, event, listed, new_id

USAGE = {
    "input_tokens": FEW,
    "output_tokens": FEW,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def read(body: dict[str, Any]) -> tuple[list[str], list[Turn]]:
    """The tools and the context of a request."""
    turns = [turn("system", body.get("system"))]
    for message in listed(body.get("messages")):
        for block in listed(message["content"]):
            kind = "text" if isinstance(block, str) else block["type"]
            turns.append(turn(message["role"] if kind == "text" else kind, block))
    return [tool["name"] for tool in listed(body.get("tools"))], turns


def whole(reply: Reply, model: str) -> dict[str, Any]:
    """The answer in one piece."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    blocks += [
        {"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": arguments}
        for name, arguments in reply.calls
    ]
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def stream(reply: Reply, model: str) -> Iterator[str]:
    """The answer as events."""
    message = whole(reply, model)
    yield _event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        delta = {"type": "text_delta", "text": block.get("text", "")}
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block={**block, **empty})
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=end, usage=USAGE)
    yield _event("message_stop")


def _event(kind: str, **data: Any) -> str:
    return event({"type": kind, **data}, kind)
