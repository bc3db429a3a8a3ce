"""`install` says before it asks: which files, what changes, what is downloaded; and it shows no secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.surfaces.install_world import Person

TOKEN = "3f9a" * 16
SETTINGS = f"""\
{{
  "model": "x",
  "hooks": {{
    "Stop": [{{"hooks": [
      {{"type": "http", "url": "http://h/x", "headers": {{"Authorization": "Bearer {TOKEN}"}}}}]}}]
  }},
  "env": {{
    "ANTHROPIC_AUTH_TOKEN": "sk-ant-very-secret-value-0123",
    "HARMLESS": "yes"
  }}
}}
"""
FETCHES = """
case "$1" in
  debug)
    mkdir -p "$HOME/.config/opencode/node_modules/@opencode-ai/plugin"
    echo x > "$HOME/.config/opencode/node_modules/@opencode-ai/plugin/index.js"
    echo '{"dependencies": {"@opencode-ai/plugin": "1.18.33"}}' > "$HOME/.config/opencode/package.json"
    echo node_modules > "$HOME/.config/opencode/.gitignore"
    echo "$npm_config_cache" > "$HOME/cache-was"
    ;;
esac
"""


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_what_is_done_to_which_file_is_told_first_and_briefly(me: Person) -> None:
    me.has_all()
    me.write(".claude.json", "{}")
    done = me.run("install", "all", "--dry-run")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) < 40, done.out
    assert "claude 2.1.325\n  edit    ~/.claude.json: mcpServers.tellwire\n" in done.out
    assert "  create  ~/.claude/settings.json: permissions.allow: mcp__tellwire__*, 9 hooks\n" in done.out
    assert "  create  ~/.pi/agent/extensions/tellwire.ts\n" in done.out
    told = "  fetch   its interface for plugins, by npm: about 63 MB into ~/.config/opencode\n"
    assert told in done.out, "nothing is downloaded without being said"
    assert "A copy of each edited file is kept beside it until you uninstall.\n" in done.out
    assert list(me.files()) == [".claude.json"]


def test_at_a_terminal_the_diff_is_shown_to_whoever_asks_for_it(me: Person) -> None:
    me.has("gemini", "0.61.0")
    me.has("less", "", more="cat")
    code, shown = me.answer("d\ny\n", "install", "gemini")
    assert code == 0, shown
    assert shown.count("d shows the diff]") == 2
    before, _, after = shown.partition("+++ ~/.gemini/settings.json")
    assert "create  ~/.gemini/settings.json" in before
    assert '"tellwire": {' in after
    assert "Asking for versions: gemini" in shown, "nobody waits without knowing for what"


def test_secrets_are_masked_in_every_diff(me: Person) -> None:
    me.has_all()
    file = me.write(".claude/settings.json", SETTINGS)
    me.write(".codex/config.toml", 'api_key = "abc-def-ghi"\nname = "me"\n')
    shown = me.run("install", "claude", "codex", "--dry-run", "--diff")
    told = json.dumps(me.json("install", "claude", "codex", "--dry-run"))
    for text in (shown.out, told):
        assert "very-secret" not in text
        assert "abc-def-ghi" not in text
        assert TOKEN not in text
        assert "********" in text
        assert "HARMLESS" in text
    assert me.run("install", "claude", "--yes").code == 0
    assert TOKEN in file.read_text("utf-8"), "what is written is not masked"
    assert TOKEN not in me.run("uninstall", "claude", "--dry-run", "--diff").out


def test_what_a_client_downloads_is_removed_with_tellwire_and_npm_keeps_no_copy(me: Person) -> None:
    me.has("opencode", "1.18.33", more=FETCHES)
    done = me.run("install", "opencode", "--yes")
    assert done.code == 0, done.err
    assert (me.home / ".config/opencode/node_modules").is_dir()
    cache = (me.home / "cache-was").read_text("utf-8").strip()
    assert cache
    assert not Path(cache).exists(), "it was a folder for that one download"
    (me.home / "cache-was").unlink()
    told = me.json("uninstall", "opencode", "--dry-run")["clients"][0]
    assert [path.rpartition("/")[2] for path in told["removes"]] == [
        "node_modules",
        ".gitignore",
        "package.json",
    ]
    gone = me.run("uninstall", "opencode", "--yes")
    assert (gone.code, me.files()) == (0, {}), gone
    assert not (me.home / ".config/opencode").exists(), "the folder was made by us"
    assert "node_modules, which was downloaded for it" in gone.out
    assert not (me.state / "downloads.json").exists()
    assert "nothing to do" in me.run("uninstall", "opencode", "--yes").out


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_somebody_else_needs_of_a_download_stays(me: Person, when: str) -> None:
    mine = {
        ".config/opencode/package.json": '{"dependencies": {"@opencode-ai/plugin": "1", "left-pad": "1"}}',
        ".config/opencode/node_modules/left-pad/index.js": "x",
    }
    me.has("opencode", "1.18.33", more=FETCHES if when == "after" else "")
    if when == "before":
        for path, text in mine.items():
            me.write(path, text)
    assert me.run("install", "opencode", "--yes").code == 0
    for path, text in mine.items():
        me.write(path, text)
    assert me.run("uninstall", "opencode", "--yes").code == 0
    assert set(mine) <= set(me.files())


def test_a_removal_that_was_interrupted_is_finished_by_the_next(me: Person) -> None:
    me.has("opencode", "1.18.33", more=FETCHES)
    assert me.run("install", "opencode", "--yes").code == 0
    (me.home / ".config/opencode/package.json").unlink()
    assert me.run("uninstall", "opencode", "--yes").code == 0
    assert not (me.home / ".config/opencode").exists()


@pytest.mark.requirement("INST-4")
def test_a_version_that_is_known_not_to_work_is_refused_with_the_reason(me: Person) -> None:
    me.has("opencode", "2.0.15")
    done = me.run("install", "opencode", "--yes")
    words = "OpenCode 2.0.15 is not supported yet: plugins of version 1 do not load there."
    assert (done.code, me.files()) == (76, {})
    assert words in done.err
    check = me.run("install", "--check", "opencode")
    assert re.search(r"opencode +2\.0\.15 +unsupported", check.out)
    assert words in check.out
    assert "run `tellwire install opencode`" not in check.out, "which would be refused"
    doctor = me.run("doctor")
    assert words in " ".join(doctor.out.split())


@pytest.mark.requirement("INST-4")
def test_a_version_that_nobody_has_tried_is_named_and_installed(me: Person) -> None:
    me.has("pi", "1.5.0")
    words = "Pi 1.5.0 is not known to work; the newest version tested is 0.87.1."
    done = me.run("install", "pi", "--yes")
    assert (done.code, words in done.out) == (0, True), done
    assert words in me.run("install", "--check", "pi").out
    doctor = me.json("doctor")
    (found,) = [check for check in doctor["checks"] if check["about"] == "pi"]
    assert (found["level"], words in found["words"]) == ("warn", True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            "echo \"Error: Cannot find module 'x'\" >&2; echo '  at y' >&2; exit 1",
            "Error: Cannot find module 'x'.",
        ),
        ("echo 'postinstall script was not run'; exit 1", "postinstall script was not run."),
        ("exit 3", "it ended with exit code 3."),
        ("kill -9 $$", "it was ended by signal 9."),
    ],
)
def test_a_client_that_cannot_start_is_told_in_its_own_words(me: Person, more: str, words: str) -> None:
    me.has("claude", "2.1.325", more=more)
    expected = f"Claude Code at {me.bin / 'claude'} does not start: {words}"
    assert expected in me.run("install", "--check", "claude").out
    done = me.run("install", "claude", "--dry-run")
    assert expected in done.out, done
    assert expected in " ".join(me.run("doctor").out.split())


@pytest.mark.parametrize(
    ("word", "name"), [("claude-code", "claude"), ("gemini-cli", "gemini"), ("pi", "pi")]
)
def test_a_client_may_be_named_by_either_of_its_words(me: Person, word: str, name: str) -> None:
    me.has_all()
    (client,) = me.json("install", word, "--dry-run")["clients"]
    assert client["client"] == name
    assert me.run("uninstall", word, "--dry-run").code == 0
