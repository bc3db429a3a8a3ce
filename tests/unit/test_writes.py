"""What tool calls would write, out of what the real clients told before they ran."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tellwire.relay.writes import PATHS_MAX, plain_fields, targets, written_paths

SAMPLES = Path(__file__).parent.parent / "samples"
PROJECT = "/home/user/project"
KINDS = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli"}


def recorded(short: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((SAMPLES / short / "writes.json").read_text("utf-8"))
    return [row["payload"] for row in rows]


def asked(short: str, payload: dict[str, Any]) -> dict[str, Any]:
    """As our plugin passes on what its client told."""
    if short == "pi":
        tool, given = payload["toolName"], payload["input"]
    else:
        tool, given = payload["input"]["tool"], payload["output"]["args"]
    return {"hook_event_name": "write_wanted", "tool_name": tool, "tool_input": given}


def patch(text: str, tool: str = "apply_patch") -> dict[str, Any]:
    return {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {"command": text}}


@pytest.mark.parametrize(
    ("short", "paths"),
    [
        ("claude", [[f"{PROJECT}/made.txt"], [], [f"{PROJECT}/note.txt"], [], [f"{PROJECT}/book.ipynb"]]),
        ("codex", [["made.txt", "note.txt", "moved.txt", "old.txt"], []]),
        ("gemini", [["made.txt"], [f"{PROJECT}/note.txt"]]),
    ],
)
def test_what_hooks_of_the_clients_tell(short: str, paths: list[list[str]]) -> None:
    assert [written_paths(KINDS[short], payload) for payload in recorded(short)] == paths


@pytest.mark.parametrize(
    ("short", "paths"),
    [
        ("opencode", [["made.txt"], [], [f"{PROJECT}/note.txt"]]),
        ("pi", [["made.txt"], [f"{PROJECT}/note.txt"]]),
    ],
)
def test_what_our_plugins_tell(short: str, paths: list[list[str]]) -> None:
    told = [asked(short, payload) for payload in recorded(short)]
    assert [written_paths(short, payload) for payload in told] == paths


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("*** Begin Patch\n*** Add File: a b.py\n+x\n*** End Patch", ["a b.py"]),
        (
            "*** Begin Patch\r\n*** Update File: ../up.py\r\n*** Move to: /abs/new.py\r\n@@",
            ["../up.py", "/abs/new.py"],
        ),
        ("*** Add File: a\n+*** Add File: not-this\n-*** Delete File: nor-this\n", ["a"]),
        ("*** Add File: a\n+x\n  *** Add File: b\n", ["a", "b"]),
        ("*** Delete File: ä/ö\n*** Delete File: ä/ö\n", ["ä/ö"]),
        ("cat <<'EOF'\n*** Begin Patch\n*** Add File:a\n", ["a"]),
        ("*** Begin Patch\n\u00a0\u2003*** Add File: a\n+x\n\v*** Delete File: b\n", ["a", "b"]),
        ("*** Delete File: a\n \t*** Update File: b\n@@\n-x\n+y\n*** Add File: c\n", ["a", "b", "c"]),
    ],
)
def test_every_header_of_a_patch_names_a_file(text: str, paths: list[str]) -> None:
    assert written_paths("codex", patch(text)) == paths


@pytest.mark.parametrize("sign", [" ", "  ", "+", "-", "+ ", "-\t", "@@ "])
@pytest.mark.parametrize("header", ["Add File", "Update File", "Delete File", "Move to"])
def test_what_a_file_that_is_updated_holds_is_no_header(sign: str, header: str) -> None:
    for before in ("", "*** Move to: doc.new\n"):
        text = (
            f"*** Begin Patch\n  *** Update File: doc.md\n{before}@@\n"
            f" kept\n{sign}*** {header}: /etc/x\n-old\n+new\n*** End of File\n"
            "*** Add File: next\n+x\n*** End Patch\n"
        )
        moved = ["doc.new"] if before else []
        assert written_paths("codex", patch(text)) == ["doc.md", *moved, "next"]


def test_the_next_patch_of_a_text_begins_anew() -> None:
    text = "*** Update File: a\n@@\n+x\n*** End Patch\n *** Begin Patch\n *** Add File: b\n"
    assert written_paths("codex", patch(text)) == ["a", "b"]


def test_more_files_than_can_be_looked_through_are_as_none_that_is_told() -> None:
    def many(count: int) -> dict[str, Any]:
        return patch("".join(f"*** Delete File: {number}\n" for number in range(count)))

    assert len(written_paths("codex", many(PATHS_MAX)) or []) == PATHS_MAX
    assert written_paths("codex", many(PATHS_MAX + 1)) is None


@pytest.mark.parametrize(
    "given", [None, [], "x", {}, {"command": ""}, {"command": 7}, {"command": "*** Add File: "}]
)
def test_a_write_that_does_not_say_where_is_known_as_one(given: Any) -> None:
    payload = {"hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": given}
    assert written_paths("codex", payload) is None
    assert written_paths("claude-code", {**payload, "tool_name": "Write"}) is None


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"hook_event_name": ""},
        {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_input": {"file_path": "/a"}},
        {"hook_event_name": "PreToolUse"},
        {"hook_event_name": "PreToolUse", "tool_name": ["Write"]},
        {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "/a"}},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "*** Add File: a"}},
    ],
)
def test_everything_else_writes_nothing_that_is_asked_about(payload: dict[str, Any]) -> None:
    for client in ("claude-code", "codex", "gemini-cli", "opencode", "pi", "nobody", ""):
        assert written_paths(client, payload) == []


def test_of_a_payload_that_is_too_long_the_beginning_tells_where() -> None:
    whole = {
        "cwd": "/p",
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "/p/a", "content": 'say "file_path": "/q"' + "x" * 5_000},
    }
    told = plain_fields(json.dumps(whole).encode()[:4_000])
    assert (told["cwd"], written_paths("claude-code", told)) == ("/p", ["/p/a"])
    long = plain_fields(json.dumps(patch("*** Add File: a\n" + "+x\n" * 5_000)).encode()[:4_000])
    assert written_paths("codex", long) is None


def test_paths_are_what_they_are_on_disk(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    where = str(real.resolve())
    assert targets("codex", ["link/new/a.py"], str(tmp_path)) == [f"{where}/new/a.py"]
    assert targets("codex", ["../real/a", str(link / "a"), "./a"], str(link)) == [f"{where}/a"]
    assert targets("codex", ["x/../../a"], str(real)) == [f"{tmp_path.resolve()}/a"]


def test_where_clients_differ_all_that_a_path_can_mean_counts() -> None:
    home = os.path.realpath(os.path.expanduser("~"))
    assert targets("gemini-cli", ["~/a"], "/p") == [f"{home}/a", "/p/~/a"]
    assert targets("pi", ["@b"], "/p") == ["/p/@b", "/p/b"]
    assert targets("pi", ["file:///c"], "/p")[-1] == "/c"
