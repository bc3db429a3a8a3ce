"""The built package, installed the way people install it, into an empty home and from files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tellwire.version import VERSION
from tests.surfaces.install_world import Person

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".wheels"
INSTALL_S = 180
COMMAND_S = 60

pytestmark = [pytest.mark.requirement("INST-1", stage="install"), pytest.mark.timeout(600)]


def interpreters() -> list[str]:
    """Each Python here for which `make test` has fetched the packages."""
    known = WHEELS / "pythons"
    return known.read_text().split() if known.exists() else []


@dataclass(frozen=True)
class Built:
    """What a release consists of."""

    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], os.environ, cwd=ROOT)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


def _run(command: list[str], environment: Mapping[str, str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


# -- the ways to install it ---------------------------------------------------------------------------


def by_pip(package: Path, python: str, folder: Path, environment: dict[str, str]) -> Path:
    _run([python, "-m", "venv", str(folder / "venv")], environment)
    _run([str(folder / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(package)], environment)
    return folder / "venv/bin/tellwire"


def by_pipx(package: Path, python: str, folder: Path, environment: dict[str, str]) -> Path:
    places = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
    command = [sys.executable, "-m", "pipx", "install", "--python", python, str(package)]
    _run(command, environment | places)
    return folder / "bin/tellwire"


def by_uv(package: Path, python: str, folder: Path, environment: dict[str, str]) -> Path:
    places = {
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"),
    }
    uv = str(Path(sys.executable).with_name("uv"))
    _run([uv, "tool", "install", "--python", python, str(package)], environment | places)
    return folder / "bin/tellwire"


INSTALLERS: dict[str, tuple[Callable[[Path, str, Path, dict[str, str]], Path], str]] = {
    "pip, wheel": (by_pip, "wheel"),
    "pip, sdist": (by_pip, "sdist"),
    "pipx": (by_pipx, "wheel"),
    "uv tool": (by_uv, "wheel"),
}


@dataclass
class Installed:
    """A person who has installed tellwire, and nothing else."""

    person: Person
    command: Path

    def run(self, *words: str, text: str = "") -> str:
        done = subprocess.run(
            [str(self.command), *words],
            env=self.person.environment(),
            cwd=self.person.project,
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"tellwire {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def installed(request: pytest.FixtureRequest, built: Built, tmp_path: Path) -> Iterator[Installed]:
    """tellwire by one installer and one interpreter, from a folder of files instead of an index."""
    installer, python = request.param
    person = Person(tmp_path)
    person.has_all()
    offline = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(WHEELS / "files"),
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(WHEELS / "files"),
    }
    install, package = INSTALLERS[installer]
    command = install(getattr(built, package), python, tmp_path, person.environment(**offline))
    here = Installed(person, command)
    yield here
    here.run("down")


CASES = [
    pytest.param((installer, python), id=f"{installer}, {Path(python).name}")
    for installer in INSTALLERS
    for python in interpreters()
]


def test_the_packages_of_at_least_one_interpreter_are_there() -> None:
    assert interpreters(), "run scripts/setup-wheels, as `make test` does"


@pytest.mark.parametrize("installed", CASES, indirect=True)
def test_an_installed_package_has_every_surface(installed: Installed) -> None:
    assert VERSION in installed.run("--version")

    # The broker, the CLI and the mail in between; the first command starts the broker.
    installed.run("register", "bob")
    installed.run("send", "bob", "hello", "--as", "ann")
    assert "hello" in installed.run("inbox", "--as", "bob")
    assert json.loads(installed.run("status", "--json"))["version"] == VERSION

    # MCP on stdin and stdout.
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "package", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = installed.run("mcp", text="".join(f"{json.dumps(line)}\n" for line in lines))
    answers = {answer["id"]: answer for answer in map(json.loads, said.splitlines()) if "id" in answer}
    tools = {tool["name"] for tool in answers[2]["result"]["tools"]}
    assert {"agent_send", "spawn_agent"} <= tools

    # Hooks and plugins: what they start and read is part of the package.
    before = installed.person.files()
    installed.run("install", "all", "--yes")
    installed.run("install", "claude", "gemini", "opencode", "pi", "--check")  # Codex wants its trust dialog
    written = b"".join(installed.person.files().values())
    assert os.fsencode(ROOT) not in written, "nothing refers to the tree that it was built from"
    installed.run("uninstall", "all", "--yes")
    assert installed.person.files() == before

    # Completion.
    assert "tellwire" in installed.run("completion", "bash")


def test_the_package_holds_what_is_run_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        inside = wheel.namelist()
        metadata = wheel.read(next(name for name in inside if name.endswith("METADATA"))).decode()
    ours = {name for name in inside if name.startswith("tellwire/")}
    command = f"tellwire-{VERSION}.data/scripts/tellwire"
    assert set(inside) - ours == {command, *(name for name in inside if ".dist-info/" in name)}
    for needed in ("py.typed", "relay/gate.sh", "store/schema.sql", "federation/words.txt"):
        assert f"tellwire/{needed}" in ours
    assert {Path(name).suffix for name in ours} <= {".py", ".sh", ".sql", ".js", ".ts", ".txt", ".typed"}
    assert "Provides-Extra: machines" in metadata
    assert "Description-Content-Type: text/markdown" in metadata, "README is the package's page"
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "bin/tellwire", "src/tellwire/py.typed"} <= names
