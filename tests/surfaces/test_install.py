"""`tellwire install` and `uninstall` as people and programs use them, each with a home folder of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.surfaces.install_world import VERSIONS, Person, finish

GEMINI = """\
{
  // which model
  "model": {"name": "gemini-2.5-pro"},
  "mcpServers": {
    "other": {"command": "other" /* the fast one */}
  }
}
"""
GEMINI_DIFF = """\
--- ~/.gemini/settings.json
+++ ~/.gemini/settings.json
@@ -2,6 +2,104 @@
   // which model
   "model": {"name": "gemini-2.5-pro"},
   "mcpServers": {
-    "other": {"command": "other" /* the fast one */}
+    "other": {"command": "other" /* the fast one */},
+    "tellwire": {
+      "command": "~/.local/state/tellwire/bin/tellwire-launcher",
+      "args": [
+        "mcp"
+      ],
+      "trust": true
+    }
+  },
+  "hooks": {
+    "SessionStart": [
+      {
+        "matcher": "*",
+        "hooks": [
+          {
+            "type": "command",
+            "name": "tellwire",
+            "command": "RUN gemini-cli; exit 0",
+            "timeout": 3000
+          }
+        ]
+      }
+    ],
"""
CODEX = """\
model = "gpt-5.5" # the good one

[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
command = "say done"
"""
CODEX_DIFF = """\
--- ~/.codex/config.toml
+++ ~/.codex/config.toml
@@ -4,3 +4,58 @@
 [[hooks.Stop.hooks]]
 type = "command"
 command = "say done"
+
+[mcp_servers.tellwire]
+command = "~/.local/state/tellwire/bin/tellwire-launcher"
+args = ["mcp"]
+default_tools_approval_mode = "approve"
+
+[[hooks.SessionStart]]
+
+[[hooks.SessionStart.hooks]]
+type = "command"
+command = "RUN codex; exit 0"
+timeout = 3
+
+[[hooks.UserPromptSubmit]]
+
+[[hooks.UserPromptSubmit.hooks]]
+type = "command"
+command = "RUN codex; exit 0"
+timeout = 3
+
+[[hooks.PostToolUse]]
+
+[[hooks.PostToolUse.hooks]]
+type = "command"
+command = "exec /bin/sh -c '[ -e STATE/marks/$PPID ] && [ ! -e STATE/stalled/$PPID ] && RUN codex; exit 0'"
+timeout = 3
"""


HOOK = "[ -x PYTHON ] && [ -f RELAY/hook.py ] && exec PYTHON -I -S RELAY/hook.py "


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return Person(tmp_path)


# -- installing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "path", "text", "diff"),
    [
        ("gemini", ".gemini/settings.json", GEMINI, GEMINI_DIFF),
        ("codex", ".codex/config.toml", CODEX, CODEX_DIFF),
    ],
)
def test_a_diff_is_shown_and_only_what_it_shows_is_done(
    me: Person, client: str, path: str, text: str, diff: str
) -> None:
    me.has_all()
    target = me.write(path, text)
    short = me.run("install", client, "--dry-run")
    assert "@@" not in short.out, "the diff is shown to whoever asks for it"
    dry = me.run("install", client, "--dry-run", "--diff")
    assert (dry.code, target.read_text("utf-8")) == (0, text)
    diff = diff.replace("RUN ", HOOK).replace("STATE", "~/.local/state/tellwire")
    assert dry.out.startswith(f"{client} "), "what is done to which file comes first"
    assert f"\n  edit    ~/{path}: " in short.out
    assert diff in me.plain(dry.out), me.plain(dry.out)
    assert not me.state.exists()
    done = me.run("install", client, "--yes", "--diff")
    assert (done.code, done.err) == (0, "")
    assert diff in me.plain(done.out)
    assert f"{client}: installed: ~/{path}\n" in done.out
    assert me.files()[f"{path}.tellwire-backup-1"].decode() == text
    removed = [line for line in text.splitlines() if line not in target.read_text("utf-8")]
    assert not removed, "comments and foreign settings stay"
    gone = me.run("uninstall", client, "--yes")
    assert f"{client}: removed tellwire's entries from ~/{path}\n" in gone.out, "the file itself stays"


def test_a_file_that_was_tellwires_alone_is_deleted_and_called_so(me: Person) -> None:
    me.has_all()
    assert me.run("install", "gemini", "--yes").code == 0
    gone = me.run("uninstall", "gemini", "--yes")
    assert "gemini: deleted ~/.gemini/settings.json\n" in gone.out


def test_a_second_run_has_nothing_to_do_and_uninstall_restores_everything(me: Person) -> None:
    me.has_all()
    me.write(".gemini/settings.json", GEMINI)
    me.write(".codex/config.toml", CODEX)
    me.write(".claude/settings.json", '{"permissions": {"allow": ["Bash(ls)"]}}').chmod(0o640)
    before = me.files()
    first = me.run("install", "all", "--yes")
    assert (first.code, first.err) == (0, "")
    after = me.files()
    second = me.run("install", "all", "--yes")
    assert (second.code, second.out.count("nothing to do"), me.files()) == (0, 5, after)
    settings = me.home / ".claude/settings.json"
    gone = me.run("uninstall", "all", "--yes")
    assert (gone.code, gone.err) == (0, "")
    assert me.files() == before
    assert settings.stat().st_mode & 0o777 == 0o640
    assert me.run("uninstall", "all", "--yes").out.count("nothing to do") == 5
    assert not (me.state / "installed.json").exists()


def test_what_is_written_names_this_home_if_it_is_not_the_usual_one(me: Person, tmp_path: Path) -> None:
    other = str(tmp_path / "other home")
    assert me.run("install", "codex", "--yes", TELLWIRE_HOME=other).code == 0
    text = (me.home / ".codex/config.toml").read_text("utf-8")
    assert f'"--home={other}"]' in text
    assert text.count(f"'--home={other}'") == 7
    assert me.run("install", "codex", "--yes").code == 0
    assert "--home" not in (me.home / ".codex/config.toml").read_text("utf-8")


def test_a_project_gets_files_of_its_own(me: Person) -> None:
    done = me.run("install", "claude", "codex", "gemini", "opencode", "pi", "--project", "--yes")
    assert done.code == 0, done.err
    names = {str(path.relative_to(me.project)) for path in me.project.rglob("*") if path.is_file()}
    assert names == {
        ".mcp.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        "opencode.json",
        ".opencode/plugins/tellwire.js",
        ".opencode/tui.jsonc",
        ".opencode/tellwire/screen.js",
        ".pi/extensions/tellwire.ts",
    }
    assert set(me.files()) == {f"project/{name}" for name in names}
    assert me.run("uninstall", "all", "--yes").out.count("nothing to do") == 5
    assert me.run("uninstall", "all", "--project", "--yes").code == 0
    assert me.files() == {}


def test_files_behind_links_are_changed_where_they_are(me: Person) -> None:
    real = me.write("dotfiles/gemini.json", GEMINI)
    link = me.home / ".gemini" / "settings.json"
    link.parent.mkdir()
    link.symlink_to("../dotfiles/gemini.json")
    assert me.run("install", "gemini", "--yes").code == 0
    assert link.is_symlink()
    assert '"tellwire"' in real.read_text("utf-8")
    assert me.run("uninstall", "gemini", "--yes").code == 0
    assert (link.is_symlink(), real.read_text("utf-8")) == (True, GEMINI)


# -- asking -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code", "written"), [("y\n", 0, True), ("n\n", 130, False), ("\n", 130, False)]
)
def test_at_a_terminal_it_asks(me: Person, answer: str, code: int, written: bool) -> None:
    ended, shown = me.answer(answer, "install", "claude")
    assert "Change these 2 files? [y/N, d shows the diff]" in shown
    assert (ended, bool(me.files())) == (code, written)


@pytest.mark.parametrize("words", [("install", "gemini"), ("install", "gemini", "--json")])
def test_without_a_terminal_it_wants_a_yes(me: Person, words: tuple[str, ...]) -> None:
    done = me.run(*words)
    assert (done.code, me.files()) == (75, {})
    assert "add `--yes`." in done.err


# -- refusing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "where"),
    [
        (".claude/settings.json", '{\n  "permissions": {,}\n}\n', "line 2, column 19"),
        (".claude/settings.json", "model = 1\n", "line 1, column 1"),
        (".claude/settings.json", "{\n  // mine\n}\n", "line 2, column 3: no comments are allowed here"),
        (".claude.json", '{"a": 1', "line 1, column 8"),
        (".claude.json", '{"a": "\udce4"}', "line 1, column 8: this is not UTF-8"),
    ],
)
def test_a_broken_file_is_left_alone_and_told_and_the_others_go_on(
    me: Person, path: str, text: str, where: str
) -> None:
    target = me.home / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = me.files()
    done = me.run("install", "claude", "gemini", "--yes")
    assert done.code == 64
    assert f"claude: {target}, {where}" in done.err
    assert "gemini: installed" in done.out
    assert {name: data for name, data in me.files().items() if "gemini" not in name} == before
    told = me.json("install", "claude", "--yes")
    assert told["clients"][0]["error"]["code"] == "bad_request"
    assert me.json("install", "--check", "claude")["clients"][0]["state"] == "broken"


def test_broken_toml_is_left_alone_and_told(me: Person) -> None:
    target = me.write(".codex/config.toml", 'model = "x"\n[mcp_servers\n')
    done = me.run("install", "codex", "--yes")
    assert (done.code, f"{target}, line 2, column 13" in done.err) == (64, True)
    assert me.run("uninstall", "codex", "--yes").code == 64
    assert target.read_text("utf-8") == 'model = "x"\n[mcp_servers\n'


def test_a_read_only_file_is_refused_with_advice(me: Person) -> None:
    target = me.write(".gemini/settings.json", "{}")
    target.chmod(0o444)
    done = me.run("install", "gemini", "--yes")
    assert done.code == 77
    assert f"gemini: {target} is read-only.\n  Make it writable" in done.err
    assert me.files() == {".gemini/settings.json": b"{}"}


def test_a_folder_in_the_place_of_a_file_is_refused(me: Person) -> None:
    (me.home / ".gemini" / "settings.json").mkdir(parents=True)
    done = me.run("install", "gemini", "--yes")
    assert (done.code, "is not a file" in done.err) == (77, True)


def test_all_means_what_is_on_this_machine(me: Person) -> None:
    nothing = me.run("install", "all", "--yes")
    assert (nothing.code, "No agent CLI was found" in nothing.err) == (64, True)
    me.has("codex", VERSIONS["codex"])
    me.write(".gemini/settings.json", "{}")
    told = {each["client"]: each["status"] for each in me.json("install", "all", "--yes")["clients"]}
    assert told == {
        "claude": "skipped",
        "codex": "installed",
        "gemini": "installed",
        "opencode": "skipped",
        "pi": "skipped",
    }


@pytest.mark.parametrize(
    "words", [("install",), ("install", "emacs"), ("uninstall",), ("install", "all", "--fast")]
)
def test_a_wrong_command_line_is_refused(me: Person, words: tuple[str, ...]) -> None:
    done = me.run(*words)
    assert (done.code, "Usage:" in done.err, me.files()) == (64, True, {})


def test_two_at_once_do_it_once(me: Person) -> None:
    me.has_all()
    me.write(".claude.json", '{\n  "numStartups": 7\n}\n')
    before = me.files()
    ended = [finish(child) for child in [me.start("install", "all", "--yes") for _ in range(4)]]
    assert [done.code for done in ended] == [0] * 4, [done.err for done in ended]
    text = (me.home / ".codex/config.toml").read_text("utf-8")
    assert text.count("[[hooks.Stop]]") == 1
    assert me.json("install", "--check", "claude", "gemini", "opencode")["fine"]
    ended = [finish(child) for child in [me.start("uninstall", "all", "--yes") for _ in range(4)]]
    assert [done.code for done in ended] == [0] * 4, [done.err for done in ended]
    assert me.files() == before


# -- checking -----------------------------------------------------------------------------------------


def test_check_tells_what_is_missing_and_what_is_out_of_date(me: Person) -> None:
    me.has_all()
    absent = me.run("install", "--check")
    assert absent.code == 1
    assert re.search(r"claude +2\.1\.325 +absent", absent.out)
    assert "claude: run `tellwire install claude`" in absent.out
    assert me.files() == {}
    assert me.run("install", "claude", "--yes").code == 0
    assert (me.run("install", "--check", "claude").code, me.state.exists()) == (0, True)
    settings = me.home / ".claude/settings.json"
    settings.write_text(settings.read_text("utf-8").replace('"timeout": 3', '"timeout": 10'), "utf-8")
    late = me.run("install", "--check", "claude")
    assert late.code == 1
    assert re.search(
        r"settings\.json is out of date in hooks\.SessionStart, hooks\.UserPromptSubmit", late.out
    )
    assert me.run("install", "claude", "--yes").code == 0
    assert me.run("install", "--check", "claude").code == 0
    settings.write_text(settings.read_text("utf-8").replace("mcp__tellwire__*", "x"), "utf-8")
    (report,) = me.json("install", "--check", "claude")["clients"]
    assert (report["state"], report["files"][1]["missing"]) == (
        "incomplete",
        ["permissions.allow: mcp__tellwire__*"],
    )


def test_check_tells_whether_codex_trusts_the_hooks(me: Person) -> None:
    me.has_all()
    installed = me.run("install", "codex", "--yes")
    assert 'choose "Trust all and continue"' in installed.out
    (report,) = me.json("install", "--check", "codex")["clients"]
    assert (report["state"], report["trusted"], report["fine"]) == ("installed", False, False)
    config = me.home / ".codex" / "config.toml"
    assert "hooks.state" not in config.read_text("utf-8"), "tellwire never writes it"


@pytest.mark.requirement("INST-4")
@pytest.mark.parametrize(
    ("says", "code", "words"),
    [
        ("2.1.197 (Claude Code)", 76, "Claude Code 2.1.197 is too old; 2.1.300 or newer is needed."),
        ("2.1.300", 0, "claude: installed"),
        ("2.1.999", 0, "Claude Code 2.1.999 is newer than 2.1.325, the newest version tested."),
        ("3.0.0-beta.1", 0, "Claude Code 3.0.0 is not known to work; the newest version tested is 2.1.325."),
        ("no idea", 0, "does not report its version; 2.1.300 or newer is needed."),
    ],
)
def test_the_version_of_the_client_counts(me: Person, says: str, code: int, words: str) -> None:
    me.has("claude", says)
    done = me.run("install", "claude", "--yes")
    assert (done.code, words in done.out + done.err) == (code, True), done
    assert bool(me.files()) == (code == 0)
    checked = me.run("install", "--check", "claude")
    assert checked.code == (0 if "installed" in words or "is newer" in words else 1)
    assert "installed" in words or words in checked.out


def test_a_client_is_asked_for_its_version_without_our_secrets_and_our_input(me: Person) -> None:
    seen = me.home / "seen"
    me.has("claude", "2.1.325", more=f"env > {seen}; cat >> {seen}")
    secrets = {"ANTHROPIC_API_KEY": "secret", "TELLWIRE_LOG_LEVEL": "debug"}
    assert me.run("install", "--check", "claude", **secrets).code == 1
    text = seen.read_text("utf-8")
    assert "PATH=" in text
    assert "secret" not in text
    assert "TELLWIRE" not in text


def test_programs_are_told_everything(me: Person) -> None:
    me.has_all()
    told = me.json("install", "gemini", "--yes")
    (client,) = told["clients"]
    (file,) = client["files"]
    assert (client["status"], client["version"], file["change"]) == ("installed", "0.61.0", "create")
    assert file["diff"].startswith("--- /dev/null\n+++ ~/.gemini/settings.json\n")
    (gone,) = me.json("uninstall", "gemini", "--yes")["clients"]
    assert (gone["status"], gone["files"][0]["change"]) == ("removed", "remove")


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_help_has_examples(me: Person, command: str) -> None:
    done = me.run(command, "--help")
    assert (done.code, "Examples:" in done.out) == (0, True)
