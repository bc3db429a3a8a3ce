"""Codex: its hooks in our words, and what its rollout proves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.codex.facts import CODEX
from tellwire.clients.codex.rollout import CodexReader
from tellwire.clients.events import HookEvent, Verdict
from tellwire.clients.ports import QUEUE_NAME as NAME
from tests.unit.transcripts import (
    ABSENT,
    JSON,
    MARK,
    OPEN,
    READ,
    SAMPLES,
    TEXT,
    judged,
    moment,
    stamp,
    write,
)

PAYLOADS = [json.loads(line) for line in (SAMPLES / "codex/reader_payloads.jsonl").read_bytes().splitlines()]


def parse(name: str, **fields: Any) -> HookEvent:
    return CODEX.hooks.parse({"session_id": "01a1e1b2", "hook_event_name": name, **fields})


# -- hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "takes_text"),
    [
        ("SessionStart", "session_started", True),
        ("UserPromptSubmit", "prompt", True),
        ("PreToolUse", "tool_wanted", False),
        ("PostToolUse", "tool_used", True),
        ("PermissionRequest", "waiting", False),
        ("Stop", "turn_ended", True),
        ("Interrupt", "interrupted", False),
        ("SessionEnd", "session_ended", False),
        ("PostCompact", "other", False),
        ("SomethingNew", "other", False),
    ],
)
def test_each_hook_has_our_word(name: str, what: str, takes_text: bool) -> None:
    event = parse(name)
    assert (event.what, event.name, event.takes_text) == (what, name, takes_text)
    assert event.continues == (name == "Stop")


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: str(payload["hook_event_name"]))
def test_what_the_client_really_sends_is_understood(payload: dict[str, Any]) -> None:
    event = CODEX.hooks.parse(payload)
    assert (event.session, event.transcript) == (payload["session_id"], payload["transcript_path"])
    assert event.turn == payload.get("turn_id", "")
    assert event.tool_call == payload.get("tool_use_id", "")
    assert event.subagent == ("agent_id" in payload)
    assert event.final_text == (payload["last_assistant_message"] if event.name == "Stop" else "")
    if event.subagent:
        assert not event.takes_text


def test_text_goes_in_as_context_and_at_the_end_as_a_block() -> None:
    for name in ("SessionStart", "UserPromptSubmit", "PostToolUse"):
        assert CODEX.hooks.answer(parse(name), TEXT) == {
            "hookSpecificOutput": {"hookEventName": name, "additionalContext": TEXT}
        }
    assert CODEX.hooks.answer(parse("Stop"), TEXT) == {"decision": "block", "reason": TEXT}
    with pytest.raises(ValueError, match="takes no text"):
        CODEX.hooks.answer(parse("PostToolUse", agent_id="01a1"), TEXT)


def test_a_tool_call_is_denied_and_nothing_else() -> None:
    assert CODEX.hooks.deny(parse("PreToolUse"), "outside your scope") == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "outside your scope",
        }
    }
    with pytest.raises(ValueError, match="keeps nothing"):
        CODEX.hooks.deny(parse("PostToolUse"), "no")


def test_what_notify_tells_is_refused() -> None:
    hidden = {"type": "agent-turn-complete", "thread-id": "01a1", "last-assistant-message": "A title"}
    with pytest.raises(ValueError, match="payload"):
        CODEX.hooks.parse(hidden)


# -- transcripts by hand ------------------------------------------------------------------------------


def line(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": stamp(second), "type": kind, "payload": payload}


def item(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return line(second, "response_item", type=kind, **payload)


def event(second: float, kind: str, **payload: Any) -> dict[str, Any]:
    return line(second, "event_msg", type=kind, **payload)


def said(second: float, role: str, text: str, name: str = "") -> dict[str, Any]:
    return item(second, "message", id=name, role=role, content=[{"type": "input_text", "text": text}])


def announced(second: float, name: str) -> list[dict[str, Any]]:
    told = event(second, "item_completed", item={"type": "AgentMessage", "id": name})
    return [told, said(second, "assistant", "done", name)]


def call(second: float, name: str = "c1") -> dict[str, Any]:
    return item(second, "function_call", call_id=name, arguments="{}")


def output(second: float, text: str = "ok") -> dict[str, Any]:
    return item(second, "function_call_output", call_id="c1", output=text)


def usage(second: float) -> dict[str, Any]:
    return line(second, "token_usage_record", response_id="r")


class Session:
    """One rollout and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rollout.jsonl"
        self.now = moment(10)
        self.reader = CodexReader(str(self.path), clock=lambda: self.now)

    def __call__(self, *entries: dict[str, Any] | bytes) -> Verdict:
        write(self.path, *entries)
        return self.reader.judge([MARK])[MARK]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


@pytest.mark.parametrize(
    "taken",
    [said(11, "developer", TEXT), said(11, "user", f"<hook_prompt>{TEXT}</hook_prompt>"), output(11, TEXT)],
)
def test_a_text_is_read_when_the_model_has_answered_with_it(session: Session, taken: dict[str, Any]) -> None:
    assert session(said(1, "user", "hello"), call(2), usage(3)) is OPEN
    assert session(taken, output(11), event(11, "token_count")) is OPEN
    assert session(*announced(12, "m1")) is OPEN
    assert session(usage(12)) is READ
    assert session.reader.evidence == "transcript"


def test_the_rest_of_a_running_answer_proves_nothing(session: Session) -> None:
    assert session(said(1, "user", "hello"), call(2), said(11, "developer", TEXT)) is OPEN
    assert session(call(12, "c2")) is OPEN
    assert session(usage(13), output(13), output(13), event(13, "token_count")) is OPEN
    assert session(*announced(14, "m1"), usage(14)) is READ


def test_a_text_that_was_never_written_down_is_absent_from_the_next_answer(session: Session) -> None:
    session(said(1, "user", "hello"), call(2), usage(3))
    session.reader.expect(MARK)
    assert session(output(11), event(11, "token_count")) is OPEN
    assert session(*announced(12, "m1"), usage(12)) is ABSENT


def test_an_answer_that_began_before_the_hand_over_proves_no_absence(session: Session) -> None:
    session(said(1, "user", "hello"))
    session.reader.expect(MARK)
    assert session(call(11), usage(12)) is OPEN
    assert session(said(12, "developer", TEXT), output(12), call(13), usage(13)) is READ


def test_esc_and_a_failed_request_are_no_answer(session: Session) -> None:
    session(said(1, "user", "hello"), call(2), usage(3), said(11, "developer", TEXT), output(11))
    assert session(said(12, "user", "<turn_aborted>"), event(12, "turn_aborted")) is OPEN
    assert session(event(13, "task_started"), event(14, "task_complete")) is OPEN
    assert session(event(15, "task_started"), said(15, "user", "again"), *announced(16, "m1")) is OPEN
    assert session(usage(16)) is READ


def test_an_answer_that_was_cut_short_is_one(session: Session) -> None:
    session(said(11, "developer", TEXT), call(12))
    assert session(said(13, "user", "<turn_aborted>"), event(13, "turn_aborted")) is READ


def compacted(second: float, *history: dict[str, Any]) -> dict[str, Any]:
    return line(second, "compacted", message="a summary", replacement_history=list(history))


def test_the_summary_of_a_compaction_is_no_answer(session: Session) -> None:
    session(said(11, "developer", TEXT), event(12, "turn_aborted"), event(13, "task_started"))
    assert session(said(13, "assistant", "a summary", "s1"), usage(13), event(13, "token_count")) is OPEN
    assert session(compacted(14, said(1, "user", "hello")["payload"])) is OPEN
    assert session(event(15, "task_complete"), event(16, "task_started"), said(16, "user", "more")) is OPEN
    assert session(*announced(17, "m1"), usage(17)) is ABSENT


def test_a_compaction_keeps_what_it_says(session: Session) -> None:
    kept = said(11, "user", f"<hook_prompt>{TEXT}</hook_prompt>")
    session(kept, said(13, "assistant", "a summary", "s1"), usage(13), compacted(14, kept["payload"]))
    assert session(said(16, "user", "more"), *announced(17, "m1"), usage(17)) is READ


@pytest.mark.parametrize(("role", "verdict"), [("user", READ), ("developer", ABSENT)])
def test_an_older_compaction_keeps_the_users_words(session: Session, role: str, verdict: Verdict) -> None:
    session(said(11, role, TEXT), line(14, "compacted", message="a summary"))
    assert session(said(16, "user", "more"), *announced(17, "m1"), usage(17)) is verdict


def test_an_answer_that_was_not_announced_counts_as_soon_as_it_is_no_summary(session: Session) -> None:
    session(said(11, "developer", TEXT), said(12, "assistant", "done", "m1"))
    assert session(usage(12), event(12, "token_count")) is OPEN
    assert session(event(13, "task_complete")) is READ


# -- a text that was queued under a name --------------------------------------------------------------

QUEUED = f"{NAME}0123456789ab:daemon:3:7"


def taken(second: float, name: str | None = QUEUED, text: str = TEXT) -> list[dict[str, Any]]:
    """A text of the queue is taken up."""
    item = {"type": "UserMessage", "client_id": name, "content": [{"type": "text", "text": text}]}
    return [said(second, "user", text), event(second, "item_completed", item=item)]


def named(*entries: dict[str, Any]) -> Verdict:
    """What is said of the name."""
    lines = [json.dumps(each).encode() + b"\n" for each in entries]
    return judged(CodexReader, lines, [QUEUED])[QUEUED]


@pytest.mark.requirement("REC-1", stage="clients")
def test_a_queued_text_is_read_when_the_model_has_answered_to_its_name() -> None:
    assert named(*taken(11)) is OPEN
    assert named(*taken(11), *announced(12, "m1"), usage(12)) is READ
    assert named(*taken(11), event(12, "turn_aborted"), said(13, "user", "more")) is OPEN


@pytest.mark.requirement("REC-1", stage="clients")
@pytest.mark.parametrize("other", [f"{QUEUED}1", "", None])
def test_nothing_but_its_name_proves_a_queued_text(other: str | None) -> None:
    answered = [*announced(12, "m1"), usage(12)]
    assert named(*taken(11, other), *answered) is OPEN
    assert named(said(10, "user", QUEUED), output(11, QUEUED), *answered) is OPEN


def test_a_queued_text_outlives_a_compaction_that_keeps_it() -> None:
    summary = [said(13, "assistant", "a summary", "s1"), usage(13)]
    later = [said(16, "user", "more"), *announced(17, "m1"), usage(17)]
    kept = said(11, "user", TEXT)["payload"]
    assert named(*taken(11), *summary, compacted(14, kept), *later) is READ
    assert named(*taken(11), *summary, compacted(14, said(1, "user", "hello")["payload"]), *later) is ABSENT


def test_without_usage_records_the_count_of_tokens_ends_an_answer(session: Session) -> None:
    session(said(11, "developer", TEXT), *announced(12, "m1"))
    assert session(event(12, "token_count")) is READ


def test_other_lines_prove_nothing(session: Session) -> None:
    told = event(11, "item_completed", item={"type": "HookPrompt", "fragments": [{"text": TEXT}]})
    assert session(told, line(11, "world_state", text=TEXT), said(11, "assistant", TEXT, "m0")) is OPEN
    assert (
        session(usage(11), event(12, "task_complete"), said(13, "user", "more"), call(14), usage(14)) is OPEN
    )


def test_escaped_text_is_found(tmp_path: Path) -> None:
    mark = 'id=m1 from="two words"'
    prompt = said(
        11, "user", "<hook_prompt>&lt;peer-message id=m1 from=&quot;two words&quot;&gt;</hook_prompt>"
    )
    write(tmp_path / "t", prompt, *announced(12, "m1"), usage(12))
    assert CodexReader(str(tmp_path / "t")).judge([mark]) == {mark: READ}


ENTRIES = st.sampled_from(
    [said(11, "user", TEXT), call(12), usage(12), compacted(13), event(1, "item_completed")]
)


@given(st.lists(ENTRIES.map(dict) | st.dictionaries(st.text(max_size=5), JSON), max_size=6), st.data())
def test_no_entry_makes_the_reader_fail(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    for entry in entries:
        if entry and data.draw(st.booleans()):
            entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON)
    lines = [json.dumps(entry).encode() + b"\n" for entry in entries]
    assert MARK in judged(CodexReader, lines, [MARK])
