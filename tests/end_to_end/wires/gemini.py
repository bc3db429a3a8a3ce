"""Gemini generateContent, as Gemini CLI speaks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.end_to_end.script import Reply, Turn, turn
from tests.end_to_end.wires.base import FEW, event, listed, new_id


def read(body: dict[str, Any]) -> tuple[list[str], list[Turn]]:
    """The tools and the context of a request."""
    tools = [
        each["name"]
        for tool in listed(body.get("tools"))
        for each in listed(tool.get("functionDeclarations"))
    ]
    turns = [turn("system", body.get("systemInstruction"))]
    for content in listed(body.get("contents")):
        for part in content["parts"]:
            kind = next((key for key in ("functionCall", "functionResponse") if key in part), content["role"])
            turns.append(turn(kind, part))
    return tools, turns


def whole(reply: Reply, model: str) -> dict[str, Any]:
    """The answer in one piece."""
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    parts += [
        {"functionCall": {"id": new_id("call_"), "name": name, "args": arguments}}
        for name, arguments in reply.calls
    ]
    usage = {"promptTokenCount": FEW, "candidatesTokenCount": FEW, "totalTokenCount": 2 * FEW}
    return {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": parts}}],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": new_id("r"),
    }


def stream(reply: Reply, model: str) -> Iterator[str]:
    """The answer as events."""
    yield event(whole(reply, model))
