"""OpenAI Responses, as Codex speaks it. Tools of an MCP server come in a namespace: here `namespace/tool`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from tests.end_to_end.script import Reply, Turn, turn
from tests.end_to_end.wires.base import FEW, event, listed, new_id

FREEFORM = "apply_patch"
"""The tool that takes a text, not arguments."""


def read(body: dict[str, Any]) -> tuple[list[str], list[Turn]]:
    """The tools and the context of a request."""
    tools: list[str] = []
    for tool in listed(body.get("tools")):
        if tool["type"] == "namespace":
            tools += [f"{tool['name']}/{each['name']}" for each in listed(tool["tools"])]
        else:
            tools.append(tool.get("name", tool["type"]))
    turns = [turn("system", body.get("instructions"))]
    turns += [turn(item.get("role") or item["type"], item) for item in listed(body.get("input"))]
    return tools, turns


def whole(reply: Reply, model: str) -> dict[str, Any]:
    """The answer in one piece."""
    items: list[dict[str, Any]] = []
    if reply.text:
        part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
        items.append({"type": "message", "id": new_id("msg_"), "role": "assistant", "content": [part]})
    for name, arguments in reply.calls:
        if name == FREEFORM:
            call = {
                "type": "custom_tool_call",
                "id": new_id("ctc_"),
                "call_id": new_id("call_"),
                "name": name,
            }
            items.append({**call, "input": arguments["input"]})
            continue
        namespace, _, plain = name.rpartition("/")
        call = {"type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"), "name": plain}
        items.append(
            call | {"arguments": json.dumps(arguments)} | ({"namespace": namespace} if namespace else {})
        )
    usage = {
        "input_tokens": FEW,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": FEW,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2 * FEW,
    }
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": model,
        "output": [{**item, "status": "completed"} for item in items],
        "error": None,
        "incomplete_details": None,
        "usage": usage,
    }


def stream(reply: Reply, model: str) -> Iterator[str]:
    """The answer as events."""
    for number, (kind, data) in enumerate(_events(whole(reply, model))):
        yield event({"type": kind, "sequence_number": number, **data}, kind)


def _events(response: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": {**response, "status": "in_progress", "output": []}}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        if item["type"] == "custom_tool_call":
            yield "response.output_item.added", {"output_index": index, "item": {**item, "input": ""}}
            yield "response.custom_tool_call_input.delta", {**place, "delta": item["input"]}
            yield "response.output_item.done", {"output_index": index, "item": item}
            continue
        begun = {**item, **empty, "status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": begun}
        if item["type"] == "message":
            text = {**place, "content_index": 0}
            yield "response.output_text.delta", {**text, "delta": item["content"][0]["text"]}
            yield "response.output_text.done", {**text, "text": item["content"][0]["text"]}
        else:
            yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": response}
