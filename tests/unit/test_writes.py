"""What tool calls would write, out of what the real clients told before they ran."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tellwire.relay.carrier import fit
from tellwire.relay.payloads import glean, parse, read, shorten
from tellwire.relay.places import UnclearError, look, resolve, targets
from tellwire.relay.writes import PATHS_MAX
from tellwire.sessions.gate_files import WRITES
from tests.clients import written_paths

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
        {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "/a"}},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "*** Add File: a"}},
    ],
)
def test_everything_else_writes_nothing_that_is_asked_about(payload: dict[str, Any]) -> None:
    for client in ("claude-code", "codex", "gemini-cli", "opencode", "pi", "nobody", ""):
        assert written_paths(client, payload) == []


@pytest.mark.parametrize("name", [None, ["Write"], 7, {}])
def test_a_call_that_does_not_say_which_tool_may_write_anywhere(name: Any) -> None:
    asked = {"hook_event_name": "PreToolUse", "tool_input": {"file_path": "/a"}}
    assert written_paths("claude-code", {**asked, "tool_name": name}) is None
    assert written_paths("claude-code", asked) is None


def test_a_patch_that_is_given_as_plain_text_is_read() -> None:
    assert written_paths("codex", {**patch(""), "tool_input": "*** Add File: a\n"}) == ["a"]


# -- payloads that are hard to read -------------------------------------------------------------------

MIB = 1 << 20


def asked_to_write(path: str = "/p/a", **more: Any) -> dict[str, Any]:
    given = {"file_path": path, "content": "x"}
    asked = {"session_id": "s", "cwd": "/p", "hook_event_name": "PreToolUse", "tool_name": "Write"}
    return {**asked, "tool_input": given, **more}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_a_payload_is_read_in_any_encoding_of_json(encoding: str) -> None:
    assert parse(json.dumps(asked_to_write("/p/ä")).encode(encoding)) == asked_to_write("/p/ä")


def test_half_a_surrogate_pair_is_what_javascript_writes_to_disk() -> None:
    told = parse(b'{"tool_input":{"file_path":"/p/a\\ud83d"},"prompt":"\\ud83d\\ude00 \\uDC00"}')
    assert told == {"tool_input": {"file_path": "/p/a\ufffd"}, "prompt": "\U0001f600 \ufffd"}
    json.dumps(told, ensure_ascii=False).encode()


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize(
    "given",
    [
        {"content": "x" * 3 * MIB, "file_path": "/p/a"},
        {"content": [{"file_path": "/q/decoy"}, "x" * 3 * MIB], "file_path": "/p/a"},
        {"edits": [{"file_path": "/q/decoy", "old": "x" * MIB}] * 3, "file_path": "/p/a"},
        {"\ud83d": "\ud83d" * MIB, "file_path": "/p/a"},
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_long_payload_tells_where_it_writes_in_any_order(given: dict[str, Any], first: bool) -> None:
    told = asked_to_write()
    del told["tool_input"]
    told = {"tool_input": given, **told} if first else {**told, "tool_input": given}
    data = json.dumps(told).encode()
    short, cut = fit(data, len(data))
    assert not cut
    assert len(short) < MIB
    assert written_paths("claude-code", read(short, cut=cut)) == ["/p/a"]


def test_a_long_patch_tells_all_of_its_files() -> None:
    text = "*** Begin Patch\n" + "".join(f"*** Add File: {n}\n{'+x' * 30_000}\n" for n in range(50))
    data = json.dumps(patch(text)).encode()
    short, _ = fit(data, len(data))
    assert written_paths("codex", read(short, cut=False)) == [str(n) for n in range(50)]


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize(
    "data",
    [
        json.dumps(asked_to_write()).encode()[:-2],
        json.dumps(asked_to_write()).encode().replace(b'"x"', b"[" * 50_000),
        b'{"tool_input":' + b"[" * 50_000 + b']],"hook_event_name":"PreToolUse"',
        json.dumps(asked_to_write()).encode().replace(b'"x"', b'"\xff"'),
        json.dumps(asked_to_write()).encode().replace(b'"x"', b'"\n"'),
        b'{"tool_input":{"hook_event_name":"PostToolUse"},"hook_event_name":"PreToolUse","tool_name":"Read"',
    ],
)
def test_what_cannot_be_read_whole_never_tells_where_it_writes(data: bytes) -> None:
    told = read(data, cut=False)
    assert told["hook_event_name"] == "PreToolUse"
    assert written_paths("claude-code", told) is None


def test_what_cannot_be_read_whole_still_tells_whose_it_is() -> None:
    told = glean(
        b'{"session_id":"s","hook_event_name":"PostToolUse","x":"say \\"PreToolUse\\" ' + b"x" * 9_000
    )
    assert (told["session_id"], told["hook_event_name"]) == ("s", "PostToolUse")
    assert written_paths("claude-code", told) == []
    with pytest.raises(ValueError, match="JSON object"):
        read(b"[1, 2]", cut=False)


def test_what_cannot_be_made_short_is_cut() -> None:
    data = json.dumps(asked_to_write(tool_input={str(n): "x" * 40 for n in range(MIB // 32)})).encode()
    assert json.loads(shorten(data, MIB))["tool_input"] is None
    assert fit(b"x" * 2 * MIB, 2 * MIB) == (b"x" * (1 << 16), True)
    assert fit(data, 1 << 27)[1]


# -- what a path is on disk ---------------------------------------------------------------------------


def real(client: str, *paths: str, cwd: str, tool: str = "") -> list[str]:
    return targets(WRITES[client], list(paths), tool=tool, cwd=cwd)


def test_paths_are_what_they_are_on_disk(tmp_path: Path) -> None:
    folder, link = tmp_path / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (tmp_path / "later").symlink_to("real/new")
    where = str(folder.resolve())
    assert real("codex", "link/new/a.py", cwd=str(tmp_path)) == [f"{where}/new/a.py"]
    assert real("codex", str(link / "a"), "./a", "a/", "./a//.", cwd=str(link)) == [f"{where}/a"]
    assert real("codex", "x/../../a", cwd=str(folder)) == [f"{tmp_path.resolve()}/a"]
    assert real("codex", "later/a", cwd=str(tmp_path)) == [f"{where}/new/a"], "not made yet"


def test_both_readings_of_a_parent_behind_a_link_count(tmp_path: Path) -> None:
    (tmp_path / "far" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/sub")
    root = str(tmp_path.resolve())
    assert real("codex", "link/../a", cwd=root) == [f"{root}/far/a", f"{root}/a"]


def test_where_clients_differ_all_that_a_path_can_mean_counts() -> None:
    home = os.path.realpath(os.path.expanduser("~"))
    assert real("gemini-cli", "~/a", cwd="/p") == [f"{home}/a", "/p/~/a"]
    assert real("claude-code", " \ufeff/p/a\n", cwd="/q")[-1] == "/p/a", "it takes blanks off"
    assert real("pi", "@b", cwd="/p") == ["/p/@b", "/p/b"]
    assert real("gemini-cli", "@/b", cwd="/p") == ["/p/@/b", "/b", "/p/b"]
    assert real("pi", "a\u202fb", cwd="/p") == ["/p/a\u202fb", "/p/a b"]
    assert "/c d" in real("pi", "file://localhost/c%20d", cwd="/p")
    assert real("pi", "file:///c%20d", cwd="/p")[-1] == "/c d"
    assert real("gemini-cli", "%73rc/a", cwd="/p") == ["/p/%73rc/a", "/p/src/a"]


@pytest.mark.parametrize(
    "path", ["", "a\0b", "/proc/self/cwd/a", "/dev/fd/1", "/dev/stdout", "a" * 5_000, "@" * 99]
)
def test_a_path_that_nobody_can_resolve_is_unclear(path: str) -> None:
    with pytest.raises(UnclearError):
        real("pi", path, cwd="/p")


@pytest.mark.parametrize("cwd", ["", ".", "p", "./p"])
def test_a_relative_path_without_a_folder_is_unclear(cwd: str) -> None:
    with pytest.raises(UnclearError):
        real("codex", "a", cwd=cwd)
    assert real("codex", "/p/a", cwd=cwd) == ["/p/a"]


def test_links_that_lead_nowhere_or_through_proc_are_unclear(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "magic").symlink_to("/proc/self/cwd")
    for name in ("loop", "loop/a", "magic/a"):
        with pytest.raises(UnclearError):
            resolve(str(tmp_path / name), {})


def test_a_relative_path_that_gemini_would_search_for_is_unclear(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    assert real("gemini-cli", "here", cwd=str(tmp_path), tool="replace")
    assert real("gemini-cli", "here/.", cwd=str(tmp_path), tool="replace") == [str(tmp_path / "here")]
    assert real("gemini-cli", "new", cwd=str(tmp_path), tool="write_file")
    with pytest.raises(UnclearError):
        real("gemini-cli", "new", cwd=str(tmp_path), tool="replace")


# -- hard links ---------------------------------------------------------------------------------------


def test_other_names_of_a_file_are_found_where_rules_are(tmp_path: Path) -> None:
    for name in ("src/deep", "flat/deep", "out"):
        (tmp_path / name).mkdir(parents=True)
    file = tmp_path / "out" / "a"
    file.touch()
    for name in ("src/deep/a", "flat/a", "flat/deep/b", "b"):
        (tmp_path / name).hardlink_to(file)

    def names(*rules: tuple[str, bool]) -> tuple[list[str], bool]:
        places = [(str(tmp_path / path), recursive) for path, recursive in rules]
        (place,) = look(WRITES["codex"], [str(file)], tool="", cwd="/", rules=places, within_s=30.0)
        return [str(Path(name).relative_to(tmp_path)) for name in place.names], place.complete

    assert names(("src", True)) == (["src/deep/a"], False)
    assert names(("src", False), ("flat", False)) == (["flat/a"], False)
    assert names(("flat", False), ("flat", True)) == (["flat/a", "flat/deep/b"], False)
    assert names(("b", True), ("missing", True)) == (["b"], False)
    assert names(("", True)) == (["b", "flat/a", "flat/deep/b", "src/deep/a"], True)
    with pytest.raises(UnclearError):
        look(WRITES["codex"], [str(file)], tool="", cwd="/", rules=[(str(tmp_path), True)], within_s=-1.0)
    alone = look(
        WRITES["codex"], [str(tmp_path / "new")], tool="", cwd="/", rules=[("/", True)], within_s=-1.0
    )
    assert [place.complete for place in alone] == [True], "what has no other name is not searched for"
