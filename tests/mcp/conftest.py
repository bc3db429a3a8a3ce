"""The server under test and the programs that test it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp import node as programs
from tests.mcp.node import Conformance, Inspector


@pytest.fixture(scope="session")
def server_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The stdio server under test, as a command line, and a broker of its own behind it."""
    home = tmp_path_factory.mktemp("home")
    tellwire = str(Path(sys.executable).parent / "tellwire")
    yield ("env", f"TELLWIRE_HOME={home}", tellwire, "mcp")
    subprocess.run([tellwire, "down"], env={"TELLWIRE_HOME": str(home)}, check=True, timeout=30)


@pytest.fixture
def parrot_command() -> tuple[str, ...]:
    """A stdio server that says what a test wants."""
    return (sys.executable, str(Path(__file__).parent / "parrot.py"))


@pytest.fixture(scope="session")
def node() -> Path:
    """The node program of .venv."""
    return programs.find_node()


@pytest.fixture
def inspector(node: Path, tmp_path: Path, server_command: tuple[str, ...]) -> Inspector:
    """The MCP Inspector, pointed at the server under test."""
    return Inspector(node, tmp_path, server_command)


@pytest.fixture
def conformance(node: Path, tmp_path: Path) -> Conformance:
    """The conformance suite."""
    return Conformance(node, tmp_path)
