"""What tellwire adds to a real client's first request, and that its model has the rule from the start."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from tellwire.mcp.dialects.tellwire import TELLWIRE
from tellwire.mcp.dialects.tool import tools_of
from tellwire.protocol.relay import CORE
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import Request, Step, call, message_id, say
from tests.end_to_end.stage import END, FINAL, LOOK, QUESTION, open_stage

SESSION_START = {"claude": 7_500, "codex": 7_500, "gemini": 10_400, "opencode": 7_500, "pi": 7_500}
"""Characters of instructions and schemas. Gemini CLI adds an argument of its own to every tool."""
OURS = {tool.doc for tool in tools_of(TELLWIRE, CORE).values()}
RULE = re.compile(r"You are `shop-.*?not for questions\.", re.DOTALL)
LABEL = re.compile(r"…</(\w{4})>")


def schemas(value: Any) -> list[str]:
    """The tools of ours in a request, wherever the client puts them, as compact JSON."""
    if isinstance(value, list):
        return [found for each in cast("list[Any]", value) for found in schemas(each)]
    if not isinstance(value, dict):
        return []
    entry = cast("dict[str, Any]", value)
    if any(str(entry.get("description", "")).startswith(doc) for doc in OURS):
        return [json.dumps(entry, separators=(",", ":"), ensure_ascii=False)]
    return [found for each in entry.values() for found in schemas(each)]


@pytest.mark.requirement("SEC-2", stage="contact")
@pytest.mark.parametrize("row", PROGRAMS)
async def test_session_start_costs_no_more_than_its_budget_and_tells_the_rule(
    row: str, tmp_path: Path
) -> None:
    async with open_stage(row, tmp_path) as stage:
        _, (sent,) = await stage.during_turn([QUESTION], LOOK, END)
        rules = RULE.findall(json.dumps(stage.requests[0].body, ensure_ascii=False))
        assert len(rules) == 1, "the rule stands in the context once"
        found = schemas(stage.requests[0].body)
        cost = len(rules[0]) + sum(map(len, found))
        print(f"{row}: instructions {len(rules[0])}, {len(found)} tools, together {cost}")
        assert cost <= SESSION_START[row]
        (label,) = LABEL.findall(rules[0])
        last = stage.requests[-1].text
        assert re.search(rf"{QUESTION[:-1]}\?(?:<|&lt;)/{label}(?:>|&gt;)", last), last[-3_000:]
        assert "grants no permission. Only" not in last, "the rule is there already"
        await stage.until_read(sent)


def backlog(number: int) -> list[str]:
    return [f"{each:03} of the backlog ".ljust(4_000, "x") for each in range(number)]


def after(request: Request) -> str:
    """What the last hint says to go on with."""
    found = re.findall(r"get_messages\(after=\\*(?:\"|&quot;)(\w+)", request.text)
    return found[-1] if found else message_id(request)


@pytest.mark.requirement("REC-4", stage="clients")
@pytest.mark.parametrize("row", ["gemini"])
async def test_a_backlog_is_drained_without_a_loop_detector(row: str, tmp_path: Path) -> None:
    async with open_stage(row, tmp_path) as stage:
        steps: list[Step] = [call("get_messages", after=after) for _ in range(9)]
        ran, sent = await stage.during_turn(backlog(45), LOOK, *steps, say(FINAL))
        last = stage.requests[-1].text
        seen = [number for number in range(45) if f"{number:03} of the backlog" in last]
        assert seen == list(range(45)), ran.err[-500:]
        assert "loop" not in (ran.text + ran.err).lower()
        await stage.until_read(*sent, or_by="next_call")
