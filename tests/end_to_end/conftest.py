"""A broker of its own, a scripted model, and the agent CLIs that talk through both."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

import tellwire
from tellwire.cli.commands.setup.mcp import shim_command
from tests.end_to_end.clients import Client
from tests.end_to_end.matrix import FAILS, ROWS, UNSTEADY, WRITING, outcomes, save_table
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.integration.world import Home, Join


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which cells of the delivery matrix failed, once or twice; write the table if that is wanted."""
    stats: dict[str, list[object]] = terminalreporter.stats
    reports = [each for some in stats.values() for each in some if isinstance(each, pytest.TestReport)]
    played = outcomes(each for each in reports if each.when == "call")
    shaky = {place: cell for place, cell in played.items() if cell.outcome in (UNSTEADY, FAILS)}
    if shaky:
        terminalreporter.section("delivery matrix")
    for (row, column), each in shaky.items():
        terminalreporter.line(f"{each.outcome}: {ROWS[row]}, {column}: {each.note}")
    if WRITING:
        save_table(played)


@pytest.fixture(scope="session", autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test uses the home of whoever runs it, nor settings of theirs."""
    empty = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in os.environ if each.startswith(("TELLWIRE_", "XDG_", "TMUX"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(empty))
        yield
    left = [str(path.relative_to(empty)) for path in empty.rglob("*")]
    assert not left, f"tests have left something in a home that is not theirs: {left}"


class Install(Protocol):
    """Set a client up in the project, by its short name: with tellwire's MCP server, or without."""

    def __call__(self, short: str, *, mesh: bool = True, **options: str) -> Client: ...


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own with a running broker, in a folder with a short name."""
    here = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        here.up()
        yield here
    finally:
        here.end()
        shutil.rmtree(here.path, ignore_errors=True)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    """The scripted model of all clients."""
    async with Model.open() as opened:
        yield opened


@pytest.fixture
async def join(home: Home) -> AsyncIterator[Join]:
    """Join the home's mesh under a name; left at the end of the test."""
    async with AsyncExitStack() as stack:

        async def enter(name: str, **options: Any) -> tellwire.Agent:
            return await stack.enter_async_context(tellwire.connect(name, home=home.path, **options))

        yield enter


@pytest.fixture
def install(home: Home, model: Model, tmp_path: Path) -> Install:
    """Clients that share a project folder, each with a home and a model of its own."""

    def make(short: str, *, mesh: bool = True, **options: str) -> Client:
        client = PROGRAMS[short](tmp_path / short, tmp_path / "shop", model.url(short))
        client.configure(shim_command(home=str(home.path), **options) if mesh else ())
        return client

    return make
