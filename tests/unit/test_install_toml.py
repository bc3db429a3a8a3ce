"""Editing TOML: tables of ours come and go, everything else stays byte for byte."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellwire.clients.codex.trust import event_word, trust_hash
from tellwire.clients.entries import Hooks, MemberEntry
from tellwire.install.formats import toml_text
from tellwire.install.formats.jsonc import BadTextError
from tellwire.install.formats.toml_file import TomlText

TOML = TomlText()
COMMAND = "exec /usr/bin/python3 -I -S /opt/tellwire/relay/hook.py codex"
SERVER = MemberEntry(("mcp_servers", "tellwire"), {"command": "/usr/bin/python3", "args": ["-I", 'a"b\\']})
ENTRIES = (
    SERVER,
    Hooks("Stop", ({"type": "command", "command": COMMAND, "timeout": 10},)),
    Hooks("PostToolUse", ({"type": "command", "command": COMMAND, "timeout": 10},)),
)
PIECES = st.lists(
    st.sampled_from(
        [
            'model = "x" # [mcp_servers.tellwire]\n',
            "s1 = '''\n[[hooks.Stop]]\n'''\n",
            's2 = """a \\""" b\n[x]\n"""\n',
            "list = [ # c ]\n  1,\n  [2, 3], # [y]\n]\n",
            "\n",
            "# a comment\n",
            "when = 2026-01-02T03:04:05Z\r\n",
            "inline = { a = 1, b = [1] }\n",
        ]
    ),
    max_size=5,
    unique=True,
)
TABLES = st.lists(
    st.sampled_from(
        [
            "[mcp_servers.other]\ncommand = 'c'\n",
            '[projects."/home/me/[x]"]\ntrust_level = "trusted"\n\n',
            "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'mine'\n",
            "[[hooks.PreToolUse]]\nmatcher = 'x'\nhooks = [{ type = 'command', command = 'y' }]\n",
            "  [ spaced . out ]  # tail\n  a = 1\n# behind\n",
            '[hooks.state."/f:stop:0:0"]\ntrusted_hash = "sha256:1"\n',
            "[empty]\n",
        ]
    ),
    max_size=5,
    unique=True,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A valid file, with a newline at its end."""
    return "".join(draw(PIECES)) + "".join(draw(TABLES))


@settings(deadline=None)
@given(texts())
def test_what_is_put_in_goes_again_without_a_trace(text: str) -> None:
    after = TOML.apply(text, ENTRIES)
    assert after.startswith(text)
    assert TOML.apply(after, ENTRIES) == after
    values, before = tomllib.loads(after), tomllib.loads(text)
    assert values["mcp_servers"]["tellwire"] == SERVER.value
    assert values["hooks"]["Stop"][:-1] == before.get("hooks", {}).get("Stop", [])
    assert TOML.strip(after, ENTRIES, None, "/f/config.toml") == text


@settings(deadline=None)
@given(texts(), texts())
def test_what_others_write_behind_it_stays(text: str, more: str) -> None:
    tables = more[more.find("[") :] if more.startswith("[") else ""
    try:
        tomllib.loads(text + "\n" + tables)
    except tomllib.TOMLDecodeError:
        tables = "[later]\nx = 1\n"
    after = TOML.apply(text, ENTRIES) + "\n" + tables
    assert TOML.strip(after, ENTRIES, None, "/f/config.toml") == text + "\n" + tables


@settings(deadline=None)
@given(texts(), st.sampled_from(["command", "args"]), st.sampled_from(["Stop", "PostToolUse"]))
def test_an_outdated_entry_is_set_right_in_its_place(text: str, key: str, event: str) -> None:
    old = MemberEntry(SERVER.path, {**SERVER.value, key: "/gone"})
    moved = {"type": "command", "command": COMMAND.replace("/opt", "/old"), "timeout": 5}
    before = TOML.apply(text, (old, Hooks(event, (moved,)), *ENTRIES[1:]))
    before = re.sub(r"(?m)^(\[mcp_servers.tellwire\]\r?\n)", r"\1enabled = false # mine\n", before)
    after = TOML.apply(before, ENTRIES)
    assert tomllib.loads(after)["mcp_servers"]["tellwire"] == {**SERVER.value, "enabled": False}
    assert after.count("\n") == before.count("\n")
    assert "enabled = false # mine\n" in after
    assert TOML.strip(after, ENTRIES, None, "/f/config.toml") == text


def test_a_foreign_hook_in_our_group_stays() -> None:
    after = TOML.apply("", ENTRIES) + "\n[[hooks.PostToolUse.hooks]]\ntype = 'command'\ncommand = 'mine'\n"
    left = tomllib.loads(TOML.strip(after, ENTRIES, None, "/f"))
    assert left == {"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]}}


def test_the_trust_given_to_our_hooks_goes_with_them() -> None:
    text = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "mine"\n'
    mine = '[hooks.state."/f:stop:0:0"]\ntrusted_hash = "a"\n'
    ours = '\n[hooks.state."/f:stop:1:0"]\ntrusted_hash = "b"\n'
    after = TOML.apply(text, ENTRIES) + "\n[hooks.state]\n\n" + mine + ours
    assert TOML.strip(after, ENTRIES, None, "/f") == text + "\n[hooks.state]\n\n" + mine


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { tellwire = { command = 'x' } }\n",
        "mcp_servers.tellwire.command = 'x'\n",
        "[hooks]\nStop = []\n[mcp_servers]\ntellwire = { command = 'x' }\n",
        f"[hooks]\nStop = [{{ hooks = [{{ type = 'command', command = '{COMMAND}' }}] }}]\n",
    ],
)
def test_our_name_in_an_inline_table_is_refused_not_guessed(text: str) -> None:
    with pytest.raises(BadTextError, match="its own header"):
        TOML.apply(text, ENTRIES)
    with pytest.raises(BadTextError, match="its own header"):
        TOML.strip(text, ENTRIES, None, "/f")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a = \n", 1, 5), ("a = 1\n[b\n", 2, 3), ("a = 1\na = 2\n", 2, 6), ("a = [\n", 2, 1)],
)
def test_a_mistake_is_told_with_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(BadTextError) as caught:
        toml_text.load(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("event", "hook", "matcher", "known"),
    [
        (
            "Stop",
            {"command": "exec '/opt/my tools/palaver/relay/hook.py' codex # ü", "timeout": 10},
            None,
            "c6efb43a20690653f38b9af2df859fe90a5aa031f39b3e585761be8c53ea7f0c",
        ),
        (
            "SessionEnd",
            {"command": "exec /opt/palaver/relay/hook.py codex", "timeout": 30},
            None,
            "10349757bddcc7b22c6deace5631c07fc6c3492f97f06425910ebd44029f99a2",
        ),
        (
            "PostToolUse",
            {"command": "exec /opt/palaver/relay/hook.py codex"},
            "*",
            "f2f7aaf73adf225df58d921382d38ade505311656ca6fb0f74f40e7ae8fa57a5",
        ),
    ],
)
def test_trust_is_hashed_as_codex_0_166_does(
    event: str, hook: dict[str, Any], matcher: str | None, known: str
) -> None:
    assert trust_hash(event, hook, matcher) == f"sha256:{known}"


def test_events_have_codex_own_words() -> None:
    assert [event_word(each) for each in ("Stop", "UserPromptSubmit", "Interrupt")] == [
        "stop",
        "user_prompt_submit",
        "interrupt",
    ]
