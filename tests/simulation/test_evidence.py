"""Random lives of a client beside the real hooks: once in a context, read by evidence, never stuck.

`TELLWIRE_SEQUENCES=2000` plays so many in all, instead of the usual hundred.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tellwire.clients.reader import decoded, listed, mapping, string
from tests.simulation.agent_models import MODELS, Claude, Codex, Gemini, Model
from tests.simulation.evidence_world import own_time, play, tell
from tests.unit.transcripts import recorded_lines

SEQUENCES = int(os.environ.get("TELLWIRE_SEQUENCES", "100"))
BATCH = 10
MARK = re.compile(r"id=(m\w+) from=")


@pytest.mark.requirement("REC-2", "REC-3", stage="clients")
@pytest.mark.parametrize("first", range(0, SEQUENCES // len(MODELS), BATCH))
@pytest.mark.parametrize("row", MODELS)
def test_a_message_enters_a_context_once_and_is_never_stuck(row: str, first: int, tmp_path: Path) -> None:
    failures: list[str] = []
    for seed in range(first, min(first + BATCH, SEQUENCES // len(MODELS))):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            play(row, folder, seed)
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n\n".join(failures)


STORIES = {
    "a session ends with mail that waits": ("pi", "prompt send lost tool final clear"),
    "mail stands in a session that its human has left": (
        "opencode",
        "prompt send tool esc clear prompt final",
    ),
    "mail is in the queue of a session that was left, and the broker dies": (
        "codex",
        "prompt esc send clear wait wait wait wait prompt broker final",
    ),
    "the answer at the end of a turn is lost": ("pi", "prompt send lost final"),
    "a compaction before the first turn drops the mail": ("claude", "prompt send kill compact"),
    "mail stands in a resumed session, and a wake has nothing new": (
        "codex",
        "prompt send tool kill late prompt",
    ),
}


@pytest.mark.requirement("REC-2", "REC-3", stage="clients")
@pytest.mark.parametrize("story", STORIES)
def test_mail_comes_through(story: str, tmp_path: Path) -> None:
    row, steps = STORIES[story]
    tell(row, tmp_path, steps)


# -- the models beside recorded sessions of the programs ----------------------------------------------


def of_claude(entry: dict[str, Any]) -> str:
    message = mapping(entry.get("message"))
    parts = [mapping(part).get("type") for part in listed(message.get("content"))]
    match entry.get("type"):
        case "user" if "tool_result" in parts:
            return "result"
        case "user":
            return "stopped" if "[Request interrupted" in str(message) else "prompt"
        case "attachment" if mapping(entry.get("attachment")).get("type") == "hook_additional_context":
            return "given"
        case "assistant":
            return "answer"
        case _:
            return ""


def of_codex(entry: dict[str, Any]) -> str:
    payload = mapping(entry.get("payload"))
    kind, role = string(payload.get("type")), payload.get("role")
    if entry.get("type") == "event_msg":
        return kind if kind in ("task_started", "task_complete", "turn_aborted") else ""
    if entry.get("type") != "response_item":
        return "usage" if entry.get("type") == "token_usage_record" else ""
    text = str(payload.get("content"))
    if kind == "message" and ("<environment_context>" in text or "<skills_instructions>" in text):
        return ""
    return f"{role} stopped" if "<turn_aborted>" in text else string(role) or kind


def of_gemini(entry: dict[str, Any]) -> str:
    if "$set" in entry:
        messages = mapping(entry["$set"]).get("messages")
        return "" if messages is None else f"set {'m' if MARK.search(str(messages)) else ''}".strip()
    kind = string(entry.get("type"))
    is_result = "functionResponse" in str(entry.get("content"))
    return "result" if kind == "user" and is_result else kind


def shape(lines: list[bytes], name: Callable[[dict[str, Any]], str]) -> list[str]:
    """The lines that matter, and which of them hold a message."""
    entries = [(mapping(decoded(line)), line) for line in lines]
    named = [(name(entry), line.decode()) for entry, line in entries]
    told = [f"{word} +" if MARK.search(line) else word for word, line in named if word]
    return [word for place, word in enumerate(told) if place == 0 or word != told[place - 1]]


SCRIPTS: dict[tuple[str, str], list[str]] = {
    ("claude", "esc_ups"): ["give", "prompt", "esc", "prompt", "final"],
    ("claude", "esc_ptb"): ["prompt", "give", "tool", "esc", "prompt", "final"],
    ("codex", "esc"): ["prompt", "give", "tool", "esc", "prompt", "final"],
    ("gemini", "esc_before"): ["give", "prompt", "esc", "prompt", "final"],
}
NAMES: dict[str, tuple[type[Model], Callable[[dict[str, Any]], str]]] = {
    "claude": (Claude, of_claude),
    "codex": (Codex, of_codex),
    "gemini": (Gemini, of_gemini),
}


@pytest.mark.parametrize(("client", "case"), SCRIPTS)
def test_a_model_writes_what_the_program_wrote(client: str, case: str, tmp_path: Path) -> None:
    make, name = NAMES[client]
    waiting: list[str] = []

    async def hook(event: str, **fields: Any) -> str:
        del fields
        takes = event in ("UserPromptSubmit", "PostToolBatch", "PostToolUse", "BeforeAgent", "AfterTool")
        return waiting.pop() if waiting and takes else ""

    async def run() -> Model:
        model = make(tmp_path, hook)
        for step in SCRIPTS[client, case]:
            if step == "give":
                waiting.append("<peer-message id=m1 from=backend age=2s>\nhello\n</peer-message>")
            elif step == "prompt":
                await model.prompt("prompt")
            else:
                await getattr(model, step)()
        return model

    with own_time() as loop:
        model = loop.run_until_complete(run())
    ours = shape(model.file.read_bytes().splitlines(), name)
    theirs = shape(recorded_lines(client, case), name)
    assert ours == theirs[: len(ours)]
    assert len(ours) > 3


def test_time_passes_at_once() -> None:
    with own_time() as loop:
        before = loop.now
        loop.run_until_complete(asyncio.sleep(1_000))
        assert loop.now - before >= 1_000
