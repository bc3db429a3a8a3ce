"""`tellwire run` with clients that only show how they were started. The real ones: tests/end_to_end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.world import tellwire_command
from tests.surfaces.install_world import Person

CLIENTS = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini-cli",
    "opencode": "opencode",
    "pi": "pi",
}
COMMAND_S = 60

pytestmark = pytest.mark.requirement("INST-3", stage="install")


def start(me: Person, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tellwire_command("run", *words),
        env=me.environment(),
        cwd=me.project,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


def plan(me: Person, *words: str) -> list[Any]:
    done = start(me, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["clients"]


@pytest.fixture
def me(tmp_path: Path) -> Person:
    person = Person(tmp_path)
    person.has_all()
    return person


@pytest.fixture(autouse=True)
def ended(me: Person) -> Any:
    yield
    me.run("down")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_started_with_its_words_and_its_name_is_told(me: Person, client: str) -> None:
    me.has(client, "started", more='for word; do echo "<$word>"; done')
    before = me.files()
    done = start(me, client, "--resume", "two words")
    assert done.returncode == 0
    assert done.stdout.endswith("<--resume>\n<two words>\nstarted\n"), "what follows is passed on"
    assert done.stderr.startswith(f"project-{client}: ")
    assert me.files() == before, "nothing of the person's is changed"


@pytest.mark.parametrize(("word", "other"), CLIENTS.items())
def test_both_words_for_a_client_mean_the_same(me: Person, word: str, other: str) -> None:
    assert plan(me, word) == plan(me, other)
    assert me.run("install", other, "--dry-run").out == me.run("install", word, "--dry-run").out
    unknown = me.run("spawn", "x", "clod", "--task", "y")
    assert "clod" in unknown.err
    assert other in unknown.err


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_with_tellwire_in_its_configuration_is_started_as_it_is(me: Person, client: str) -> None:
    assert me.run("install", client, "--yes").code == 0
    (planned,) = plan(me, client, "--resume")
    assert planned["words"][1:] == ["--resume"]
    assert (planned["environment"], planned["notes"]) == ({}, [])


def test_a_permission_alone_is_not_an_installation(me: Person) -> None:
    me.write(".claude/settings.json", '{"permissions": {"allow": ["mcp__tellwire__*"]}}')
    (planned,) = plan(me, "claude")
    assert "--settings" in planned["words"]


def test_several_clients_have_names_of_their_own(me: Person) -> None:
    names = [each["name"] for each in plan(me, "claude", "codex", "claude")]
    assert names == ["project-claude", "project-codex", "project-claude-2"]


def test_settings_in_the_environment_and_of_the_person_stay_in_use(me: Person) -> None:
    me.write(".gemini/settings.json", '{\n  // mine\n  "model": {"name": "x"}\n}\n')
    me.write(".gemini/oauth_creds.json", "{}")
    (planned,) = plan(me, "gemini")
    own = Path(planned["environment"]["GEMINI_CLI_HOME"]) / ".gemini"
    text = (own / "settings.json").read_text("utf-8")
    assert "// mine" in text
    assert "tellwire-launcher" in text
    assert (own / "oauth_creds.json").resolve() == me.home / ".gemini" / "oauth_creds.json"
    # A file that the client put in a link's place is the person's the next time.
    (own / "oauth_creds.json").unlink()
    (own / "oauth_creds.json").write_text('{"new": 1}', "utf-8")
    plan(me, "gemini")
    assert (me.home / ".gemini" / "oauth_creds.json").read_text("utf-8") == '{"new": 1}'


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name a client"),
        (("cloud",), "'cloud' is not an agent CLI"),
        (("claude", "codex", "--resume"), "one client only"),
    ],
)
def test_words_that_make_no_sense_are_refused(me: Person, words: tuple[str, ...], told: str) -> None:
    done = start(me, *words)
    assert done.returncode == 64
    assert told in done.stderr


def test_a_client_that_is_not_installed_is_told_with_its_package(me: Person) -> None:
    (me.bin / "pi").unlink()
    done = start(me, "pi")
    assert done.returncode == 64
    assert "npm install -g" in done.stderr
