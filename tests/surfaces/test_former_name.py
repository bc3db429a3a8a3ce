"""What was installed under the former name: told by `doctor`, taken out by `install` and `uninstall`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.install_world import Person

CLIENTS = ("claude", "codex", "gemini", "opencode", "pi")
FILES = {
    ".claude.json": '{"mcpServers": {"other": {"command": "other"}}, "numStartups": 3}',
    ".claude/settings.json": '{\n\t"permissions": {"allow": ["Bash(ls)"], "deny": []},\n\t"hooks": {}\n}',
    ".codex/config.toml": 'model = "gpt-5.5" # the good one\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\n'
    'type = "command"\ncommand = "say done"\n',
    ".gemini/settings.json": '{\n  // which model\n  "model": {"name": "gemini-2.5-pro"}\n}\n',
    ".config/opencode/opencode.jsonc": '{\n  "permission": {"bash": "ask"}, // careful\n}\n',
    ".config/opencode/plugins/other.js": "// another's\n",
}
"""A person's own settings."""
ANOTHERS = {
    ".claude.json": '{"mcpServers": {"palaver": {"command": "palaver", "args": ["serve"]}}}',
    ".claude/settings.json": '{"permissions": {"allow": ["mcp__palaver__*"]}, "hooks": {"Stop": [{"hooks": '
    '[{"type": "command", "command": "/opt/palaver/bin/hook.py"}]}]}}',
    ".codex/config.toml": '[mcp_servers.palaver]\ncommand = "palaver"\n',
    ".gemini/settings.json": '{"mcpServers": {"palaver": {"command": "palaver"}}}',
    ".config/opencode/opencode.json": '{"mcp": {"palaver": {"type": "local", "command": ["palaver"]}}, '
    '"permission": {"palaver_*": "allow"}}',
    ".config/opencode/plugins/palaver.js": "// A plugin of another program.\n",
    ".pi/agent/extensions/palaver.ts": "// An extension of another program.\n",
}
"""Those of somebody who has another program of that name."""
SERVER = re.compile(r'"[^"]*/bin/tellwire-launcher"([^"]*(?:"args"[^"]*)?)"mcp"')
LATER = ("tui.jsonc", "screen.js")
"""What nothing of the former name has ever written."""


@pytest.fixture
def me(tmp_path: Path) -> Person:
    person = Person(tmp_path)
    person.has_all()
    return person


def then(text: str) -> str:
    """As it was written under the former name, when a server was a shim and there was no launcher."""
    return SERVER.sub(r'"/usr/bin/python3"\1"/opt/palaver/relay/mcp_shim.py"', text).replace(
        "tellwire", "palaver"
    )


def install_then(me: Person, *words: str) -> None:
    """Leave everything as an installation under the former name left it, its home included."""
    done = me.run("install", *words, "--yes")
    assert (done.code, done.err) == (0, "")
    old_home = me.state.with_name("palaver")
    me.state.rename(old_home)
    for folder in ("bin", "lib"):
        shutil.rmtree(old_home / folder)
    for path in [path for name in LATER for path in me.home.rglob(name)]:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    for path in sorted(path for path in me.home.rglob("*") if path.is_file()):
        text = path.read_text("utf-8")
        if then(text) != text:
            path.write_text(then(text), "utf-8")
        if then(path.name) != path.name:
            path.rename(path.with_name(then(path.name)))
    records = old_home / "installed.json"
    known = json.loads(records.read_text("utf-8"))
    known["files"] = [each for each in known["files"] if Path(each["path"]).name not in LATER]
    for record in known["files"]:
        record["written_sha256"] = hashlib.sha256(Path(record["path"]).read_bytes()).hexdigest()
    records.write_text(json.dumps(known), "utf-8")


def configurations(me: Person) -> dict[str, bytes]:
    """All files, but for both homes."""
    return {name: data for name, data in me.files().items() if not name.startswith(".local/state/")}


def old_home(me: Person) -> dict[str, bytes]:
    return {name: data for name, data in me.files().items() if name.startswith(".local/state/palaver/")}


def says_the_old_name(me: Person) -> list[str]:
    """Configurations with the old name in them, copies from before left out."""
    return [
        name
        for name, data in configurations(me).items()
        if "-backup-" not in name and (b"palaver" in data or "palaver" in name)
    ]


@pytest.fixture
def before(me: Person) -> dict[str, bytes]:
    for path, text in FILES.items():
        me.write(path, text)
    return configurations(me)


@pytest.mark.parametrize("client", CLIENTS)
def test_uninstall_restores_what_was_before_the_old_name(
    me: Person, before: dict[str, bytes], client: str
) -> None:
    install_then(me, client)
    assert says_the_old_name(me)
    home = old_home(me)
    done = me.run("uninstall", client, "--yes")
    assert (done.code, done.err) == (0, "")
    assert configurations(me) == before
    assert old_home(me) == home, "a home of the old name is left alone"
    assert "nothing to do" in me.run("uninstall", client, "--yes").out


@pytest.mark.parametrize("client", CLIENTS)
def test_install_replaces_the_old_name_and_uninstall_restores_what_was_before_it(
    me: Person, before: dict[str, bytes], client: str
) -> None:
    install_then(me, client)
    home = old_home(me)
    done = me.run("install", client, "--yes")
    assert (done.code, done.err) == (0, "")
    assert says_the_old_name(me) == []
    assert "nothing to do" in me.run("install", client, "--yes").out
    (report,) = me.json("install", client, "--check")["clients"]
    assert report["state"] == "installed"
    gone = me.run("uninstall", client, "--yes")
    assert (gone.code, gone.err) == (0, "")
    assert configurations(me) == before
    assert old_home(me) == home


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize("client", CLIENTS)
def test_without_the_old_home_the_entries_are_known_by_their_looks(
    me: Person, before: dict[str, bytes], client: str, command: str
) -> None:
    install_then(me, client)
    for path in me.state.with_name("palaver").iterdir():
        path.unlink()
    assert me.run(command, client, "--yes").code == 0
    assert says_the_old_name(me) == []
    if command == "install":
        (report,) = me.json("install", client, "--check")["clients"]
        assert report["state"] == "installed"
        assert me.run("uninstall", client, "--yes").code == 0
        assert says_the_old_name(me) == []
    after = configurations(me)
    if client == "claude":  # an empty object may be ours
        before[".claude/settings.json"] = before[".claude/settings.json"].replace(b',\n\t"hooks": {}', b"")
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("client", CLIENTS)
def test_another_program_of_the_old_name_keeps_its_entries(me: Person, client: str) -> None:
    for path, text in ANOTHERS.items():
        me.write(path, text)
    theirs = configurations(me)
    assert "nothing to do" in me.run("uninstall", client, "--yes").out
    assert configurations(me) == theirs
    done = me.run("install", client, "--yes")
    assert (done.code, done.err) == (0, "")
    (report,) = me.json("install", client, "--check")["clients"]
    assert (report["state"], [note for note in report["notes"] if "old name" in note]) == ("installed", [])
    for name, text in ANOTHERS.items():
        words = ("palaver", "mcp__palaver__*", "/opt/palaver/bin/hook.py", "another program")
        assert all(word in configurations(me)[name].decode() for word in words if word in text), name
    assert me.run("uninstall", client, "--yes").code == 0
    assert configurations(me) == theirs


@pytest.mark.parametrize("recorded", [True, False])
def test_a_plugin_folder_of_the_old_name_becomes_one_of_the_new(me: Person, *, recorded: bool) -> None:
    folder = me.home / "plugin"
    install_then(me, "claude", "--plugin", str(folder))
    if not recorded:
        (me.state.with_name("palaver") / "installed.json").unlink()
    manifest = folder / ".claude-plugin" / "plugin.json"
    assert json.loads(manifest.read_text("utf-8"))["name"] == "palaver"
    assert me.run("install", "claude", "--plugin", str(folder), "--yes").code == 0
    assert says_the_old_name(me) == []
    assert json.loads(manifest.read_text("utf-8"))["name"] == "tellwire"
    assert me.run("uninstall", "claude", "--plugin", str(folder), "--yes").code == 0
    left = {path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
    assert left == (set() if recorded else {"{}\n"}), "without a record nothing tells who made a file"
    assert folder.exists() == (not recorded)


def findings(me: Person) -> dict[str, Any]:
    return {check["about"]: check for check in me.json("doctor")["checks"]}


def test_doctor_tells_the_entries_and_the_home_of_the_old_name(me: Person) -> None:
    install_then(me, "all")
    home = old_home(me)
    found = findings(me)
    for client in CLIENTS:
        assert found[client]["level"] == "warn"
        assert "There are entries from the old name, palaver, in " in found[client]["words"]
        assert found[client]["advice"] == f"Run `tellwire install {client}`."
    assert found["old home"]["level"] == "warn"
    assert found["old home"]["words"].startswith(f"{me.state.with_name('palaver')} is from the old name")
    assert old_home(me) == home
    assert me.run("install", "all", "--yes").code == 0
    found = findings(me)
    assert not [client for client in CLIENTS if "old name" in found[client]["words"]]
    assert "old home" in found, "it stays until its owner deletes it"
