"""Claude Code: its hooks in our words, and what its transcript proves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.integrations.claude_code import INTEGRATION, ClaudeReader
from tellwire.integrations.hooks import HookEvent
from tests.unit.transcripts import (
    ABSENT,
    JSON,
    OPEN,
    READ,
    SAMPLES,
    TEXT,
    Given,
    recorded_cases,
    recorded_lines,
    replay,
    replay_damaged,
)

PAYLOADS = [json.loads(line) for line in (SAMPLES / "claude/reader_payloads.jsonl").read_bytes().splitlines()]
BASE = {"session_id": "5c1f", "transcript_path": "/home/user/t.jsonl", "cwd": "/home/user/project"}


def parse(name: str, **fields: Any) -> HookEvent:
    return INTEGRATION.parse({**BASE, "hook_event_name": name, **fields})


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


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: str(payload["hook_event_name"]))
def test_what_the_client_really_sends_is_understood(payload: dict[str, Any]) -> None:
    event = INTEGRATION.parse(payload)
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


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop"])
def test_text_goes_in_as_additional_context(name: str) -> None:
    assert INTEGRATION.answer(parse(name), TEXT) == {
        "hookSpecificOutput": {"hookEventName": name, "additionalContext": TEXT}
    }


def test_a_tool_call_is_denied_and_nothing_else() -> None:
    assert INTEGRATION.deny(parse("PreToolUse"), "outside of your scope") == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "outside of your scope",
        }
    }
    with pytest.raises(ValueError, match="keeps nothing"):
        INTEGRATION.deny(parse("Stop"), "no")
    with pytest.raises(ValueError, match="takes no text"):
        INTEGRATION.answer(parse("PostToolUse"), TEXT)
    with pytest.raises(ValueError, match="takes no text"):
        INTEGRATION.answer(parse("PostToolBatch", agent_id="a1"), TEXT)


@pytest.mark.parametrize(
    "session", ["", "../../etc/passwd", "a/b", "a\0b", "a b", "-x", "x" * 200, None, 5, ["x"]]
)
def test_a_session_that_could_be_taken_amiss_is_refused(session: Any) -> None:
    with pytest.raises(ValueError, match="session"):
        INTEGRATION.parse({**BASE, "session_id": session, "hook_event_name": "Stop"})


def test_fields_of_a_wrong_kind_are_left_out() -> None:
    event = INTEGRATION.parse(
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


FIELDS = sorted({key for payload in PAYLOADS for key in payload})


@given(
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), JSON | st.just("Stop") | st.just("5c1f"))
)
def test_garbage_is_refused_or_understood(payload: dict[str, Any]) -> None:
    try:
        event = INTEGRATION.parse(payload)
    except ValueError:
        return
    assert event.session


@pytest.mark.parametrize("payload", [None, [], "x", 5, {}, {"session_id": "a"}, {"hook_event_name": "Stop"}])
def test_what_is_no_payload_is_refused(payload: Any) -> None:
    with pytest.raises(ValueError, match="payload"):
        INTEGRATION.parse(payload)


# -- recorded transcripts -----------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "given"), recorded_cases("claude"))
def test_a_recorded_session_gives_the_verdict_that_the_models_server_gives(
    tmp_path: Path, case: str, given: list[Given]
) -> None:
    lines = recorded_lines("claude", case)
    wanted = {one.mark: one.verdict for one in given if one.verdict is not OPEN}
    assert replay(ClaudeReader, tmp_path / "told", lines, given, is_expecting=True) == wanted
    untold = replay(ClaudeReader, tmp_path / "untold", lines, given, is_expecting=False)
    # What the client never wrote down and nobody announced stays open.
    assert untold.items() <= wanted.items()
    assert {mark for mark, verdict in wanted.items() if verdict is READ} <= untold.keys()


@pytest.mark.parametrize(("case", "given"), recorded_cases("claude"))
def test_a_recorded_session_read_at_once_gives_the_same(
    tmp_path: Path, case: str, given: list[Given]
) -> None:
    (tmp_path / "t").write_bytes(b"".join(recorded_lines("claude", case)))
    verdicts = ClaudeReader(str(tmp_path / "t")).judge([one.mark for one in given])
    for one in given:
        assert verdicts[one.mark] in (one.verdict, OPEN)
        assert verdicts[one.mark] is READ or one.verdict is not READ


@given(st.data())
def test_a_damaged_transcript_makes_no_wrong_verdict(data: st.DataObject) -> None:
    assert ABSENT not in replay_damaged(ClaudeReader, data, client="claude").values()
