"""A broker of its own, a scripted model, and the agent CLIs that talk through both."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

import palaver
from palaver.cli.mcp import shim_command
from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client
from tests.end_to_end.codex import Codex
from tests.end_to_end.gemini import Gemini
from tests.end_to_end.model import Model
from tests.end_to_end.opencode import OpenCode
from tests.integration.world import Home, Join

PROGRAMS: dict[str, type[Client]] = {each.short: each for each in (Claude, Codex, Gemini, OpenCode)}


class Install(Protocol):
    """Set a client up in the project, by its short name: with palaver's MCP server, or without."""

    def __call__(self, short: str, *, mesh: bool = True, **options: str) -> Client: ...


@pytest.fixture
def home() -> Iterator[Home]:
    """A home of its own with a running broker, in a folder with a short name."""
    here = Home(Path(tempfile.mkdtemp(prefix="plv-")))
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

        async def enter(name: str, **options: Any) -> palaver.Agent:
            return await stack.enter_async_context(palaver.connect(name, home=home.path, **options))

        yield enter


@pytest.fixture
def install(home: Home, model: Model, tmp_path: Path) -> Install:
    """Clients that share a project folder, each with a home and a model of its own."""

    def make(short: str, *, mesh: bool = True, **options: str) -> Client:
        client = PROGRAMS[short](tmp_path / short, tmp_path / "shop", model.url(short))
        client.configure(shim_command(home=str(home.path), **options) if mesh else ())
        return client

    return make
