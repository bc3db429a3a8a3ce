"""Pi speaks no MCP: its extension tells the model what the server's instructions tell others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.stage import END, LOOK, QUESTION, once, open_stage


@pytest.mark.requirement("F2-7", stage="clients")
async def test_the_model_of_pi_is_told_who_it_is_and_how_to_answer(tmp_path: Path) -> None:
    async with open_stage("pi", tmp_path) as stage:
        _, (sent,) = await stage.during_turn([QUESTION], LOOK, END)
        first, last = stage.requests[0], stage.requests[-1]
        assert f"You are `{stage.agent}`" in first.text or f"You are {stage.agent}" in first.text, first.text[
            :500
        ]
        assert last.text.count("coding agents in other") <= 1, "told once, not with every request anew"
        once(last)
        await stage.until_read(sent)
