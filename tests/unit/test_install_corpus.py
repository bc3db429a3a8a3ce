"""Files in every style that people and programs write: edited in that style, and given back byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.test_install_plan import Desk, write

JSON = {
    "nothing": "",
    "an empty object": "{}",
    "an empty object on two lines": "{\n}\n",
    "two spaces": '{\n  "model": "x",\n  "list": [\n    1\n  ]\n}\n',
    "four spaces": '{\n    "model": "x"\n}\n',
    "tabs": '{\n\t"model": "x",\n\t"env": {\n\t\t"A": "1"\n\t}\n}\n',
    "CRLF": '{\r\n  "model": "x",\r\n  "env": {}\r\n}\r\n',
    "CRLF and tabs": '{\r\n\t"model": "x"\r\n}',
    "no line end": '{\n  "model": "x"\n}',
    "blank lines around": '\n\n{\n  "model": "x"\n}\n\n\n',
    "one line": '{"model": "x", "env": {"A": "1"}}\n',
    "one line, no blanks": '{"model":"x","env":{"A":"1"}}',
    "one line in braces with blanks": '{ "model": "x" }\n',
    "one-line hooks": '{\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]},\n'
    '  "model": "x"\n}\n',
    "one-line servers": '{\n  "mcpServers": {"other": {"command": "o", "args": ["-x"]}},\n  "z": 1\n}\n',
    "one-line permissions": '{\n  "permissions": {"allow": ["Bash(ls)", "Read"], "deny": []}\n}\n',
    "everything on one line": '{"permissions": {"allow": []}, "hooks": {"Stop": []}, "mcpServers": {}}',
    "empty containers": '{\n  "permissions": {},\n  "hooks": {},\n  "mcpServers": {}\n}\n',
    "empty containers with a line": '{\n  "mcpServers": {\n  },\n  "hooks": {\n\n  }\n}\n',
    "first member beside the brace": '{"model": "x",\n "env": {}\n}\n',
    "other letters": '{\n  "name": "é日🎉",\n  "esc": "\\u00e9"\n}\n',
    "a byte order mark": '\ufeff{\n  "model": "x"\n}\n',
}
COMMENTED = {
    "comments": '{\n  // which\n  "model": "x", // the good one\n  /* all */ "env": {} // none\n}\n// end\n',
    "a comment alone": "{\n  // nothing yet\n}\n",
    "a comment in an empty object": '{\n  "mcp": { /* later */ },\n  "hooks": {} // none\n}\n',
    "comments and CRLF": '{\r\n  // which\r\n  "model": "x" // good\r\n}\r\n',
}
TRAILING = {
    "a trailing comma": '{\n  "model": "x",\n}\n',
    "trailing commas and comments": '{\n  "mcp": {\n    "a": {"type": "local",}, // mine\n  },\n}\n',
}
TOML = {
    "nothing": "",
    "keys": 'model = "x" # good\n',
    "CRLF": 'model = "x"\r\n\r\n[tui]\r\ntheme = "dark"\r\n',
    "no line end": '[tui]\ntheme = "dark"',
    "tables and comments": '# mine\nmodel = "x"\n\n[mcp_servers.a]\ncommand = "a"\n\n# the end\n',
    "a list of tables": '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "beep"\n',
    "inline tables": 'notify = ["beep"]\ntui = { theme = "dark", width = 80 }\n',
}
FILES = {
    "claude": [(JSON, ".claude/settings.json"), (JSON, ".claude.json")],
    "gemini": [({**JSON, **COMMENTED}, ".gemini/settings.json")],
    "opencode": [
        ({**JSON, **COMMENTED, **TRAILING}, ".config/opencode/opencode.json"),
        ({**JSON, **COMMENTED, **TRAILING}, ".config/opencode/tui.jsonc"),
    ],
    "codex": [(TOML, ".codex/config.toml")],
}
CASES = [
    pytest.param(client, path, text, id=f"{path.rpartition('/')[2]} of {client}: {style}")
    for client, files in FILES.items()
    for corpus, path in files
    for style, text in corpus.items()
]


@pytest.mark.requirement("INST-2")
@pytest.mark.parametrize(("client", "path", "text"), CASES)
def test_a_file_in_any_style_is_given_back_byte_for_byte(
    tmp_path: Path, client: str, path: str, text: str
) -> None:
    desk = Desk(tmp_path)
    write(str(tmp_path / path), text)
    desk.install(client)
    assert (tmp_path / path).read_bytes() != text.encode()
    desk.uninstall(client)
    assert desk.files() == {path: text.encode()}


@pytest.mark.requirement("INST-2")
@pytest.mark.parametrize(("client", "path", "text"), CASES)
def test_without_the_copy_too_only_our_own_text_is_taken_out(
    tmp_path: Path, client: str, path: str, text: str
) -> None:
    desk = Desk(tmp_path)
    file = tmp_path / path
    write(str(file), text)
    for change in desk.install(client):
        if change.backup:
            os.unlink(change.backup)
    desk.uninstall(client)
    assert file.read_bytes().decode() == (text if text else as_emptied(path)), "byte for byte"


def as_emptied(path: str) -> str:
    """What is left of a file that was there and had nothing in it."""
    if path.endswith(".toml"):
        return ""
    kind = {"opencode.json": "config.json", "tui.jsonc": "tui.json"}.get(path.rpartition("/")[2])
    return "{}\n" if kind is None else f'{{\n  "$schema": "https://opencode.ai/{kind}"\n}}\n'


@pytest.mark.parametrize(("client", "path", "text"), CASES)
def test_new_text_has_the_style_of_the_file(tmp_path: Path, client: str, path: str, text: str) -> None:
    desk = Desk(tmp_path)
    file = tmp_path / path
    write(str(file), text)
    desk.install(client)
    after = file.read_bytes().decode()
    if "\r\n" in text:
        assert "\n" not in after.replace("\r\n", ""), "every line ends as the others do"
    if '\n\t"' in text:
        added = [line for line in after.splitlines() if line not in text.splitlines()]
        assert not [line for line in added if line.startswith(" ")], "indented by tabs"
    kept = iter(after)
    assert all(sign in kept for sign in text), "what was there is there still, in its order"


@pytest.mark.parametrize("style", ["one line", "one line, no blanks", "everything on one line"])
def test_one_line_stays_one_line(tmp_path: Path, style: str) -> None:
    desk = Desk(tmp_path)
    file = tmp_path / ".claude/settings.json"
    write(str(file), JSON[style])
    desk.install("claude")
    after = file.read_text("utf-8")
    assert after.count("\n") == JSON[style].count("\n")
    spaced = json.dumps(json.loads(after), separators=(",", ":") if "no blanks" in style else None)
    assert after.strip() == spaced


def test_a_one_line_object_among_lines_gets_no_staircase(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    file = tmp_path / ".claude/settings.json"
    write(str(file), JSON["one-line hooks"])
    desk.install("claude")
    lines = file.read_text("utf-8").splitlines()
    hooks = [line for line in lines if line.startswith('  "hooks": {"Stop": [')]
    assert len(hooks) == 1, lines
    assert hooks[0].endswith("},"), "the whole object is on that line"
    assert json.loads("{" + hooks[0].strip().rstrip(",") + "}")["hooks"]["SessionStart"]
