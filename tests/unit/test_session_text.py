"""What was said in a session, out of the record of each client; the records are real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tellwire.clients.said import (
    READ_BYTES_MAX,
    Said,
    last_asked,
    read_entries,
    render,
)
from tests.clients import TELLERS

SAMPLES = Path(__file__).parent.parent / "samples"
FOLDERS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
    "pi": "pi",
}


def said_in(kind: str, name: str = "transcript.jsonl") -> list[Said]:
    return list(TELLERS[kind](read_entries(str(SAMPLES / FOLDERS[kind] / name))))


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_user_the_agent_and_its_calls_are_told_in_order_and_nothing_else_of_the_harness(
    kind: str,
) -> None:
    said = said_in(kind)
    spoken = [(each.who, each.text.strip('"')) for each in said if each.who in ("user", "agent")]
    assert spoken[0] == ("user", "Look at the note and tell me what it says.")
    agent = [text for who, text in spoken if who == "agent"]
    assert agent[:2] == ["I look at the note first.", "The first final text."]
    calls = [each.text for each in said if each.who == "tool"]
    assert any("note.txt" in call for call in calls)
    assert all(len(call) < 200 and "\n" not in call for call in calls)
    whole = json.dumps([each.text for each in said])
    for word in ("session_context", "environment_context", "skills_instructions", "hook_prompt", "&lt;"):
        assert word not in whole
    assert "The parser is finished." not in whole, "what a tool answered stays out"
    assert [each.at for each in said] == sorted(each.at for each in said)
    assert all(each.at > 1_700_000_000 for each in said)


@pytest.mark.parametrize("kind", ["claude-code", "codex", "gemini-cli", "pi"])
def test_what_a_hook_put_in_is_told_as_received_not_as_the_users_word(kind: str) -> None:
    notes = [each.text for each in said_in(kind) if each.who == "note"]
    assert notes
    assert all(note.startswith("<peer-message ") for note in notes)


def test_what_kept_a_turn_of_claude_code_going_is_told() -> None:
    notes = [each.text for each in said_in("claude-code", "reader_block.jsonl") if each.who == "note"]
    assert any("hello mblock" in note for note in notes)


def test_a_sub_agents_words_are_not_the_sessions() -> None:
    texts = [each.text for each in said_in("claude-code", "transcript-subagent1.jsonl")]
    assert texts == []


def test_lines_of_gemini_replace_and_take_back_earlier_ones() -> None:
    def entry(name: str, text: str, kind: str = "user") -> dict[str, object]:
        return {"id": name, "type": kind, "content": text, "timestamp": "2026-11-16T00:00:00Z"}

    first = [entry("1", "one"), entry("2", "two", "gemini"), entry("2", "two, longer", "gemini")]
    assert [each.text for each in TELLERS["gemini-cli"](first)] == ["one", "two, longer"]
    cut = [*first, {"$rewindTo": "2"}, entry("3", "three")]
    assert [each.text for each in TELLERS["gemini-cli"](cut)] == ["one", "three"]
    replaced = [*first, {"$set": {"messages": [entry("9", "new")]}}]
    assert [each.text for each in TELLERS["gemini-cli"](replaced)] == ["new"]


def test_of_pis_tree_only_the_branch_that_goes_on_is_told() -> None:
    def entry(name: str, parent: str | None, text: str) -> dict[str, object]:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        return {"type": "message", "id": name, "parentId": parent, "message": message}

    tree = [entry("a", None, "one"), entry("b", "a", "given up"), entry("c", "a", "two")]
    assert [each.text for each in TELLERS["pi"](tree)] == ["one", "two"]
    knot = [entry("a", "b", "one"), entry("b", "a", "two")]
    assert [each.text for each in TELLERS["pi"](knot)] == ["one", "two"], "a circle ends"


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("claude-code", "injected by Stop"),
        ("codex", "injected by Stop"),
        ("gemini-cli", "injected by AfterAgent"),
    ],
)
def test_what_was_asked_last_is_found_also_if_a_hook_put_it_in(kind: str, asked: str) -> None:
    assert asked in last_asked(TELLERS[kind], str(SAMPLES / FOLDERS[kind] / "transcript.jsonl"))


def test_where_no_record_is_nothing_was_asked(tmp_path: Path) -> None:
    assert last_asked(TELLERS["codex"], str(tmp_path / "missing")) == ""
    assert last_asked(TELLERS["codex"], "") == ""
    assert last_asked(TELLERS["codex"], str(tmp_path)) == ""


# -- rendering ----------------------------------------------------------------------------------------


def talk(count: int) -> list[Said]:
    return [Said(1_800_000_000 + n, "user" if n % 2 == 0 else "agent", f"word {n}") for n in range(count)]


def test_the_end_is_kept_whole_entries_at_a_time() -> None:
    whole = render(talk(6), agent="bob", since=0, chars=10_000)
    assert not whole.is_cut
    assert whole.text.startswith("### user · 2027-01-15 08:00:00 UTC\n\nword 0\n\n### bob · ")
    cut = render(talk(6), agent="bob", since=0, chars=120)
    assert cut.is_cut
    assert cut.text.startswith("### ")
    assert cut.text.endswith("word 5")
    assert len(cut.text) <= 120
    assert whole.text.endswith(cut.text)


def test_one_long_entry_is_cut_with_a_mark() -> None:
    found = render([Said(1.0, "agent", "x" * 500)], agent="bob", since=0, chars=100)
    assert (found.text, found.is_cut) == ("…" + "x" * 99, True)


def test_since_leaves_out_what_is_older() -> None:
    found = render(talk(6), agent="bob", since=1_800_000_004, chars=10_000)
    assert "word 3" not in found.text
    assert "word 4" in found.text
    assert found.last_at == 1_800_000_005


def test_tool_calls_stand_beneath_what_the_agent_said() -> None:
    said = [Said(1.0, "agent", "I look."), Said(1.0, "tool", "Read `a`"), Said(1.0, "agent", "Done.")]
    text = render(said, agent="bob", since=0, chars=1_000).text
    assert text.count("### ") == 1
    assert "- `Read 'a'`" in text


# -- bad records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TELLERS)
def test_garbage_in_a_record_is_passed_over(kind: str, tmp_path: Path) -> None:
    sample = (SAMPLES / FOLDERS[kind] / "transcript.jsonl").read_bytes().splitlines()
    garbage = [
        b"\xff\xfe",
        b"[1]",
        b"null",
        b'{"type": 7, "message": 3, "id": 1}',
        b'{"parts": 1, "info": []}',
    ]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(b"\n".join([*garbage, *sample, b'{"half']))
    found = list(TELLERS[kind](read_entries(str(mixed))))
    assert [each.text for each in found] == [each.text for each in said_in(kind)]


def test_of_a_huge_record_only_the_end_is_read(tmp_path: Path) -> None:
    record = tmp_path / "huge.jsonl"
    with record.open("wb") as file:
        file.truncate(READ_BYTES_MAX + 1_000)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"type": "user", "message": {"content": "the last word"}}\n')
    entries = read_entries(str(record))
    assert [entry["message"]["content"] for entry in entries] == ["the last word"]


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=r"is not a file|[Dd]irectory"):
            read_entries(str(path))
