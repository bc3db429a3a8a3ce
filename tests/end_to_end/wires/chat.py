"""OpenAI chat completions, as OpenCode and Pi speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from tests.end_to_end.script import Reply, Turn, turn
from tests.end_to_end.wires.base import FEW, event, listed, new_id

USAGE = {"prompt_tokens": FEW, "completion_tokens": FEW, "total_tokens": 2 * FEW}


def read(body: dict[str, Any]) -> tuple[list[str], list[Turn]]:
    """The tools and the context of a request."""
    tools = [tool["function"]["name"] for tool in listed(body.get("tools"))]
    return tools, [turn(message["role"], message) for message in listed(body["messages"])]


def whole(reply: Reply, model: str) -> dict[str, Any]:
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {**_head("chat.completion", model), "choices": [choice], "usage": USAGE}


def stream(reply: Reply, model: str) -> Iterator[str]:
    """The answer as events."""
    head = _head("chat.completion.chunk", model)

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    if reply.text:
        yield chunk({"content": reply.text})
    for index, each in enumerate(_calls(reply)):
        yield chunk({"tool_calls": [{"index": index, **each}]})
    yield chunk({}, _finish(reply))
    yield event({**head, "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl-"), "object": kind, "created": int(time.time()), "model": model}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": new_id("call_"),
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for name, arguments in reply.calls
    ]
