"""What the clients' markets get: one source, no drift, and a script that finds tellwire or keeps quiet."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.version import VERSION

ROOT = Path(__file__).parents[2]
SECONDS = 60
SCRIPTS = {"claude": "claude/tellwire.sh", "codex": "codex/tellwire.sh", "gemini": "tellwire.sh"}
PROGRAM = Path(sys.executable).with_name("tellwire")

pytestmark = pytest.mark.requirement("INST-6", stage="install")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release changes, as a copy."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("scripts", "src", "market"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml", "release.json"):
        shutil.copy(ROOT / name, copy)
    return copy


def generate(tree: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(tree / "scripts" / script), *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def documents(market: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(market.rglob("*.json")):
        yield path, json.loads(path.read_text("utf-8"))


def test_the_files_are_those_that_the_code_makes() -> None:
    done = generate(ROOT, "markets.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_changed_file_is_named(tree: Path) -> None:
    path = tree / "market" / "codex" / ".mcp.json"
    before = path.read_text("utf-8")
    path.write_text("{}", "utf-8")
    done = generate(tree, "markets.py", "--check")
    path.write_text(before, "utf-8")
    assert done.returncode == 1
    assert "codex/.mcp.json" in done.stderr


def test_nothing_names_an_owner_before_there_is_one() -> None:
    assert json.loads((ROOT / "release.json").read_text("utf-8")) == {"owner": ""}
    everything = "\n".join(path.read_text("utf-8") for path in (ROOT / "market").rglob("*") if path.is_file())
    assert "github.com" not in everything
    assert "mcp-name" not in (ROOT / "README.md").read_text("utf-8")
    assert "project.urls" not in (ROOT / "pyproject.toml").read_text("utf-8")


def test_all_have_the_version_of_the_program() -> None:
    versions = {
        str(path.relative_to(ROOT)): value["version"]
        for path, value in documents(ROOT / "market")
        if "version" in value
    }
    assert len(versions) >= 6
    assert set(versions.values()) == {VERSION}


def test_a_release_names_its_owner_everywhere_and_can_be_made_again(tree: Path) -> None:
    for owner in ("someone", "somebody-else"):
        assert generate(tree, "release.py", owner).returncode == 0
        assert generate(tree, "markets.py").returncode == 0
        found = dict(documents(tree / "market"))
        server = found[tree / "market" / "server.json"]
        check_server(server)
        assert server["name"] == f"io.github.{owner}/tellwire"
        readme = (tree / "README.md").read_text("utf-8")
        assert re.findall(r"mcp-name: (\S+)", readme) == [server["name"]]
        address = f"https://github.com/{owner}/tellwire"
        assert server["repository"]["url"] == address
        project = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["urls"] == {"Repository": address}
        named = [path for path, value in found.items() if address in json.dumps(value)]
        assert len(named) == 5, "server.json, two plugins, two npm packages"


@pytest.mark.parametrize("word", ["", "no owner", "a/b", "-x"])
def test_a_release_without_a_proper_owner_changes_nothing(tree: Path, word: str) -> None:
    before = (tree / "release.json").read_bytes()
    assert generate(tree, "release.py", word).returncode == 2
    assert (tree / "release.json").read_bytes() == before


def check_server(server: dict[str, Any]) -> None:
    """What the schema of the MCP registry asks of a package on PyPI, in the version that the file names."""
    assert server["$schema"].endswith("/2025-09-29/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 1 <= len(server["description"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", server["version"])
    (package,) = server["packages"]
    assert (package["registryType"], package["identifier"]) == ("pypi", "tellwire")
    assert package["version"] == server["version"]
    assert package["transport"] == {"type": "stdio"}
    assert all(each["type"] == "positional" and each["value"] for each in package["packageArguments"])


def test_a_skill_has_a_head_that_clients_read() -> None:
    texts = {path.read_text("utf-8") for path in (ROOT / "market").rglob("SKILL.md")}
    (text,) = texts
    head = text.split("---\n")[1]
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == "tellwire"
    assert len(fields["description"]) <= 1_024


# -- the script that finds tellwire -------------------------------------------------------------------


def play(client: str, word: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """As the client's shell would start it, without anything of this machine."""
    return subprocess.run(
        ["sh", str(ROOT / "market" / SCRIPTS[client]), word],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **more},
        input='{"hook_event_name": "Unknown"}',
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("client", SCRIPTS)
@pytest.mark.parametrize("word", ["hook", "gate", "guard", "waiter"])
def test_without_tellwire_a_hook_of_a_plugin_says_nothing(client: str, word: str, tmp_path: Path) -> None:
    done = play(client, word, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("client", SCRIPTS)
def test_without_tellwire_the_server_of_a_plugin_says_how_to_get_it(client: str, tmp_path: Path) -> None:
    done = play(client, "mcp", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "uv tool install tellwire" in done.stderr


@pytest.mark.parametrize("word", ["hook", "waiter"])
def test_a_program_whose_interpreter_is_gone_counts_as_none(word: str, tmp_path: Path) -> None:
    left = tmp_path / ".local" / "bin" / "tellwire"
    left.parent.mkdir(parents=True)
    left.write_text("#!/gone/bin/python\n", "utf-8")
    left.chmod(0o755)
    done = play("claude", word, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("client", SCRIPTS)
def test_a_client_that_install_has_equipped_is_not_hooked_twice(client: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TELLWIRE_HOME": str(home)}
    command = [str(PROGRAM), "install", client, "--yes"]
    subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=SECONDS, check=True)
    more = {"TELLWIRE_HOME": str(home), "PATH": f"{PROGRAM.parent}:/usr/bin:/bin"}
    hook, server = (play(client, word, tmp_path, **more) for word in ("hook", "mcp"))
    assert (hook.returncode, hook.stdout, hook.stderr) == (0, "", "")
    assert server.returncode == 1
    assert f"tellwire install {client}" in server.stderr
    assert not (home / "socket").exists(), "no broker was asked"


def test_a_hook_of_a_plugin_runs_the_program_on_the_path(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tellwire"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    assert play("gemini", "hook", tmp_path, PATH=path).stdout == "hook gemini-cli\n"
    assert play("claude", "waiter", tmp_path, PATH=path).stdout == "waiter claude-code\n"
    assert play("codex", "mcp", tmp_path, PATH=path).stdout == "mcp\n"
    assert play("codex", "gate", tmp_path, PATH=path).stdout == "", "there is no mark"


def test_a_hook_started_by_its_word_says_nothing_without_a_broker(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PROGRAM), "hook", "claude-code"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        input="{}",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
