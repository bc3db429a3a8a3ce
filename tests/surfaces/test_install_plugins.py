"""`tellwire install` where a plugin is concerned: a folder for Claude Code, the first plugin of OpenCode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surfaces.install_world import Person


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_claude_code_gets_a_plugin_folder_that_goes_again(me: Person) -> None:
    me.has_all()
    before = me.files()
    done = me.run("install", "claude", "--plugin", "../plugin", "--yes")
    assert done.code == 0, done
    assert f"claude --plugin-dir {me.home}/plugin" in done.out
    folder = me.home / "plugin"
    manifest = json.loads((folder / ".claude-plugin/plugin.json").read_text())
    assert (manifest["name"], bool(manifest["version"])) == ("tellwire", True)
    assert json.loads((folder / ".mcp.json").read_text())["mcpServers"]["tellwire"]["type"] == "stdio"
    hooks = folder / "hooks/hooks.json"
    assert {"SessionStart", "PostToolBatch", "Stop"} <= set(json.loads(hooks.read_text())["hooks"])
    assert set(me.files()) - set(before) == {
        "plugin/.claude-plugin/plugin.json",
        "plugin/.mcp.json",
        "plugin/hooks/hooks.json",
    }, "the settings are left alone"
    assert "nothing to do" in me.run("install", "claude", "--plugin", "../plugin", "--yes").out
    assert me.run("install", "claude", "--plugin", "../plugin", "--check").code == 0
    assert me.run("uninstall", "claude", "--plugin", "../plugin", "--yes").code == 0
    assert me.files() == before
    assert not folder.exists()


def test_a_plugin_folder_is_for_claude_alone(me: Person) -> None:
    me.has_all()
    for clients in (["codex"], ["claude", "codex"], ["all"]):
        done = me.run("install", *clients, "--plugin", "x", "--yes")
        assert (done.code, "--plugin works only with claude" in done.err) == (64, True)


def test_opencode_gets_ready_for_its_first_plugin_at_once(me: Person) -> None:
    me.has("opencode", "1.18.33", more='[ "$1" = debug ] && echo "$@" > "$HOME/ready" && exit 0')
    done = me.run("install", "opencode", "--yes")
    assert done.code == 0, done
    assert (me.home / "ready").read_text() == "debug config\n"
    assert "may take a minute" not in done.out


def test_opencode_that_cannot_get_ready_is_told_and_installed_all_the_same(me: Person) -> None:
    me.has("opencode", "1.18.33", more='[ "$1" = debug ] && exit 1')
    done = me.run("install", "opencode", "--yes")
    assert (done.code, "its next start may take a minute" in done.out) == (0, True)
    assert me.run("install", "opencode", "--check").code == 0
