"""Claude Code's transcript, case by case: what a request holds, and which were answered."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.claude.transcript import ClaudeReader
from tellwire.clients.events import Verdict
from tests.unit.transcripts import (
    ABSENT,
    JSON,
    MARK,
    OPEN,
    READ,
    TEXT,
    judged,
    moment,
    stamp,
    write,
)


def hook_text(second: float, text: str = TEXT, **fields: Any) -> dict[str, Any]:
    attachment = {"type": "hook_additional_context", "content": [text], "hookEvent": "PostToolBatch"}
    return {"type": "attachment", "attachment": attachment, "timestamp": stamp(second), **fields}


def hook_log(second: float, text: str = TEXT) -> dict[str, Any]:
    stdout = json.dumps({"hookSpecificOutput": {"additionalContext": text}})
    return {
        "type": "attachment",
        "attachment": {"type": "hook_success", "stdout": stdout, "exitCode": 0},
        "timestamp": stamp(second),
    }


def blob(name: str, text: str = TEXT) -> dict[str, Any]:
    message = {"role": "system", "content": [{"type": "text", "text": text}]}
    return {"type": "api-request-blob", "hash": name, "message": message}


def request(name: str, second: float, tail: list[str], **fields: Any) -> dict[str, Any]:
    return {"type": "api-request", "id": name, "timestamp": stamp(second), "keep": 0, "tail": tail, **fields}


def answer(ref: str, second: float = 50, text: str = "done", **fields: Any) -> dict[str, Any]:
    message = {"id": f"msg_{ref}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {
        "type": "assistant",
        "isSidechain": False,
        "message": {**message, "model": "claude"},
        "requestRef": ref,
        "timestamp": stamp(second),
        **fields,
    }


def user(second: float, content: Any) -> dict[str, Any]:
    return {"type": "user", "timestamp": stamp(second), "message": {"role": "user", "content": content}}


def queued(second: float, operation: str, content: str | None = None) -> dict[str, Any]:
    entry = {"type": "queue-operation", "operation": operation, "timestamp": stamp(second)}
    return entry if content is None else {**entry, "content": content}


def hash_of(content: Any, role: str = "user") -> str:
    told = json.dumps(
        {"content": content, "role": role}, separators=(",", ":"), ensure_ascii=False, sort_keys=True
    )
    return hashlib.sha256(told.encode()).hexdigest()


class Session:
    """One transcript and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "session.jsonl"
        self.now = moment(10)
        self.reader = ClaudeReader(str(self.path), clock=lambda: self.now)

    def __call__(self, *entries: dict[str, Any] | bytes) -> Verdict:
        write(self.path, *entries)
        return self.reader.judge([MARK])[MARK]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_a_text_is_read_when_a_request_with_it_is_answered(session: Session) -> None:
    assert session() is OPEN
    assert session(hook_log(11), hook_text(11)) is OPEN
    assert session(blob("b1"), request("r1", 12, ["a0", "b1"])) is OPEN
    assert session(answer("r1")) is READ
    assert session.reader.evidence == "request"


def test_what_a_hook_wrote_proves_nothing(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(hook_log(11)) is OPEN
    assert session(request("r1", 9, ["a0"]), answer("r1")) is OPEN, "it began before the hand-over"
    assert session(request("r2", 12, [], base="r1", keep=1)) is OPEN
    assert session(answer("r2")) is ABSENT


def test_a_request_may_be_written_down_before_what_it_holds(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(blob("b1"), request("r1", 12, ["b1"]), hook_text(11)) is OPEN
    assert session(answer("r1")) is READ


def test_a_request_may_be_written_down_behind_its_answer(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(hook_text(11), answer("r1")) is OPEN
    assert session(blob("b1")) is OPEN
    assert session(request("r1", 12, ["b1"])) is READ


def test_a_late_request_without_the_text_shows_that_it_is_absent(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(answer("r1"), request("r1", 9, ["a0"])) is OPEN, "it began before the hand-over"
    assert session(answer("r2"), request("r2", 12, ["a0"])) is ABSENT


def test_a_request_that_was_slow_to_be_written_is_not_taken_for_a_later_one(session: Session) -> None:
    assert session(request("r0", 1, ["a0"]), answer("r0")) is OPEN
    session.reader.expect(MARK)
    assert session(request("r1", 9.9, ["a1"]), answer("r1")) is OPEN
    assert session(hook_text(10.1), blob("b1"), request("r2", 10.2, ["b1"]), answer("r2")) is READ


def test_esc_takes_a_text_out_again(session: Session) -> None:
    assert session(hook_text(11), blob("b1"), request("r1", 12, ["a0", "b1"])) is OPEN
    assert session(user(20, "next prompt"), request("r2", 21, ["a0", "a2"], base="r1", keep=0)) is OPEN
    assert session(answer("r2")) is ABSENT


def test_esc_may_leave_a_text_where_it_is(session: Session) -> None:
    assert session(hook_text(11), blob("b1"), request("r1", 12, ["a0", "b1"])) is OPEN
    assert session(request("r2", 21, ["a2"], base="r1", keep=2), answer("r2")) is READ


def test_what_is_kept_of_an_earlier_request_is_counted_exactly(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["a0", "b1", "a1"]))
    assert (
        session(request("r2", 13, ["a2"], base="r1", keep=3), request("r3", 14, [], base="r2", keep=1))
        is OPEN
    )
    assert session(answer("r3")) is ABSENT


def test_retries_count_when_one_is_answered(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["b1"]))
    error = answer("r1", text="API Error", isApiErrorMessage=True)
    assert session({"type": "system", "subtype": "api_error"}, error) is OPEN
    assert session(request("r2", 13, [], base="r1", keep=1), request("r3", 14, [], base="r2", keep=1)) is OPEN
    assert session(answer("r3")) is READ


def test_what_the_client_says_itself_is_no_answer(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["b1"]))
    made_up = answer("", text="No response requested.")
    made_up["message"]["model"] = "<synthetic>"
    assert session(made_up) is OPEN
    assert session(request("r2", 20, ["b1"]), answer("r2")) is READ, "a blob is written once, and stays known"


def test_a_compaction_takes_a_text_out(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["b1"]))
    assert session({"type": "system", "subtype": "compact_boundary"}, user(20, "summary")) is OPEN
    assert session(blob("s1", "summary"), request("r2", 21, ["s1"]), answer("r2")) is ABSENT


def test_what_a_sub_agent_gets_is_none_of_ours(session: Session) -> None:
    session.reader.expect(MARK)
    theirs = [hook_text(11, isSidechain=True), blob("b1") | {"agentId": "a1"}]
    asked = request("r1", 12, ["b1"], agentId="a1", querySource="agent:builtin:general-purpose")
    assert session(*theirs, asked, answer("r1", isSidechain=True, agentId="a1")) is OPEN
    assert session(request("r2", 13, ["a0"]), answer("r2")) is ABSENT


def test_a_queued_text_is_open_until_it_is_taken(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(queued(11, "enqueue", TEXT)) is OPEN
    assert session(request("r1", 12, ["a0"]), answer("r1")) is OPEN
    queued_command = hook_text(11)
    queued_command["attachment"] = {"type": "queued_command", "prompt": TEXT}
    assert session(queued(15, "remove", TEXT), queued_command) is OPEN
    assert session(blob("b1"), request("r2", 16, ["b1"]), answer("r2")) is READ


def test_a_text_that_was_added_to_a_queued_prompt_waits_with_it(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(queued(10.1, "enqueue", "typed during the turn")) is OPEN
    assert session(request("r1", 12, ["a0"]), answer("r1")) is OPEN
    assert session(queued(13, "popAll"), request("r2", 14, ["a0"]), answer("r2")) is ABSENT


def test_other_messages_in_the_queue_do_not_hide_an_absence(session: Session) -> None:
    session(queued(9, "enqueue", "an older one"))
    session.reader.expect(MARK)
    session(queued(11, "enqueue", "x"), queued(12, "remove", "x"))
    assert session(request("r1", 13, ["a0"]), answer("r1")) is ABSENT


@pytest.mark.parametrize("content", [TEXT, [{"type": "tool_result", "tool_use_id": "t1", "content": TEXT}]])
def test_a_message_of_its_own_is_found_by_its_hash(session: Session, content: Any) -> None:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    assert session(user(11, content), request("r1", 12, ["a0", hash_of(parts)])) is OPEN
    assert session(answer("r1")) is READ


def test_messages_in_a_row_are_one_for_the_model(session: Session) -> None:
    parts = [
        [{"type": "tool_result", "tool_use_id": n, "content": text}] for n, text in (("1", TEXT), ("2", "é"))
    ]
    session(user(11, parts[0]), user(11, parts[1]), request("r1", 12, [hash_of(parts[0] + parts[1])]))
    assert session(answer("r1")) is READ


def test_a_message_is_absent_only_if_every_other_one_is_known(session: Session) -> None:
    session(user(11, TEXT), request("r1", 12, ["unknown"]))
    assert session(answer("r1")) is OPEN
    assert session(blob("s1", "summary"), request("r2", 13, ["s1"]), answer("r2")) is ABSENT


def test_an_unknown_base_or_request_proves_no_absence(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(answer("gone")) is OPEN
    assert session(request("r1", 12, ["a0"], base="gone", keep=3), answer("r1")) is OPEN
    assert session(request("c1", 13, [], base="c1", keep=3), answer("c1")) is OPEN
    assert session(request("r2", 14, ["a0"]), answer("r2")) is ABSENT


def test_a_lost_line_proves_no_absence(session: Session) -> None:
    cut = json.dumps(blob("b1")).encode()[:-30] + b"\n"
    assert session(hook_text(11), cut, request("r1", 12, ["b1"]), answer("r1")) is OPEN


def test_a_line_without_its_end_waits(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["b1"]))
    line = json.dumps(answer("r1")).encode()
    assert session(line) is OPEN
    assert session(b"\n") is READ


def test_a_resumed_session_may_bring_a_text_back(session: Session) -> None:
    session(hook_text(11), blob("b1"), request("r1", 12, ["a0", "b1"]))
    assert session(request("r2", 20, ["a0"]), answer("r2")) is ABSENT
    session.now = moment(30)
    session.reader.expect(MARK)
    assert session(request("r3", 31, ["a0", "b1"]), answer("r3")) is READ


def test_a_text_handed_over_again_is_judged_anew(session: Session) -> None:
    session.reader.expect(MARK)
    assert session(request("r1", 12, ["a0"]), answer("r1")) is ABSENT
    session.now = moment(20)
    session.reader.expect(MARK)
    assert session(request("r2", 19, ["a0"]), answer("r2")) is OPEN
    assert session(hook_text(20.5), blob("b1"), request("r3", 21, ["b1"]), answer("r3")) is READ


def test_a_new_reader_finds_what_was_taken_up_before_it_was_told(session: Session) -> None:
    write(session.path, hook_text(1), blob("b1"), request("r1", 2, ["b1"]))
    session.reader.judge(["id=other from=x"])
    session.reader.expect(MARK)
    assert session(request("r2", 12, [], base="r1", keep=1), answer("r2")) is READ


def test_without_requests_the_order_of_the_entries_has_to_do(session: Session) -> None:
    def old(name: str, second: float) -> dict[str, Any]:
        return answer(name, second) | {"requestRef": ""}

    session.reader.expect(MARK)
    assert session(user(1, "hello"), old("m1", 12)) is OPEN, "asked before the hand-over"
    assert session(hook_log(13), hook_text(13)) is OPEN
    assert session(old("m1", 14)) is OPEN, "the rest of an answer that had begun before"
    assert session(old("m2", 15)) is READ
    assert session.reader.evidence == "transcript"
    session.now = moment(20)
    session.reader.expect("id=m2 from=x")
    session(user(21, "more"), old("m3", 22))
    assert session.reader.judge(["id=m2 from=x"]) == {"id=m2 from=x": ABSENT}


ENTRIES = st.sampled_from(
    [
        hook_text(11),
        blob("b1"),
        request("r1", 12, ["b1"]),
        answer("r1"),
        user(11, TEXT),
        queued(11, "enqueue", TEXT),
    ]
)


@given(st.lists(ENTRIES.map(dict) | st.dictionaries(st.text(max_size=5), JSON), max_size=6), st.data())
def test_no_entry_makes_the_reader_fail(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    for entry in entries:
        if entry and data.draw(st.booleans()):
            entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON)
    lines = [json.dumps(entry).encode() + b"\n" for entry in entries]
    assert MARK in judged(ClaudeReader, lines, [MARK])
