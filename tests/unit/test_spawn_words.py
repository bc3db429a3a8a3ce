"""How children are started: the words, the environment, what holds a scope, and what a client asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellwire.children.environments import environment_of
from tellwire.children.programs import (
    FIRST_WORDS,
    LaunchRefusal,
    bounds_of,
    command_line,
    find_dialog,
    first_words,
    is_distrusted,
)
from tellwire.clients import BY_KIND, CLIENTS
from tellwire.clients.client import Bounds, ChildPlace
from tellwire.protocol.operations.scopes import ScopeRule


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """All clients, as programs that do nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for each in CLIENTS:
        (folder / each.program).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / each.program).chmod(0o755)
    return folder


@pytest.mark.parametrize("headless", [True, False])
@pytest.mark.parametrize("client", BY_KIND)
def test_the_first_words_come_last_whatever_a_caller_adds(
    bin_folder: Path, client: str, headless: bool
) -> None:
    words = command_line(client, ["-x", "y"], headless=headless, env={"PATH": str(bin_folder)}, bounds=["-b"])
    assert isinstance(words, list)
    assert words[0] == str(bin_folder / BY_KIND[client].program)
    assert words[-1] == FIRST_WORDS
    assert words.index("-x") < words.index("-b") < len(words) - 2
    assert "bypass" not in " ".join(words)
    assert "trust" not in " ".join(words)


@pytest.mark.parametrize("client", BY_KIND)
def test_a_client_that_is_missing_is_named_with_how_to_install_it(client: str) -> None:
    missing = command_line(client, [], headless=False, env={"PATH": "/nowhere"})
    assert isinstance(missing, LaunchRefusal)
    assert "is not installed" in missing.reason
    assert "npm install" in missing.advice


def test_a_child_hears_where_it_may_write() -> None:
    assert first_words(None) == FIRST_WORDS
    assert first_words([]).endswith("You may write nowhere: whatever you try to write is refused.")
    rules = [ScopeRule("/p/src"), ScopeRule("/p/doc", recursive=False), ScopeRule("/p", access="read")]
    assert first_words(rules).endswith(
        "write to /p/src, /p/doc (not beneath), and nowhere else: that is refused."
    )
    many = first_words([ScopeRule(f"/p/{number}") for number in range(64)])
    assert "/p/7 and 56 more paths" in many


# -- the environment ----------------------------------------------------------------------------------


def test_a_key_that_only_the_clients_own_settings_name_is_its_own(tmp_path: Path) -> None:
    config = '[model_providers.x]\nenv_key = "X_KEY"\n[model_providers.x.env_http_headers]\nA = "X_ACCOUNT"\n'
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(config, encoding="utf-8")
    (tmp_path / ".config/opencode").mkdir(parents=True)
    (tmp_path / ".config/opencode/opencode.json").write_text('{"apiKey": "{env:Y_KEY}"}', encoding="utf-8")
    given = {"HOME": str(tmp_path), "X_KEY": "x", "X_ACCOUNT": "a", "Y_KEY": "y", "HTTPS_PROXY": "p"}
    assert environment_of("codex", given, {}).keys() == {"HOME", "X_KEY", "X_ACCOUNT", "HTTPS_PROXY", "TERM"}
    assert environment_of("opencode", given, {}).keys() == {"HOME", "Y_KEY", "HTTPS_PROXY", "TERM"}
    assert environment_of("pi", given, {}).keys() == {"HOME", "HTTPS_PROXY", "TERM"}


@pytest.mark.parametrize("text", ["", "[", "model_providers = 3", "[model_providers]\nx = 1\n", "\0\xff"])
def test_settings_that_make_no_sense_name_no_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    given = {"CODEX_HOME": str(tmp_path), "X": "x"}
    assert environment_of("codex", given, {}).keys() == {"CODEX_HOME", "TERM"}


# -- scopes -------------------------------------------------------------------------------------------


def place(folder: Path, client: str, *command: str) -> ChildPlace:
    return ChildPlace(client, folder / "children" / "a1", {"PATH": str(folder / "bin")}, command)


def test_claude_code_may_edit_within_the_scope_and_nowhere_else(tmp_path: Path) -> None:
    scope = tmp_path / "src"
    scope.mkdir()
    bounds = bounds_of(
        place(tmp_path, "claude-code"), [ScopeRule(str(scope)), ScopeRule("/etc", access="read")]
    )
    assert (bounds.held_by, bounds.words[0]) == ("rules", "--settings")
    (text,) = bounds.files.values()
    rules = json.loads(text)["permissions"]
    assert rules["allow"] == [f"Edit(/{scope}/**)"]
    assert f"Edit(/{tmp_path}/s)" in rules["deny"]
    assert not [each for each in rules["deny"] if each.startswith(f"Edit(/{scope}/")]


def test_an_empty_scope_denies_every_edit(tmp_path: Path) -> None:
    (text,) = bounds_of(place(tmp_path, "claude-code"), []).files.values()
    assert json.loads(text)["permissions"] == {"allow": [], "deny": ["Edit(//**)"]}


@pytest.mark.parametrize(
    ("client", "command", "rule"),
    [
        ("claude-code", ("--settings", "{}"), ScopeRule("/usr/lib")),
        ("claude-code", ("--dangerously-skip-permissions",), ScopeRule("/usr/lib")),
        ("claude-code", (), ScopeRule("/usr/lib", recursive=False)),
        ("claude-code", (), ScopeRule("/no/such/folder")),
        ("claude-code", (), ScopeRule("/")),
        ("codex", ("--sandbox", "danger-full-access"), ScopeRule("/usr/lib")),
        ("codex", (), ScopeRule("/usr/lib")),
        ("gemini-cli", (), ScopeRule("/usr/lib")),
    ],
)
def test_what_is_not_sure_to_hold_does_not_count_as_held(
    bin_folder: Path, client: str, command: tuple[str, ...], rule: ScopeRule
) -> None:
    """A program named codex that has no sandbox is found out by a probe."""
    assert bounds_of(place(bin_folder.parent, client, *command), [rule]) == Bounds()


# -- what a client asks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "screen", "what"),
    [
        ("claude-code", " ❯ No, exit\n   Yes, I trust this folder\n", "whether the folder is trusted"),
        ("codex", "  Trust this folder? Codex can read, edit", "whether the folder is trusted"),
        ("codex", "  Hooks need review\n  7 hooks are new", "whether its hooks are trusted"),
        ("gemini-cli", " │ Do you trust the files in this folder?  │", "whether the folder is trusted"),
        ("gemini-cli", "│   How would you like to authenticate for", "how it is to be set up"),
        ("claude-code", "? for shortcuts", None),
        ("pi", "Trust this folder?", None),
    ],
)
def test_a_question_to_the_human_is_known_by_its_words(kind: str, screen: str, what: str | None) -> None:
    assert find_dialog(kind, screen) == what


def test_without_a_window_claude_code_begins_only_where_its_human_trusts_the_folder(tmp_path: Path) -> None:
    env, state = {"HOME": str(tmp_path)}, tmp_path / ".claude.json"
    assert is_distrusted("claude-code", "/w/p/sub", env), "it was never asked"
    trusted = {"projects": {"/w/p": {"hasTrustDialogAccepted": True}, "/w/q": {}}}
    state.write_text(json.dumps(trusted), encoding="utf-8")
    assert not is_distrusted("claude-code", "/w/p", env)
    assert not is_distrusted("claude-code", "/w/p/sub", env)
    assert is_distrusted("claude-code", "/w", env)
    assert is_distrusted("claude-code", "/w/q", env)
    assert not is_distrusted("codex", "/w", env)
    for broken in ("", "[]", '{"projects": 3}', '{"projects": {"/w/p": 1}}'):
        state.write_text(broken, encoding="utf-8")
        assert is_distrusted("claude-code", "/w/p", env)
