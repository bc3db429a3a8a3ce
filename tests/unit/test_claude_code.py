"""Claude Code: its hooks in our words, and what its transcript proves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.events import HookEvent
from tests.unit.transcripts import (
    SAMPLES,
    TEXT,
)

PAYLOADS = [json.loads(line) for line in (SAMPLES / "claude/reader_payloads.jsonl").read_bytes().splitlines()]
BASE = {"session_id": "5c1f", "transcript_path": "/home/user/t.jsonl", "cwd": "/home/user/project"}


def parse(name: str, **fields: Any) -> HookEvent:
    return CLAUDE.hooks.parse({**BASE, "hook_event_name": name, **fields})


# -- hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "takes_text"),
    [
        ("SessionStart", "session_started", True),
        ("UserPromptSubmit", "prompt", True),
        ("PreToolUse", "tool_wanted", False),
        ("PostToolUse", "tool_used", False),
        ("PostToolUseFailure", "tool_used", False),
        ("PostToolBatch", "tool_used", True),
        ("Notification", "waiting", False),
        ("PermissionRequest", "waiting", False),
        ("Stop", "turn_ended", True),
        ("StopFailure", "errored", False),
        ("SessionEnd", "session_ended", False),
        ("PreCompact", "other", False),
        ("SomethingNew", "other", False),
    ],
)
def test_each_hook_has_our_word(name: str, what: str, takes_text: bool) -> None:
    event = parse(name)
    assert (event.what, event.name, event.takes_text) == (what, name, takes_text)
    assert event.continues == (name == "Stop")
    assert (event.session, event.transcript, event.cwd) == ("5c1f", BASE["transcript_path"], BASE["cwd"])


@pytest.mark.parametrize(
    ("fields", "wants"),
    [
        (
            {"tool_name": "Bash", "tool_input": {"command": "rm -rf build", "description": "x"}},
            "Bash: rm -rf build",
        ),
        ({"tool_name": "Write", "tool_input": {"file_path": "/a/b.py", "content": "x"}}, "Write: /a/b.py"),
        (
            {"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"question": "A or B?"}]}},
            "AskUserQuestion: A or B?",
        ),
        ({"tool_name": "ExitPlanMode", "tool_input": {"plan": "First."}}, "ExitPlanMode: First."),
        ({"tool_name": "Odd", "tool_input": {"n": 1}}, "Odd"),
        ({"tool_name": "Odd", "tool_input": "text"}, "Odd"),
        ({"tool_name": "Bash", "tool_input": {"command": "x" * 500}}, "Bash: " + "x" * 194),
        ({"message": "Claude needs your permission", "tool_name": "Bash"}, "Claude needs your permission"),
        ({"tool_name": 7, "tool_input": {"command": "ls"}}, ""),
        ({}, ""),
    ],
)
def test_a_dialog_tells_what_the_client_wants(fields: dict[str, Any], wants: str) -> None:
    assert parse("PermissionRequest", **fields).final_text == wants


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: str(payload["hook_event_name"]))
def test_what_the_client_really_sends_is_understood(payload: dict[str, Any]) -> None:
    event = CLAUDE.hooks.parse(payload)
    assert event.session == payload["session_id"]
    assert event.transcript == payload["transcript_path"]
    assert event.turn == payload.get("prompt_id", "")
    assert event.subagent == ("agent_id" in payload or event.name.startswith("Subagent"))
    assert event.prompt == payload.get("prompt", "")
    assert event.source == (payload.get("source") or payload.get("reason") or "")
    is_end = event.name == "Stop"
    assert event.final_text == (payload["last_assistant_message"] if is_end else "")
    if event.subagent:
        assert not event.takes_text
    if event.name == "PostToolBatch":
        assert event.tool_call == payload["tool_calls"][0]["tool_use_id"]


def test_an_idle_client_asks_for_nothing() -> None:
    assert parse("Notification", notification_type="idle_prompt").what == "idle"
    assert parse("Notification", notification_type="auth_success").what == "other"
    assert parse("Notification", notification_type="permission_prompt").what == "waiting"
    assert parse("Notification", notification_type=["permission_prompt"]).what == "other"


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop"])
def test_text_goes_in_as_additional_context(name: str) -> None:
    assert CLAUDE.hooks.answer(parse(name), TEXT) == {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": TEXT}
    }


def test_a_tool_call_is_denied_and_nothing_else() -> None:
    assert CLAUDE.hooks.deny(parse("PreToolUse"), "outside your scope") == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "outside your scope",
        }
    }
    with pytest.raises(ValueError, match="keeps nothing"):
        CLAUDE.hooks.deny(parse("Stop"), "no")
    with pytest.raises(ValueError, match="takes no text"):
        CLAUDE.hooks.answer(parse("PostToolUse"), TEXT)
    with pytest.raises(ValueError, match="takes no text"):
        CLAUDE.hooks.answer(parse("PostToolBatch", agent_id="a1"), TEXT)


@pytest.mark.parametrize(
    "session", ["", "../../etc/passwd", "a/b", "a\0b", "a b", "-x", "x" * 200, None, 5, ["x"]]
)
def test_a_session_that_could_be_taken_amiss_is_refused(session: Any) -> None:
    with pytest.raises(ValueError, match="session"):
        CLAUDE.hooks.parse({**BASE, "session_id": session, "hook_event_name": "Stop"})


def test_fields_of_a_wrong_kind_are_left_out() -> None:
    event = CLAUDE.hooks.parse(
        {
            "session_id": "5c1f",
            "hook_event_name": "Stop",
            "transcript_path": "relative/path",
            "cwd": "/with\0nul",
            "prompt_id": 7,
            "last_assistant_message": {"text": "x"},
            "source": "x" * 10_000,
            "tool_calls": {"0": 1},
        }
    )
    assert event == HookEvent(what="turn_ended", name="Stop", session="5c1f", takes_text=True, continues=True)
    assert parse("Stop", last_assistant_message="half \ud800 a pair").final_text == "half \ufffd a pair"


def test_large_fields_are_not_copied() -> None:
    large = "é" * (25 << 20)
    event = parse("PostToolUse", tool_response={"stdout": large}, tool_input=[large] * 3)
    assert all(len(str(getattr(event, name))) < 100 for name in event.__struct_fields__)
    assert parse("UserPromptSubmit", prompt=large).prompt is large


@pytest.mark.parametrize("payload", [None, [], "x", 5, {}, {"session_id": "a"}, {"hook_event_name": "Stop"}])
def test_what_is_no_payload_is_refused(payload: Any) -> None:
    with pytest.raises(ValueError, match="payload"):
        CLAUDE.hooks.parse(payload)
