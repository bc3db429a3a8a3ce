"""The launcher in tellwire's home: what client configurations name, while the program moves and goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.world import until
from tests.surfaces.install_world import Person

PACKAGE = Path(__file__).parents[2] / "src" / "tellwire"
BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tellwire.cli.main import main; main()"
COMMAND_S = 60
CLIENTS = ("claude", "codex", "gemini", "opencode", "pi")
FILES = {
    ".claude.json": '{"mcpServers": {"other": {"command": "other"}}, "numStartups": 3}',
    ".claude/settings.json": '{\n\t"permissions": {"allow": ["Bash(ls)"], "deny": []},\n\t"hooks": {}\n}',
    ".codex/config.toml": 'model = "gpt-5.5" # the good one\r\n\r\n[[hooks.Stop]]\r\n[[hooks.Stop.hooks]]\r\n'
    'type = "command"\r\ncommand = "say done"\r\n',
    ".gemini/settings.json": '{\n  // which model\n  "model": {"name": "gemini-2.5-pro"}\n}\n',
    ".config/opencode/opencode.jsonc": '{\n  "permission": {"bash": "ask"}, // careful\n}\n',
}
"""A person's own settings: tabs, line ends of another system, comments."""
MORE = {
    ".claude/settings.json": ('"deny": []', '"deny": ["Bash(rm)"]'),
    ".codex/config.toml": ('"gpt-5.5" # the good one', '"gpt-6" # the new one'),
    ".gemini/settings.json": ("gemini-2.5-pro", "gemini-3-pro"),
    ".config/opencode/opencode.jsonc": ("// careful", "// very careful"),
}
"""What the person changes after the installation."""

pytestmark = pytest.mark.requirement("INST-2", stage="install")


class Program:
    """A tellwire of its own somewhere on the disk, which can be moved and removed."""

    def __init__(self, folder: Path, me: Person) -> None:
        self.folder = folder
        self._me = me
        shutil.copytree(PACKAGE, folder / "tellwire", ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", BOOT, str(self.folder), *words],
            env=self._me.environment(),
            cwd=self._me.project,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode in (0, 1), f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def launch(me: Person, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the launcher by its path, as a client or a person does."""
    return subprocess.run(
        [str(me.state / "bin" / "tellwire-launcher"), *words],
        env=me.environment(),
        cwd=me.project,
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def run_hook(me: Person, command: str, payload: str = '{"hook_event_name":"Stop"}') -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=me.environment(),
        input=payload,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def hooks_of_claude(me: Person) -> list[str]:
    settings = json.loads((me.home / ".claude/settings.json").read_text())
    return [
        hook["command"] for event in settings["hooks"].values() for group in event for hook in group["hooks"]
    ]


@pytest.fixture
def me(tmp_path: Path) -> Person:
    person = Person(tmp_path)
    person.has_all()
    for name, text in FILES.items():
        person.write(name, "").write_bytes(text.encode())
    return person


@pytest.fixture
def program(me: Person, tmp_path: Path) -> Program:
    made = Program(tmp_path / "one", me)
    made.run("install", "all", "--yes")
    return made


def test_configurations_name_nothing_but_the_home(me: Person, program: Program) -> None:
    written = b"".join(me.files().values())
    assert os.fsencode(program.folder) not in written
    assert os.fsencode(sys.prefix) not in written
    assert os.fsencode(me.state) in written


def test_an_installation_elsewhere_changes_no_configuration_and_hooks_lead_to_it(
    me: Person, program: Program, tmp_path: Path
) -> None:
    before = me.files()
    other = Program(tmp_path / "two", me)
    told = other.run("doctor")
    assert str(program.folder) in told, "doctor says that they differ"
    assert str(other.folder) in told
    program.remove()
    other.run("install", "all", "--yes")
    assert me.files() == before
    assert (me.state / "lib" / "tellwire").resolve() == other.folder / "tellwire"


async def test_the_next_broker_mends_a_launcher_that_leads_nowhere(me: Person, program: Program) -> None:
    program.remove()
    told = me.run("doctor")
    assert "which is gone; hooks do nothing" in told.out
    assert me.run("up", "--detach").code == 0
    try:
        link = me.state / "lib" / "tellwire"
        await until(lambda: link.resolve() == PACKAGE)
    finally:
        me.run("down")


def test_without_the_program_hooks_are_silent_and_servers_have_no_tools(me: Person, program: Program) -> None:
    program.remove()
    commands = hooks_of_claude(me)
    assert len(commands) > 8
    assert {run_hook(me, command) for command in commands} == {(0, "")}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "resources/list"},
    ]
    done = launch(me, "mcp", text="garbage\n" + "".join(f"{json.dumps(line)}\n" for line in lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert answers[1]["result"] == {"tools": []}
    assert answers[2]["error"]["code"] == -32601


def test_without_the_interpreter_hooks_are_silent(me: Person, program: Program) -> None:
    del program
    (me.state / "bin" / "python").unlink()
    (me.state / "bin" / "python").symlink_to("/nowhere/python3")
    assert {run_hook(me, command) for command in hooks_of_claude(me)} == {(0, "")}


def test_the_launcher_alone_uninstalls_byte_for_byte(me: Person, program: Program) -> None:
    program.remove()
    asked = launch(me, "uninstall", "all")
    assert asked.returncode != 0
    assert "--yes" in asked.stderr
    done = launch(me, "uninstall", "all", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert me.files() == {name: text.encode() for name, text in FILES.items()}
    assert not (me.state / "bin").exists()
    assert not (me.state / "lib").exists()


def test_the_launcher_alone_leaves_what_a_person_has_changed_since(me: Person, program: Program) -> None:
    for name, (old, new) in MORE.items():
        path = me.home / name
        path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    program.remove()
    done = launch(me, "uninstall", "all", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    expected = {name: text.encode() for name, text in FILES.items()}
    for name, (old, new) in MORE.items():
        expected[name] = expected[name].replace(old.encode(), new.encode())
    assert me.files() == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_the_launcher_alone_uninstalls_one_client(me: Person, program: Program, client: str) -> None:
    program.remove()
    assert launch(me, "uninstall", client, "--yes").returncode == 0
    kept = json.loads((me.state / "installed.json").read_text())["files"]
    assert len({each["client"] for each in kept}) == len(CLIENTS) - 1
    assert (me.state / "bin" / "tellwire-launcher").exists()
    assert launch(me, "uninstall", "all", "--yes").returncode == 0
    assert me.files() == {name: text.encode() for name, text in FILES.items()}


def test_the_launcher_alone_says_what_it_can_do(me: Person, program: Program) -> None:
    program.remove()
    done = launch(me, "list")
    assert done.returncode == 69
    assert "uninstall all" in done.stderr
    assert "claude-code" in done.stderr


def test_with_the_program_the_launcher_is_the_command(me: Person, program: Program) -> None:
    del program
    done = launch(me, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tellwire")


def test_uninstall_takes_the_launcher_away_with_the_last_client(me: Person, program: Program) -> None:
    program.run("uninstall", "claude", "--yes")
    assert (me.state / "bin" / "tellwire-launcher").exists()
    program.run("uninstall", "all", "--yes")
    assert not (me.state / "bin").exists()


def test_two_installations_at_once_leave_one_whole_launcher(
    me: Person, program: Program, tmp_path: Path
) -> None:
    other = Program(tmp_path / "two", me)
    words = ["install", "all", "--yes"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BOOT, str(each.folder), *words],
            env=me.environment(),
            cwd=me.project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for each in (program, other) * 2
    ]
    assert [each.wait(COMMAND_S) for each in running] == [0] * 4
    assert sorted(path.name for path in (me.state / "lib").iterdir()) == ["python", "removal.zip", "tellwire"]
    told = [command for command in hooks_of_claude(me) if "waiter.py" not in command]
    assert {run_hook(me, command)[0] for command in told} == {0}
    me.run("down")
