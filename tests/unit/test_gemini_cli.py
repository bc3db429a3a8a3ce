"""Gemini CLI: its hooks in our words, and what its folded chat file proves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients import reader as tails
from tellwire.clients.events import HookEvent, Verdict
from tellwire.clients.gemini.chat import GeminiReader
from tellwire.clients.gemini.facts import GEMINI
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

PAYLOADS = [json.loads(line) for line in (SAMPLES / "gemini/reader_payloads.jsonl").read_bytes().splitlines()]


def parse(name: str, **fields: Any) -> HookEvent:
    return GEMINI.hooks.parse({"session_id": "e8221fc2", "hook_event_name": name, **fields})


# -- hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "takes_text"),
    [
        ("SessionStart", "session_started", True),
        ("BeforeAgent", "prompt", True),
        ("BeforeTool", "tool_wanted", False),
        ("AfterTool", "tool_used", True),
        ("Notification", "waiting", False),
        ("AfterAgent", "turn_ended", True),
        ("SessionEnd", "session_ended", False),
        ("PreCompress", "other", False),
        ("SomethingNew", "other", False),
    ],
)
def test_each_hook_has_our_word(name: str, what: str, takes_text: bool) -> None:
    event = parse(name)
    assert (event.what, event.name, event.takes_text) == (what, name, takes_text)
    assert event.continues == (name == "AfterAgent")


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: str(payload["hook_event_name"]))
def test_what_the_client_really_sends_is_understood(payload: dict[str, Any]) -> None:
    event = GEMINI.hooks.parse(payload)
    assert (event.session, event.transcript) == (payload["session_id"], payload["transcript_path"])
    assert event.prompt == (payload["prompt"] if event.name == "BeforeAgent" else "")
    assert event.final_text == "", "the payload joins all that was said, and the file is not there"


def test_text_goes_in_as_context_and_at_the_end_as_a_denial() -> None:
    for name in ("SessionStart", "BeforeAgent", "AfterTool"):
        assert GEMINI.hooks.answer(parse(name), TEXT) == {
            "hookSpecificOutput": {"hookEventName": name, "additionalContext": TEXT}
        }
    assert GEMINI.hooks.answer(parse("AfterAgent"), TEXT) == {"decision": "deny", "reason": TEXT}


@pytest.mark.requirement("REC-2", stage="clients")
def test_text_given_at_the_start_of_a_cleared_or_resumed_session_would_be_lost() -> None:
    assert parse("SessionStart", source="startup").takes_text
    assert not parse("SessionStart", source="resume").takes_text
    assert not parse("SessionStart", source="clear").takes_text


def test_a_tool_call_is_denied_and_nothing_else() -> None:
    reason = "outside your scope"
    assert GEMINI.hooks.deny(parse("BeforeTool"), reason) == {"decision": "deny", "reason": reason}
    with pytest.raises(ValueError, match="keeps nothing"):
        GEMINI.hooks.deny(parse("AfterTool"), "no")


# -- the final answer ---------------------------------------------------------------------------------


def user(second: float, text: str, name: str = "") -> dict[str, Any]:
    return {
        "id": name or f"u{second}",
        "timestamp": stamp(second),
        "type": "user",
        "content": [{"text": text}],
    }


def gemini(second: float, name: str, content: Any = "done", result: str | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": name,
        "timestamp": stamp(second),
        "type": "gemini",
        "content": content,
        "thoughts": [],
    }
    if result is None:
        return entry
    response = {"functionResponse": {"id": "c1", "response": {"output": result}}}
    return {**entry, "toolCalls": [{"id": "c1", "name": "run_shell_command", "result": [response]}]}


def replaced(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"$set": {"messages": list(messages), "lastUpdated": stamp(0)}}


TOUCHED = {"$set": {"lastUpdated": stamp(0)}}


def final_text(folder: Path, *entries: dict[str, Any] | bytes) -> HookEvent:
    path = folder / "chat.jsonl"
    path.unlink(missing_ok=True)
    write(path, *entries)
    return parse("AfterAgent", transcript_path=str(path), prompt_response="aloud\nall of it")


def test_the_final_answer_is_the_last_thing_said(tmp_path: Path) -> None:
    before = [user(1, "hello"), gemini(2, "g1", "aloud"), gemini(2, "g1", "aloud", "ok"), user(3, "result")]
    ended = final_text(tmp_path, *before, gemini(4, "g2", "the answer"), TOUCHED)
    assert (ended.what, ended.final_text, ended.continues) == ("turn_ended", "the answer", True)
    parts = [{"text": "let me think", "thought": True}, {"text": "in "}, {"text": "parts"}]
    assert final_text(tmp_path, *before, gemini(4, "g2", parts)).final_text == "in parts"


def test_what_was_said_before_a_tool_call_is_no_final_answer(tmp_path: Path) -> None:
    assert final_text(tmp_path, user(1, "hello"), gemini(2, "g1", "aloud", "ok"), TOUCHED).final_text == ""
    assert final_text(tmp_path, gemini(1, "g0", "older"), user(2, "hello")).final_text == ""


def test_a_cancelled_turn_was_interrupted_and_is_not_continued(tmp_path: Path) -> None:
    info = {"id": "i1", "type": "info", "content": "Request cancelled."}
    ended = final_text(tmp_path, gemini(2, "g1"), info, replaced(user(1, "hello"), gemini(2, "g1", "older")))
    assert (ended.what, ended.final_text) == ("interrupted", "")
    assert not ended.takes_text
    assert not ended.continues


def test_a_final_answer_is_found_behind_long_lines_and_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "_BLOCK_BYTES", 7)
    long = "é" * 500
    assert final_text(tmp_path, user(1, long), gemini(2, "g1", long), TOUCHED).final_text == long
    assert final_text(tmp_path, gemini(2, "g1", long)).final_text == long
    monkeypatch.setattr(tails, "TAIL_BYTES_MAX", 300)
    assert final_text(tmp_path, user(1, long), gemini(2, "g1", long), TOUCHED).final_text == ""
    for broken in (b"", b"\xff\n\n{", b'{"type": "gemini", "content": 5}\n'):
        assert final_text(tmp_path, broken).final_text == ""


# -- transcripts by hand ------------------------------------------------------------------------------


class Session:
    """One chat file and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "chat.jsonl"
        self.now = moment(10)
        self.reader = GeminiReader(str(self.path), clock=lambda: self.now)

    def __call__(self, *entries: dict[str, Any] | bytes) -> Verdict:
        write(self.path, *entries)
        return self.reader.judge([MARK])[MARK]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


HOOK_TEXT = f"<hook_context>{TEXT.replace('<', '&lt;').replace('>', '&gt;')}</hook_context>"


def test_a_text_is_read_when_the_model_has_answered_with_it(session: Session) -> None:
    assert session(user(11, HOOK_TEXT), TOUCHED) is OPEN
    assert session(gemini(12, "g1"), TOUCHED) is READ
    assert session.reader.evidence == "transcript"


def test_the_result_of_a_tool_is_no_answer(session: Session) -> None:
    assert session(user(1, "hello"), gemini(2, "g1", "aloud"), gemini(2, "g1", "aloud", HOOK_TEXT)) is OPEN
    assert session(user(12, HOOK_TEXT)) is OPEN
    assert session(gemini(2, "g1", "aloud", HOOK_TEXT)) is OPEN
    assert session(gemini(13, "g2")) is READ


def test_a_cancelled_turn_takes_its_text_with_it(session: Session) -> None:
    kept = [user(1, "hello", "u0"), gemini(2, "g0")]
    session(*kept, user(3, "more"), gemini(4, "g1", "aloud", HOOK_TEXT), user(12, HOOK_TEXT))
    assert session(replaced(*kept)) is OPEN
    assert session(gemini(4, "g1", "aloud", "late")) is OPEN, (
        "an old answer that is written again is no new one"
    )
    assert session(user(20, "second prompt"), gemini(21, "g2")) is ABSENT


def test_a_resumed_session_has_it_twice_and_read_once(session: Session) -> None:
    session(user(1, "hello", "u0"), gemini(2, "g1", "", HOOK_TEXT), user(12, HOOK_TEXT, "u1"))
    assert session({"sessionId": "e8221fc2", "kind": "main"}, replaced(user(1, "context", "c0"))) is OPEN
    twice = replaced(
        user(1, "hello", "u0"), gemini(2, "g1"), user(12, HOOK_TEXT, "g1"), user(12, HOOK_TEXT, "u1")
    )
    assert session({"$set": {"sessionId": "e8221fc2"}}, twice) is OPEN
    assert session(user(20, "again"), gemini(21, "g2")) is READ


def test_a_rewind_takes_out_what_follows(session: Session) -> None:
    session(user(1, "hello", "u0"), gemini(2, "g0"), user(11, HOOK_TEXT, "u1"))
    assert session({"$rewindTo": "u1"}) is OPEN
    assert session(user(20, "other"), gemini(21, "g2")) is ABSENT


def test_a_rewind_to_nowhere_takes_out_all(session: Session) -> None:
    session(user(11, HOOK_TEXT, "u1"))
    assert session({"$rewindTo": "gone"}, user(20, "other"), gemini(21, "g2")) is ABSENT


def test_a_text_that_was_never_written_down_is_absent_from_the_next_answer(session: Session) -> None:
    session(user(1, "hello"), gemini(2, "g1", "aloud"))
    session.reader.expect(MARK)
    assert session(gemini(2, "g1", "aloud", "ok")) is OPEN
    assert session(gemini(9, "g2")) is OPEN, "nothing was asked since the hand-over"
    assert session(user(12, "result")) is OPEN
    assert session(gemini(13, "g3")) is ABSENT


def test_what_the_model_says_itself_proves_nothing(session: Session) -> None:
    assert session(user(1, "hello"), gemini(2, "g1", TEXT), user(3, "more"), gemini(4, "g2")) is OPEN
    assert session({"id": "i1", "type": "info", "content": TEXT}, gemini(5, "g3")) is OPEN


ENTRIES = st.sampled_from(
    [
        user(11, HOOK_TEXT),
        gemini(2, "g1"),
        gemini(2, "g1", "", HOOK_TEXT),
        replaced(user(1, "x")),
        {"$rewindTo": "g1"},
    ]
)


@given(st.lists(ENTRIES.map(dict) | st.dictionaries(st.text(max_size=5), JSON), max_size=6), st.data())
def test_no_entry_makes_the_reader_fail(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    for entry in entries:
        if entry and data.draw(st.booleans()):
            entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON)
    lines = [json.dumps(entry).encode() + b"\n" for entry in entries]
    assert MARK in judged(GeminiReader, lines, [MARK])
